/*
 * Who may make or update schema courier where a connection leads, and as whom
 * to connect for that: whoever is told to migrate is most often the relay's
 * role, which may not.
 */
#pragma once

#include "base/error.h"

struct blocking_conn;

struct schema_maker {
        bool is_us;    /* the connection's own role may */
        bool is_owner; /* it owns the database, or the schema */
        char *role;    /* owned */
        char *dsn;     /* owned: the same database as that role; without secrets */
};

bool schema_maker_find(struct blocking_conn *conn, struct schema_maker *out_maker,
    struct error *error) __attribute__((warn_unused_result));

/* "run `pgcourier migrate`", or who may and `us` may not, with the whole command. The caller's to free. */
char *schema_maker_words(const struct schema_maker *maker, const char *us);

void schema_maker_deinit(struct schema_maker *maker);
