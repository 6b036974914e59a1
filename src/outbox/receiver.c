#include "outbox/receiver.h"

#include "base/alloc.h"
#include "outbox/session.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copies the texts of a row into one block: ten thousand rows as trees of JSON would take as much
 * memory as everything else that is kept of their receivers. */
struct texts {
        char *block; /* as large as the row's JSON, in which each text has two quotes at least */
        size_t n_bytes;
};

static const char *keep(struct texts *texts, const char *text)
{
        char *copy = texts->block + texts->n_bytes;
        size_t n_bytes;

        if (text == NULL)
                return NULL;
        n_bytes = strlen(text) + 1;
        memcpy(copy, text, n_bytes);
        texts->n_bytes += n_bytes;
        return copy;
}

static const char *text_of(struct texts *texts, const json_t *row, const char *name)
{
        return keep(texts, json_string_value(json_object_get(row, name))); /* NULL for null */
}

static char **texts_of(struct texts *kept, const json_t *row, const char *name, size_t *out_n)
{
        const json_t *array = json_object_get(row, name);
        size_t n = json_array_size(array);
        const char **texts = xcalloc(n + 1, sizeof *texts);

        for (size_t i = 0; i < n; i++)
                texts[i] = keep(kept, json_string_value(json_array_get(array, i)));
        *out_n = n;
        return (char **)(void *)texts;
}

static struct event_header *headers_of(struct texts *texts, json_t *row, size_t *out_n)
{
        json_t *object = json_object_get(row, "headers");
        struct event_header *headers = xcalloc(json_object_size(object) + 1, sizeof *headers);
        const char *name;
        json_t *value;
        size_t n = 0;

        json_object_foreach(object, name, value)
        {
                headers[n++] = (struct event_header){
                    .name = keep(texts, name), .value = keep(texts, json_string_value(value))};
        }
        *out_n = n;
        return headers;
}

static enum receiver_state state_of(const json_t *row)
{
        const char *name = json_string_value(json_object_get(row, "state"));

        if (strcmp(name, "active") == 0)
                return RECEIVER_ACTIVE;
        return strcmp(name, "paused") == 0 ? RECEIVER_PAUSED : RECEIVER_DISABLED;
}

static void clear_secrets(const json_t *row)
{
        const json_t *secrets = json_object_get(row, "secrets");

        for (size_t i = 0; i < json_array_size(secrets); i++) {
                const json_t *secret = json_array_get(secrets, i);
                explicit_bzero(
                    (char *)(uintptr_t)json_string_value(secret), json_string_length(secret));
        }
}

struct receiver *receiver_read(int32_t id, int64_t version, const char *text)
{
        struct receiver *receiver = xcalloc(1, sizeof *receiver);
        json_t *row = json_loads(text, 0, NULL);
        const json_t *failing_for = json_object_get(row, "failing_for");
        struct texts texts = {.block = xcalloc(1, strlen(text) + 1)};

        if (row == NULL)
                out_of_memory();
        receiver->n_references = 1;
        receiver->texts = texts.block;
        receiver->id = id;
        receiver->version = version;
        receiver->name = text_of(&texts, row, "name");
        receiver->url = text_of(&texts, row, "url");
        receiver->secrets =
            (const char *const *)texts_of(&texts, row, "secrets", &receiver->n_secrets);
        receiver->headers = headers_of(&texts, row, &receiver->n_headers);
        receiver->routing =
            (struct routing){.filter = text_of(&texts, row, "filter"), .is_receiver = true};
        receiver->routing.topics = texts_of(&texts, row, "topics", &receiver->routing.n_topics);
        receiver->routing.types = texts_of(&texts, row, "types", &receiver->routing.n_types);
        receiver->start_snapshot = text_of(&texts, row, "start_snapshot");
        receiver->start_floor = json_integer_value(json_object_get(row, "start_floor"));
        receiver->concurrency = (uint32_t)json_integer_value(json_object_get(row, "concurrency"));
        receiver->rate_per_s = json_number_value(json_object_get(row, "rate"));
        receiver->rate_burst = (uint32_t)json_integer_value(json_object_get(row, "burst"));
        receiver->state = state_of(row);
        receiver->state_reason = text_of(&texts, row, "reason");
        receiver->failing_for_ms =
            json_is_integer(failing_for) ? json_integer_value(failing_for) : -1;
        clear_secrets(row);
        json_decref(row);
        return receiver;
}

struct receiver *receiver_ref(const struct receiver *receiver)
{
        struct receiver *mine = (struct receiver *)(uintptr_t)receiver;

        mine->n_references++;
        return mine;
}

void receiver_unref(struct receiver *receiver)
{
        if (receiver == NULL || --receiver->n_references > 0)
                return;
        for (size_t i = 0; i < receiver->n_secrets; i++) {
                char *secret = (char *)(uintptr_t)receiver->secrets[i];
                explicit_bzero(secret, strlen(secret));
        }
        free(receiver->texts);
        free((void *)(uintptr_t)receiver->secrets);
        free((void *)(uintptr_t)receiver->headers);
        free((void *)(uintptr_t)receiver->routing.topics);
        free((void *)(uintptr_t)receiver->routing.types);
        free(receiver);
}

/* Whenever the receivers may have changed a digest of them is read, and the receivers only if it
 * differs. */

enum { READ_RECEIVERS, NOTE_FAILING, NOTE_RECOVERED, DISABLE, FORGET_PARKED, FORGET_CURSORS };

/* Of the .sql file beside this one, embedded at build time. */
extern const char read_receivers_sql[];

/* A lane that no runner serves, of a receiver in a shard that is ours. */
#define IS_OURS                                                                                    \
        "lane > 0 AND lane <> ALL ($2::integer[])"                                                 \
        " AND courier.shard_of(NULL, $3::integer, lane) = ANY ($4::integer[])"

const struct pg_statement receiver_statements[] = {
    [READ_RECEIVERS] = {.name = "read_receivers", .n_params = 2, .sql = read_receivers_sql},
    [NOTE_FAILING] = {.name = "note_receiver_failing",
        .n_params = 3,
        .sql = "SELECT courier.note_receiver_failing($1::integer,"
               " $2::bigint * interval '1 ms', $3)"},
    [NOTE_RECOVERED] = {.name = "note_receiver_recovered",
        .n_params = 1,
        .sql = "SELECT courier.note_receiver_recovered($1::integer)"},
    [DISABLE] = {.name = "disable_receiver",
        .n_params = 2,
        .sql = "SELECT courier.disable_receiver($1::integer, $2)"},
    [FORGET_PARKED] = {.name = "forget_parked_of_gone",
        .n_params = 4,
        .sql = "DELETE FROM courier.parked WHERE sink = $1 AND " IS_OURS
               " AND NOT EXISTS (SELECT FROM courier.receiver WHERE receiver.id = parked.lane)"},
    [FORGET_CURSORS] = {.name = "forget_cursors_of_gone",
        .n_params = 4,
        .sql = "DELETE FROM courier.cursor WHERE sink = $1 AND " IS_OURS
               " AND NOT EXISTS (SELECT FROM courier.receiver WHERE receiver.id = cursor.lane)"},
};
const unsigned n_receiver_statements = sizeof receiver_statements / sizeof *receiver_statements;

struct receiver_table {
        struct outbox *outbox; /* borrowed */
        const char *sink;      /* borrowed */
        struct receiver_table_events events;
        void *owner;  /* borrowed */
        char *digest; /* owned; of the last answer, NULL: none in this session */
        bool is_reading;
        bool is_changed;    /* a notification came while they were being read */
        bool is_digest_old; /* then all are to be read, whether they have changed or not */
};

struct receiver_table *receiver_table_create(struct outbox *outbox, const char *sink,
    const struct receiver_table_events *events, void *owner)
{
        struct receiver_table *table = xcalloc(1, sizeof *table);

        table->outbox = outbox;
        table->sink = sink;
        table->events = *events;
        table->owner = owner;
        return table;
}

void receiver_table_destroy(struct receiver_table *table)
{
        if (table == NULL)
                return;
        free(table->digest);
        free(table);
}

static void forget_digest(struct receiver_table *table)
{
        free(table->digest);
        table->digest = NULL;
}

void receiver_table_session_down(struct receiver_table *table)
{
        forget_digest(table);
        table->is_digest_old = false;
        table->is_reading = false;
        table->is_changed = false;
}

static void execute(
    struct receiver_table *table, int statement, const char *const *values, pg_result_fn *on_result)
{
        pg_conn_execute(
            table->outbox->conn, &receiver_statements[statement], values, false, on_result, table);
}

static void tell(struct receiver_table *table, const PGresult *result)
{
        size_t n = (size_t)PQntuples(result) - 1;
        struct receiver **all = xcalloc(n + 1, sizeof *all);

        for (size_t i = 0; i < n; i++)
                all[i] = receiver_read((int32_t)strtol(PQgetvalue(result, (int)i + 1, 0), NULL, 10),
                    strtoll(PQgetvalue(result, (int)i + 1, 1), NULL, 10),
                    PQgetvalue(result, (int)i + 1, 2));
        table->events.on_receivers(
            table->owner, &(struct receiver_list){
                              .n_receivers = n, .receivers = (const struct receiver *const *)all});
        for (size_t i = 0; i < n; i++)
                receiver_unref(all[i]);
        free(all);
}

static void on_receivers_read(void *owner, PGresult *result)
{
        struct receiver_table *table = owner;
        const char *digest = PQgetvalue(result, 0, 2);

        table->is_reading = false;
        if (table->digest != NULL && strcmp(table->digest, digest) == 0) {
                table->events.on_receivers(table->owner, NULL);
        } else {
                free(table->digest);
                table->digest = xstrdup(digest);
                tell(table, result);
        }
        PQclear(result);
        if (table->is_digest_old)
                forget_digest(table);
        table->is_digest_old = false;
        if (table->is_changed)
                receiver_table_read(table);
}

void receiver_table_read(struct receiver_table *table)
{
        const char *const values[] = {table->sink, table->digest};

        table->is_changed = table->is_reading;
        if (table->is_reading || !pg_conn_is_ready(table->outbox->conn))
                return;
        table->is_reading = true;
        execute(table, READ_RECEIVERS, values, on_receivers_read);
}

void receiver_table_read_anew(struct receiver_table *table)
{
        table->is_digest_old = table->is_reading;
        if (!table->is_reading)
                forget_digest(table);
        receiver_table_read(table);
}

bool receiver_table_is_idle(const struct receiver_table *table)
{
        return !table->is_reading;
}

/* What the relay finds out is lost with the session; the next attempt finds it out again. */
static void note(struct receiver_table *table, int statement, const char *const *values)
{
        if (pg_conn_is_ready(table->outbox->conn))
                pg_conn_execute(table->outbox->conn, &receiver_statements[statement], values, false,
                    NULL, NULL);
}

void receiver_table_note_failing(
    struct receiver_table *table, int32_t id, int64_t failing_for_ms, const char *error)
{
        char id_text[16], ms_text[24];

        snprintf(id_text, sizeof id_text, "%" PRId32, id);
        snprintf(ms_text, sizeof ms_text, "%" PRId64, failing_for_ms);
        note(table, NOTE_FAILING, (const char *const[]){id_text, ms_text, error});
}

void receiver_table_note_recovered(struct receiver_table *table, int32_t id)
{
        char id_text[16];

        snprintf(id_text, sizeof id_text, "%" PRId32, id);
        note(table, NOTE_RECOVERED, (const char *const[]){id_text});
}

void receiver_table_disable(struct receiver_table *table, int32_t id, const char *reason)
{
        char id_text[16];

        snprintf(id_text, sizeof id_text, "%" PRId32, id);
        note(table, DISABLE, (const char *const[]){id_text, reason});
}

void receiver_table_forget_gone(
    struct receiver_table *table, const char *served, uint32_t n_shards, const char *shards)
{
        char n_text[16];
        const char *const values[] = {table->sink, served, n_text, shards};

        snprintf(n_text, sizeof n_text, "%" PRIu32, n_shards);
        note(table, FORGET_PARKED, values);
        note(table, FORGET_CURSORS, values);
}
