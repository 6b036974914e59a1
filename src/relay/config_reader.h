/*
 * Reads the configuration while the loop goes on, on a thread of its own: a file system that does
 * not answer holds up whoever asks it, and nothing but its end ends that. A thread of libuv's pool
 * would be missing there for so long, and the process could not end, which waits for them all.
 */
#pragma once

#include "base/error.h"
#include "config/config.h"

#include <stdbool.h>
#include <uv.h>

struct reading;

/* Called in that thread: it touches nothing but its arguments and what belongs to nobody. `text`: what is
 * to be taken for the file's; NULL: what it says. NULL and *error. */
typedef struct config *reading_load_fn(
    const char *path, const char *text, size_t length, struct error *error);

/* Takes `config`, or it is NULL, for the reason *error (borrowed). The reading is destroyed. */
typedef void reading_done_fn(void *owner, struct config *config, const struct error *error);

/* Of the file; or, with `same`, of that one's text, which is copied, and of the files that it names. NULL
 * and *error: no thread can be started, or one that was given up still waits for its file. */
struct reading *reading_start(uv_loop_t *loop, const char *path, const struct config *same,
    reading_load_fn *load, reading_done_fn *on_done, void *owner, struct error *error);

/* It takes too long, or nobody wants it any more. What it still reads is forgotten. Sets *error to a
 * text that says which file it waits for; NULL: nobody asks. */
void reading_give_up(struct reading *reading, struct error *error);
