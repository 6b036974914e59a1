/*
 * The schemas in databases and the migrations that make them, embedded from
 * sql/ and sql/inbox/. A new migration is a file there, a line in
 * CMakeLists.txt and a row in schema.c.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>

/* The first key of the relays' advisory locks, "cour", as SQL writes it; lanes, the doorbell and the
 * maintenance have second keys of their own (courier.relay_lock). */
#define LOCK_CLASS "1668248946"

struct blocking_conn;

struct migration {
        int version;      /* 1, 2, 3 … */
        const char *name; /* as in sql/NNNN_name.sql */
        const char *sql;  /* the whole file; it records itself in the table schema_version */
};

struct schema {
        const char *name;
        const struct migration *migrations; /* all that this program knows, in order; ends with
                                               version 0 */
        const char *command;                /* what people call to make it */
        const char *roles;                  /* that it needs, as a text[] */
        const char *lock;                   /* SQL: waits until no other session migrates it */
        bool needs_utf8;
};

extern const struct schema outbox_schema; /* courier */
extern const struct schema inbox_schema;  /* courier_inbox, in a consumer's database */

/* The version that this program needs: that of the last migration. */
int schema_known_version(const struct schema *schema);

/* As found in a database: the last row of its table schema_version. */
struct schema_version {
        int number;      /* 0: there is no such table, or it is empty */
        int serves_from; /* the oldest version whose programs this schema serves as well */
};

/*
 * Judges it: ERROR_SCHEMA says what to do unless the program can use it. That is its own version,
 * or a later version that serves the program's: so relays of two versions run side by side between
 * `migrate` and the last restart.
 */
bool schema_check_version(const struct schema *schema, struct schema_version found,
    struct error *error) __attribute__((warn_unused_result));

/* The same of where the connection leads, with the whole command of a role that may migrate
 * there. */
bool schema_check(const struct schema *schema, struct blocking_conn *conn,
    struct schema_version found, struct error *error) __attribute__((warn_unused_result));

/* Checks the database's encoding: ERROR_SCHEMA for any but "UTF8", with what to do. Events and our
 * own texts may hold any Unicode character, and one that cannot be converted would stop all
 * deliveries. */
bool schema_check_encoding(const char *found, struct error *error)
    __attribute__((warn_unused_result));

/* A migration as found in a database. */
struct applied_migration {
        int version;
        char name[64];
        char applied_at[32]; /* RFC 3339, UTC */
};

struct schema_status {
        struct applied_migration *applied; /* owned; in order */
        size_t n_applied;
        struct schema_version version;
};

/* Reads what has been applied; a missing schema is a status, not an error. */
bool schema_read_status(const struct schema *schema, struct blocking_conn *conn,
    struct schema_status *out_status, struct error *error) __attribute__((warn_unused_result));
void schema_status_deinit(struct schema_status *status);
bool schema_status_has(const struct schema_status *status, int version);

/*
 * Applies one migration in a transaction of its own, alone among all that do
 * so in this database. *out_applied is false if it had been applied before.
 */
bool schema_apply(const struct schema *schema, struct blocking_conn *conn,
    const struct migration *migration, bool *out_applied, struct error *error)
    __attribute__((warn_unused_result));

/*
 * Which role may make or update the schema where a connection leads, and how to connect as that
 * role: an operator who is told to migrate is most often connected as the relay's role, which may
 * not.
 */
struct schema_maker {
        bool is_us;    /* the connection's own role may */
        bool is_owner; /* it owns the database, or the schema */
        char *role;    /* owned */
        char *dsn;     /* owned: the same database as that role; without secrets */
};

bool schema_maker_find(const struct schema *schema, struct blocking_conn *conn,
    struct schema_maker *out_maker, struct error *error) __attribute__((warn_unused_result));

void schema_maker_deinit(struct schema_maker *maker);
