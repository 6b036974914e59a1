/*
 * A table of an application, as a tap turns its rows into events and has them marked: shop.NAME (id
 * bigint, topic, payload, processed_at, dead, note), owned by the role "shop". A row is done when
 * processed_at is set, or dead. courier_tap.marked lists the rows that were handed over to be
 * marked, each time.
 */
#pragma once

#include <libpq-fe.h>

/* `done`: mark or delete. `done_after`: an array of sinks, "'{bus}'", or "NULL". */
void attached_table_make(PGconn *admin, const char *name, const char *done, const char *done_after);

/* Inserts so many rows, in one transaction unless one is open. */
void attached_table_insert(PGconn *connection, const char *name, int n_rows);

/* How many rows are in the state: "processed_at IS NOT NULL". */
int attached_table_count(PGconn *connection, const char *name, const char *condition);

/* Waits until it is so many. */
void attached_table_await(PGconn *connection, const char *name, const char *condition, int n_rows);
