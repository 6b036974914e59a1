/*
 * TLS to PostgreSQL: who is trusted for which name, and what is taken where the dsn leaves it open.
 *
 * A server that is elsewhere, on one machine: 0.0.0.0 is an address that leads to this machine and
 * is not one of those that are known to.
 */
#include "pg/blocking_conn.h"
#include "support/certificate.h"
#include "support/postgres.h"
#include "support/program.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELSEWHERE "0.0.0.0"

struct secured {
        struct postgres *postgres;
        char *folder;
        char authority[128];
        char *loaded_at; /* the server's settings, before they are loaded again */
};

static char *new_session_says(const struct secured *secured, const char *sql)
{
        char *dsn = postgres_dsn(secured->postgres, "postgres", "postgres");
        PGconn *session = database_connect(dsn);
        char *value = database_value(session, sql);

        PQfinish(session);
        free(dsn);
        return value;
}

static bool has_reloaded(void *context)
{
        const struct secured *secured = context;
        char *loaded_at = new_session_says(secured, "SELECT pg_conf_load_time()");
        bool has = strcmp(secured->loaded_at, loaded_at) != 0;

        free(loaded_at);
        return has;
}

/* A session that begins after this is served with the files as they are now. */
static void serve(struct secured *secured, const char *names, const char *days)
{
        struct certificate certificate;

        certificate_make_in(&certificate, secured->folder, names, days);
        secured->loaded_at = new_session_says(secured, "SELECT pg_conf_load_time()");
        free(new_session_says(secured, "SELECT pg_reload_conf()"));
        wait_until(has_reloaded, secured, 20000, "PostgreSQL does not read its certificate");
        free(secured->loaded_at);
}

static void set_up(struct secured *secured)
{
        secured->postgres = postgres_start();
        secured->folder = temp_folder();
        snprintf(secured->authority, sizeof secured->authority, "%s/cert.pem", secured->folder);
}

static void turn_on(struct secured *secured, const char *names, const char *days)
{
        char *dsn = postgres_dsn(secured->postgres, "postgres", "postgres");
        PGconn *session = database_connect(dsn);
        char set[320];

        snprintf(
            set, sizeof set, "ALTER SYSTEM SET ssl_cert_file = '%s/cert.pem'", secured->folder);
        database_exec(session, set);
        snprintf(set, sizeof set, "ALTER SYSTEM SET ssl_key_file = '%s/key.pem'", secured->folder);
        database_exec(session, set);
        database_exec(session, "ALTER SYSTEM SET ssl = on");
        PQfinish(session);
        free(dsn);
        serve(secured, names, days);
}

static void tear_down(struct secured *secured)
{
        postgres_stop(secured->postgres);
        free(secured->folder);
}

static char *elsewhere_dsn(const struct secured *secured, const char *more)
{
        static char dsn[512];

        snprintf(dsn, sizeof dsn, "host=" ELSEWHERE " port=%u user=postgres dbname=postgres %s",
            secured->postgres->port, more);
        return dsn;
}

static struct blocking_conn *connect_by(const char *dsn, struct error *error)
{
        return blocking_conn_open(
            &(struct blocking_conn_settings){.dsn = dsn, .connect_timeout_ms = 20000}, error);
}

static void expect_refused(const struct secured *secured, const char *more, const char *words)
{
        struct error error = {0};
        struct blocking_conn *conn = connect_by(elsewhere_dsn(secured, more), &error);

        cr_expect_null(conn, "\"%s\" was connected", more);
        cr_expect_not_null(
            strstr(error.text, words), "\"%s\": no \"%s\" in: %s", more, words, error.text);
        blocking_conn_close(conn);
}

static void expect_privacy(
    const struct secured *secured, const char *more, enum blocking_conn_privacy privacy)
{
        struct error error = {0};
        struct blocking_conn *conn = connect_by(elsewhere_dsn(secured, more), &error);

        cr_assert_not_null(conn, "\"%s\": %s", more, error.text);
        cr_expect_eq(blocking_conn_privacy(conn), privacy, "\"%s\"", more);
        blocking_conn_close(conn);
}

static const char *with_authority(const struct secured *secured)
{
        static char text[160];

        snprintf(text, sizeof text, "sslrootcert=%s", secured->authority);
        return text;
}

Test(postgres_tls, is_asked_for_by_itself_of_a_server_that_is_elsewhere)
{
        struct secured secured;

        set_up(&secured);

        /* No proxy on the way can talk it out of TLS, and the words say what to write. */
        expect_refused(&secured, "", "does not support SSL");
        expect_refused(&secured, "", "The dsn does not say sslmode");
        expect_privacy(&secured, "sslmode=disable", PRIVACY_NONE);
        expect_privacy(&secured, "hostaddr=127.0.0.1", PRIVACY_LOCAL);
        setenv("PGSSLMODE", "prefer", 1);
        expect_privacy(&secured, "", PRIVACY_NONE);
        unsetenv("PGSSLMODE");

        tear_down(&secured);
}

Test(postgres_tls, trusts_a_certificate_for_its_name_only)
{
        struct secured secured;

        set_up(&secured);
        turn_on(&secured, "IP:" ELSEWHERE, "2");

        expect_privacy(&secured, with_authority(&secured), PRIVACY_VERIFIED);
        expect_refused(&secured, "", "certificate verify failed"); /* unknown to the system */
        expect_privacy(&secured, "sslmode=require", PRIVACY_ENCRYPTED);

        serve(&secured, "DNS:db.example.org", "2");
        expect_refused(&secured, with_authority(&secured), "does not match host name");

        serve(&secured, "IP:" ELSEWHERE, "-1");
        /* libpq 15 does not say why; with two days more it was connected above. */
        expect_refused(&secured, with_authority(&secured), "certificate verify failed");

        tear_down(&secured);
}

/* The relay's own connections, which are not made by the code of the commands. */
Test(postgres_tls, is_the_relays_default_as_well)
{
        struct secured secured;
        struct program_run run;
        char path[160];
        FILE *file;

        set_up(&secured);
        snprintf(path, sizeof path, "%s/pgcourier.yaml", secured.folder);
        file = fopen(path, "w");
        cr_assert_not_null(file);
        fprintf(file,
            "postgres: { dsn: \"%s\" }\nsinks:\n  - { name: a, topics: [\"**\"], stdout: {} }\n",
            elsewhere_dsn(&secured, ""));
        fclose(file);

        run = program_run(NULL, "run", "--once", "-c", path, NULL);
        cr_expect_eq(run.code, 4, "exit code %d", run.code);
        cr_expect_not_null(strstr(run.err, "does not support SSL"), "%s", run.err);
        cr_expect_not_null(strstr(run.err, "The dsn does not say sslmode"), "%s", run.err);
        program_run_free(&run);

        tear_down(&secured);
}
