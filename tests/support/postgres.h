/*
 * Private PostgreSQL clusters, and databases with pgcourier's schema in them.
 *
 * Most tests want a database of their own and leave the server alone: those of one binary share a
 * cluster (postgres_shared). Tests that stop, crash or reconfigure the server start their own.
 *
 * Every failure aborts the test with the server's words. What is returned as `char *` is the
 * caller's to free.
 */
#pragma once

#include "support/process.h"

#include <libpq-fe.h>
#include <stdint.h>

enum postgres_care {
        POSTGRES_HASTY,
        POSTGRES_REPLICATED, /* with full_page_writes */
        POSTGRES_DURABLE,    /* and fsync */
};

struct postgres {
        char *folder;   /* also where the unix socket is */
        char *log_path; /* the server's log */
        uint16_t port;  /* of the unix socket and, on 127.0.0.1, of TCP */
        const char
            *address; /* it listens there, too, when it starts again; borrowed; may be NULL */
        enum postgres_care care;
        struct process postmaster;
        struct postgres *next; /* of this process's own clusters */
};

/*
 * Makes a cluster and waits until it accepts connections (about a second). Superuser "postgres",
 * everyone is trusted, fsync off, 200 connections, prepared transactions allowed. It ends with the
 * process that started it, however that ends.
 */
struct postgres *postgres_start(void);

/* The same made from nothing: with a system identifier that no other cluster has, and without the
 * roles, which those have that are copies of one with the schema. */
struct postgres *postgres_start_distinct(void);

/* The same with fsync and full_page_writes on. */
struct postgres *postgres_start_durable(void);

/* The same with what pg_rewind wants: may have a standby (postgres_replica.h). */
struct postgres *postgres_start_replicated(void);

/* The same with a data folder that `fill` makes. */
typedef void postgres_fill_fn(
    const struct postgres *postgres, const char *data, const void *context);
struct postgres *postgres_start_filled(
    enum postgres_care care, postgres_fill_fn *fill, const void *context);

/* Where initdb, postgres and their like are. */
const char *postgres_bin_folder(void);

/*
 * The cluster that all tests of this binary share; not to be stopped or reconfigured. Criterion
 * runs each test in a process of its own: the runner starts the cluster before the first test and
 * stops it after the last. It does so for every binary in which this function is called somewhere,
 * and in no other. Fits any number of tests at once.
 */
struct postgres *postgres_shared(void);

/* The folder of initdb, postgres and pg_upgrade. */
const char *postgres_bin_folder(void);

void postgres_stop(struct postgres *postgres);           /* "fast": ends sessions, checkpoint */
void postgres_stop_immediate(struct postgres *postgres); /* as after a crash, recovery follows */

/* SIGKILL to the postmaster and all its children: what was not yet in WAL files is lost. */
void postgres_kill(struct postgres *postgres);

/* After one of the three above: the same data, socket and port; waits until it accepts. */
void postgres_start_again(struct postgres *postgres);

/*
 * A new database with every migration in sql/ applied, as a conninfo of the superuser on the unix
 * socket. Made from a template (about 50 ms). Two more roles can log in to it: "app", a member of
 * courier_publisher, and "relay", a member of courier_relay.
 */
char *postgres_new_database(struct postgres *postgres);

/* What the first postgres_new_database() of a cluster does, now. */
void postgres_make_template(struct postgres *postgres);

/* The same without the schema and the roles. */
char *postgres_new_empty_database(struct postgres *postgres);

/* A conninfo on the unix socket. */
char *postgres_dsn(const struct postgres *postgres, const char *database, const char *user);

/* The same conninfo for another user, e.g. "relay". */
char *dsn_as_user(const char *dsn, const char *user);

/* The same conninfo by TCP to 127.0.0.1:port, e.g. through a proxy. */
char *dsn_by_tcp(const char *dsn, uint16_t port);

/* A new database of the shared cluster, and how its users log in. */
struct test_database {
        char *dsn; /* of the superuser */
        char *app;
        char *relay;
        PGconn *admin; /* the superuser's session */
};

struct test_database test_database_make(void);
void test_database_drop(struct test_database *database);

PGconn *database_connect(const char *dsn);
void database_exec(PGconn *connection, const char *sql);   /* one or more statements */
void database_exec_once(const char *dsn, const char *sql); /* in a session of their own */

/* The first column of the first row as text; aborts if there is no row; "" for NULL. */
char *database_value(PGconn *connection, const char *sql);

/* The same as a number. */
int64_t database_integer(PGconn *connection, const char *sql);

/* Schema courier_inbox; its role courier_consumer is of the whole cluster. */
void database_make_inbox(PGconn *connection);

/* Until user "relay" has no session in the connection's database: a backend does what it was
 * told, and notices the end of its session, a moment after the client has gone. */
void database_await_no_relay(PGconn *connection);
