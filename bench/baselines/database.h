/*
 * PostgreSQL as the baselines use it: one connection in pipeline mode, prepared statements, text
 * parameters, binary results (the server then formats neither ids nor times). Whatever goes wrong
 * ends the program.
 */
#pragma once

#include <libpq-fe.h>
#include <stdint.h>

/* synchronous_commit is off: all of these deliver first and commit then, so a commit that a crash
 * of the server takes back means a repetition and never a loss. */
PGconn *db_connect(const char *dsn);

/* Waits for the end of one statement without rows. Only while nothing is under way. */
void db_run(PGconn *db, const char *sql);

void db_prepare(PGconn *db, const char *name, const char *sql);

/* Adds a prepared statement to the pipeline; up to the next db_sync() it may stay with us. */
void db_send(PGconn *db, const char *name, int n_values, const char *const *values);

/* Ends what was added, which the server takes as one transaction unless it says BEGIN, and sends. */
void db_sync(PGconn *db);

/* The next statement's result, in the order in which they were sent. For PQclear(). */
PGresult *db_result(PGconn *db);

/* Waits for the ends of statements without rows. */
void db_skip(PGconn *db, unsigned n_statements);

/* Waits for the end that db_sync() sent. */
void db_synced(PGconn *db);

/* "{1,2,3}" */
struct id_list {
        char *text;
        size_t length;
        size_t capacity;
};

void id_list_clear(struct id_list *list);
void id_list_add(struct id_list *list, int64_t id);
const char *id_list_text(struct id_list *list);

void die(const char *what, const char *why) __attribute__((noreturn));
