/*
 * Reads the configuration on a thread of its own while the loop goes on. A file system that does
 * not answer blocks its caller, and no timeout helps. A thread of libuv's pool would be lost to the
 * pool for so long, and the process, which waits for all of them, could not end.
 */
#pragma once

#include "base/error.h"
#include "config/config.h"

#include <stdbool.h>
#include <uv.h>

struct config_reader;

/* Called in that thread: it touches nothing but its arguments. `text`: to be taken for the file's
 * contents; NULL: the file is read. Returns NULL and *error if it fails. */
typedef struct config *config_load_fn(
    const char *path, const char *text, size_t length, struct error *error);

/* Owns `config`; or it is NULL and *error, which is borrowed, says why. The reader is
 * destroyed. */
typedef void config_read_fn(void *owner, struct config *config, const struct error *error);

/* Reads the file; or, with `same`, the text of that configuration, which is copied, and the files
 * that it names. NULL and *error: no thread can be started, or one that was given up still waits
 * for its file. */
struct config_reader *config_reader_start(uv_loop_t *loop, const char *path,
    const struct config *same, config_load_fn *load, config_read_fn *on_done, void *owner,
    struct error *error);

/* It takes too long, or is not wanted any more. What it still reads is dropped. Sets *error, unless
 * that is NULL, to a text that names the file it waits for. */
void config_reader_give_up(struct config_reader *reader, struct error *error);
