/*
 * Transactions that a frame does not show although they may have drawn ids
 * below its floor: those that its snapshot lists as in progress, and those from
 * its xmax on, which is the last completed transaction plus one, that began
 * before the frame's xid was drawn.
 */
#pragma once

#include "outbox/cursor.h"

#include <stdbool.h>
#include <stdint.h>

struct array_literal;

/* Adds their ids. False if so many may lie between xmax and xid that these are left out, and have to
 * be looked for: the xid was drawn long after the snapshot was taken. */
bool stragglers_list(const struct frame *frame, struct array_literal *ids);

/* None of them has a lower id. */
uint64_t stragglers_oldest(const struct frame *frame);
