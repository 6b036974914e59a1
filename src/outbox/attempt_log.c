#include "outbox/attempt_log.h"

#include "base/alloc.h"
#include "base/list.h"
#include "pg/array_literal.h"

#include <stdlib.h>
#include <string.h>

/* A settle comes every 20 ms while something is delivered. What waits longer is an outage, or a
 * session that is lost. */
#define FULL_ATTEMPTS 10000
#define MAX_ATTEMPTS  20000

/* The ids of a pack are no further apart: courier.trace() looks for an event so far. */
#define PACK_SPAN 10000

#define DAY_MS (24 * 60 * 60 * INT64_C(1000))

struct attempt_pack {
        struct list link;           /* attempt_log::packs */
        struct attempt_pack **open; /* where its lane keeps it; NULL: it takes no more */
        char *sink;                 /* owned */
        int32_t receiver;           /* 0: the sink has none, however many shards it has */
        const char *outcome;
        uint32_t number;
        unsigned status;
        char *answer; /* owned */
        int64_t day;
        int64_t began_us; /* of the first; the others come so much later */
        int64_t first_id, last_id;
        struct array_literal ids, after_us, took_us;
};

struct attempt_log {
        struct list packs;
        size_t n_attempts;
        struct array_literal columns[N_PACK_COLUMNS];
};

struct attempt_log *attempt_log_create(void)
{
        struct attempt_log *log = xcalloc(1, sizeof *log);

        list_init(&log->packs);
        return log;
}

void attempt_log_destroy(struct attempt_log *log)
{
        attempt_log_clear(log);
        for (int i = 0; i < N_PACK_COLUMNS; i++)
                array_deinit(&log->columns[i]);
        free(log);
}

void attempt_log_leave(struct attempt_pack **open)
{
        if (*open != NULL)
                (*open)->open = NULL;
        *open = NULL;
}

/* The first day that begins, in UTC, when it has been kept for so long. */
static int64_t expiry_day(const struct attempt_record *record)
{
        return (record->began_us / 1000 + record->keep_ms + DAY_MS - 1) / DAY_MS;
}

static bool fits(const struct attempt_pack *pack, const struct attempt_record *record)
{
        return pack->outcome == record->outcome && pack->number == record->number &&
               pack->status == record->status && record->outbox_id - pack->first_id < PACK_SPAN &&
               pack->last_id - record->outbox_id < PACK_SPAN &&
               record->began_us - pack->began_us < INT32_MAX &&
               strcmp(pack->answer, record->answer) == 0;
}

static struct attempt_pack *begin(
    struct attempt_log *log, struct attempt_pack **open, const struct attempt_record *record)
{
        struct attempt_pack *pack = xcalloc(1, sizeof *pack);

        attempt_log_leave(open);
        *open = pack;
        *pack = (struct attempt_pack){.open = open,
            .sink = xstrdup(record->sink),
            .receiver = record->lane > 0 ? record->lane : 0,
            .outcome = record->outcome,
            .number = record->number,
            .status = record->status,
            .answer = xstrdup(record->answer),
            .day = expiry_day(record),
            .began_us = record->began_us,
            .first_id = record->outbox_id,
            .last_id = record->outbox_id};
        list_init(&pack->link);
        list_push_back(&log->packs, &pack->link);
        return pack;
}

bool attempt_log_add(
    struct attempt_log *log, struct attempt_pack **open, const struct attempt_record *record)
{
        struct attempt_pack *pack = *open;

        if (log->n_attempts == MAX_ATTEMPTS)
                return false;
        if (pack == NULL || !fits(pack, record))
                pack = begin(log, open, record);
        if (record->outbox_id < pack->first_id)
                pack->first_id = record->outbox_id;
        if (record->outbox_id > pack->last_id)
                pack->last_id = record->outbox_id;
        array_add_int(&pack->ids, record->outbox_id);
        array_add_int(&pack->after_us, record->began_us - pack->began_us);
        array_add_int(&pack->took_us, record->took_us < INT32_MAX ? record->took_us : INT32_MAX);
        log->n_attempts++;
        return true;
}

bool attempt_log_is_full(const struct attempt_log *log)
{
        return log->n_attempts >= FULL_ATTEMPTS;
}

static void add_pack(struct array_literal *columns, struct attempt_pack *pack)
{
        array_add_text(&columns[PACK_SINK], pack->sink);
        array_add_int(&columns[PACK_LANE], pack->receiver);
        array_add_text(&columns[PACK_OUTCOME], pack->outcome);
        array_add_int(&columns[PACK_NUMBER], pack->number);
        if (pack->status != 0)
                array_add_int(&columns[PACK_STATUS], pack->status);
        else
                array_add_text(&columns[PACK_STATUS], NULL);
        array_add_text(&columns[PACK_ANSWER], *pack->answer != '\0' ? pack->answer : NULL);
        array_add_int(&columns[PACK_DAY], pack->day);
        array_add_int(&columns[PACK_BEGAN_US], pack->began_us);
        array_add_int(&columns[PACK_FIRST_ID], pack->first_id);
        array_add_int(&columns[PACK_LAST_ID], pack->last_id);
        array_add_text(&columns[PACK_IDS], array_end(&pack->ids));
        array_add_text(&columns[PACK_AFTER_US], array_end(&pack->after_us));
        array_add_text(&columns[PACK_TOOK_US], array_end(&pack->took_us));
}

size_t attempt_log_take(struct attempt_log *log, const char **out_values)
{
        for (int i = 0; i < N_PACK_COLUMNS; i++)
                array_clear(&log->columns[i]);
        list_for_each (link, &log->packs)
                add_pack(log->columns, list_owner(link, struct attempt_pack, link));
        for (int i = 0; i < N_PACK_COLUMNS; i++)
                out_values[i] = log->n_attempts > 0 ? array_end(&log->columns[i]) : NULL;
        return log->n_attempts;
}

static void free_pack(struct attempt_pack *pack)
{
        if (pack->open != NULL)
                *pack->open = NULL;
        list_remove(&pack->link);
        array_deinit(&pack->ids);
        array_deinit(&pack->after_us);
        array_deinit(&pack->took_us);
        free(pack->sink);
        free(pack->answer);
        free(pack);
}

void attempt_log_clear(struct attempt_log *log)
{
        list_for_each (link, &log->packs)
                free_pack(list_owner(link, struct attempt_pack, link));
        log->n_attempts = 0;
}
