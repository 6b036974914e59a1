/*
 * Before a relay takes any shard of a sink: PostgreSQL accepts the sink's filter, and the relays
 * agree on its number of shards (courier.agree_shards()), which makes the cursors of a new sink.
 */
#include "base/alloc.h"
#include "log/log.h"
#include "outbox/session.h"
#include "pg/pg_error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHECK_FILTER, AGREE_SHARDS };

const struct pg_statement agreement_statements[] = {
    [CHECK_FILTER] = {.name = "check_filter",
        .n_params = 1,
        .sql = "SELECT courier.filter_error($1)"},
    [AGREE_SHARDS] = {.name = "agree_shards",
        .n_params = 6,
        .sql = "SELECT verdict, in_force, newest_end,"
               " (SELECT settings::text FROM courier.sink WHERE name = $1"
               "  AND settings NOT IN ($6::jsonb, '{}'))"
               " FROM courier.agree_shards($1, $2::integer, $3::boolean, $4::boolean, $5)"},
};
const unsigned n_agreement_statements = sizeof agreement_statements / sizeof *agreement_statements;

static enum agreement_verdict verdict_of(const char *word)
{
        if (strcmp(word, "ready") == 0)
                return AGREEMENT_READY;
        return strcmp(word, "older") == 0 ? AGREEMENT_OLDER : AGREEMENT_CHANGING;
}

static void on_agreed(void *owner, PGresult *result)
{
        struct agreement *agreement = owner;

        agreement->verdict = verdict_of(PQgetvalue(result, 0, 0));
        agreement->n_in_force = (uint32_t)strtoul(PQgetvalue(result, 0, 1), NULL, 10);
        agreement_deinit(agreement);
        agreement->newest_end =
            PQgetisnull(result, 0, 2) ? NULL : xstrdup(PQgetvalue(result, 0, 2));
        agreement->settings = PQgetisnull(result, 0, 3) ? NULL : xstrdup(PQgetvalue(result, 0, 3));
        PQclear(result);
        agreement->on_agreed(agreement->owner);
}

/* Another session holds a lock on the sink's row for long. */
static void on_not_agreed(void *owner, PGresult *result)
{
        struct agreement *agreement = owner;
        struct error error;

        pg_error_set_refused(&error, result);
        PQclear(result);
        log_warn(
            "shards_not_agreed", kv_text("sink", agreement->sink), kv_text("error", error.text));
        agreement->verdict = AGREEMENT_CHANGING;
        agreement->n_in_force = agreement->n_shards;
        agreement->on_agreed(agreement->owner);
}

static void agree(struct agreement *agreement)
{
        struct outbox *outbox = agreement->outbox;
        char n_shards[16];
        const char *const values[] = {agreement->sink, n_shards,
            agreement->fans_out ? "true" : "false",
            agreement->start == START_NOW ? "true" : "false", outbox->member,
            agreement->settings_here};

        snprintf(n_shards, sizeof n_shards, "%" PRIu32, agreement->n_shards);
        pg_conn_try(outbox->conn, &agreement_statements[AGREE_SHARDS], values, false, on_agreed,
            on_not_agreed, agreement);
}

/* A statement with a filter that is none would fail, and the session with it, again and again. */
static void on_filter_checked(void *owner, PGresult *result)
{
        struct agreement *agreement = owner;
        struct bytes words = {0};
        struct error error;

        if (PQgetisnull(result, 0, 0)) {
                PQclear(result);
                agree(agreement);
                return;
        }
        pg_error_append(&words, PQgetvalue(result, 0, 0));
        PQclear(result);
        error_set(&error, ERROR_CONFIG,
            "PostgreSQL does not accept the filter of sink %s as a jsonpath predicate: %s",
            agreement->sink, words.data);
        bytes_deinit(&words);
        session_refuse(agreement->outbox, &error);
}

void agreement_ask(struct agreement *agreement)
{
        if (agreement->filter == NULL) {
                agree(agreement);
                return;
        }
        pg_conn_execute(agreement->outbox->conn, &agreement_statements[CHECK_FILTER],
            &agreement->filter, false, on_filter_checked, agreement);
}

void agreement_deinit(struct agreement *agreement)
{
        free(agreement->newest_end);
        free(agreement->settings);
        agreement->newest_end = NULL;
        agreement->settings = NULL;
}

static void on_new_filter_checked(void *owner, PGresult *result)
{
        struct outbox *outbox = owner;
        struct bytes words = {0};

        if (!PQgetisnull(result, 0, 0))
                pg_error_append(&words, PQgetvalue(result, 0, 0));
        PQclear(result);
        outbox->events.on_filter_checked(outbox->owner, words.data);
        bytes_deinit(&words);
}

void outbox_check_filter(struct outbox *outbox, const char *filter)
{
        pg_conn_execute(outbox->conn, &agreement_statements[CHECK_FILTER], &filter, false,
            on_new_filter_checked, outbox);
}
