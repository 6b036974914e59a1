/*
 * The relay as a service of systemd: says when it is ready, reloads and stops,
 * gives signs of life from the loop's own timer, so that a loop that hangs
 * gives none, and one line of words for `systemctl status`.
 *
 * Where no service manager listens all of this does nothing.
 */
#pragma once

#include <uv.h>

struct bytes;
struct systemd;

/* Appends what the relay is doing now, in words, for one line. */
typedef void systemd_status_fn(void *owner, struct bytes *out_words);

struct systemd *systemd_create(uv_loop_t *loop, systemd_status_fn *words, void *owner);
void systemd_destroy(struct systemd *systemd);

/* Not ready yet, or not any more, because of this. Borrowed for the call. */
void systemd_waiting(struct systemd *systemd, const char *reason);

/* Connected, and all is checked. May be said again. */
void systemd_ready(struct systemd *systemd);

/* The configuration is being loaded again; and that is over, well or not. Nothing before it is ready. */
void systemd_reloading(struct systemd *systemd);
void systemd_reloaded(struct systemd *systemd);

void systemd_stopping(struct systemd *systemd);
