/*
 * Files whose names come from outside. Opening a named pipe waits for its writer, opening a device
 * may do anything, and a file system that does not answer blocks its caller. So only regular files
 * are opened. A caller that cannot wait lets another thread do it, which tells what it is about to
 * touch.
 */
#pragma once

#include "base/error.h"

#include <sys/stat.h>

/* For reading. Returns -1 and sets *error to a reason that does not name the file: ERROR_PERMISSION
 * if it may not be read, ERROR_TEMPORARY if that is about this machine, else ERROR_CONFIG. */
int regular_file_open(const char *path, struct error *error);

/* For a file that a library will open: false, with the same reason, if it is there and something
 * else. What else may be wrong with it the library says. */
bool regular_file_check(const char *path, struct error *error);

/* As stat(2). */
int regular_file_stat(const char *path, struct stat *out_status);

/* From now on `watch` is told each path that this thread is about to touch by these functions; it
 * is borrowed for the call. NULL ends that. */
typedef void regular_file_watch_fn(void *owner, const char *path);
void regular_file_watch(regular_file_watch_fn *watch, void *owner);
