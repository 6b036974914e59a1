/* Rules that the blocks of several kinds of sinks have in common. `path` is that of the block. On
 * failure the source's error is set. */
#pragma once

#include "config/config.h"
#include "config/source.h"

#include <stdbool.h>

/* The key that a value came from: its own, or that of the file. */
const char *written_as(
    const struct source *source, const char *path, const char *name, const char *file_name);

/* None of these keys may be in the file; the list ends with NULL. */
bool refuse_keys(
    const struct source *source, const char *path, const char *const *names, const char *reason);

/* `user` and `password` are given both, or neither. */
bool check_login(
    const struct source *source, const char *user, const char *password, const char *path);

/* `cert_file` and `key_file`, likewise. */
bool check_certificate(
    const struct source *source, const char *cert_file, const char *key_file, const char *path);

/* What stands for null in the block debezium is not for all of its forms. */
bool check_debezium_nulls(
    const struct source *source, const struct debezium_config *debezium, const char *path);
