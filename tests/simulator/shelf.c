/* courier.parked and courier.dead_letter: what lanes read and settle. */
#include "simulator/database.h"

#include <stdlib.h>
#include <string.h>

static bool is_in_line(const struct sim_row *row)
{
        return row->exists && row->state != PARKED_DELAYED;
}

/* The index parked_due_idx. */
static bool has_due_time(const struct sim_row *row)
{
        return row->exists && (row->state != PARKED_BLOCKED || row->is_skipped);
}

/* The first row of the key in line, or -1. */
static int first_in_line(const struct world *world, int key)
{
        const struct sim_row *rows = world->database.now.rows;
        int first = -1;

        for (size_t i = 0; i < world->database.n_events; i++)
                if (is_in_line(&rows[i]) && world->database.events[i].key == key &&
                    (first < 0 || rows[i].position < rows[first].position))
                        first = (int)i;
        return first;
}

void database_read_keys(struct world *world, struct sim_session *session)
{
        struct parked_keys *parked = &session->claimed_parked;

        *parked = (struct parked_keys){.keys = session->claimed_keys};
        for (int key = 0; key < N_KEYS; key++) {
                int first = first_in_line(world, key);
                if (first < 0)
                        continue;
                parked->keys[parked->n_keys++] = (struct parked_key){.key = key_name(key),
                    .is_waiting = world->database.now.rows[first].state == PARKED_RETRY};
        }
        for (size_t i = 0; i < world->database.n_events; i++) {
                const char *key = key_name(world->database.events[i].key);
                if (!is_in_line(&world->database.now.rows[i]))
                        continue;
                parked->n_rows++;
                for (size_t k = 0; k < parked->n_keys; k++) {
                        bool is_of_key = parked->keys[k].key == key;
                        parked->keys[k].n_rows += is_of_key;
                        parked->keys[k].n_blocked +=
                            is_of_key && world->database.now.rows[i].state == PARKED_BLOCKED;
                }
        }
}

struct lent_batch {
        struct parked_batch batch; /* first, so that it is found from there */
        int *n_lent;
        struct parked_row rows[MAX_EVENTS];
        char keys[MAX_EVENTS][2];
};

static void release_batch(struct parked_batch *batch)
{
        struct lent_batch *lent = (struct lent_batch *)(void *)batch;

        --*lent->n_lent;
        free(lent);
}

static void add_row(struct world *world, struct lent_batch *lent, size_t index)
{
        const struct sim_event *event = &world->database.events[index];
        const struct sim_row *row = &world->database.now.rows[index];
        size_t n = lent->batch.n_rows++;
        char *key = NULL;

        if (event->key >= 0) {
                key = lent->keys[n];
                key[0] = (char)('a' + event->key);
                key[1] = '\0';
        }
        lent->rows[n] = (struct parked_row){.event = {.id = (int64_t)index + 1,
                                                .topic = "orders",
                                                .key = key,
                                                .payload = "",
                                                .payload_bytes = event->bytes,
                                                .is_redriven = row->is_redriven},
            .state = row->state,
            .n_attempts = row->n_attempts,
            .retried_ms = row->retried_ms,
            .is_skipped = row->is_skipped};
        lent->batch.bytes += event->bytes;
}

static bool is_before(const struct sim_row *a, const struct sim_row *b, bool by_due)
{
        if (by_due && a->due_ms != b->due_ms)
                return a->due_ms < b->due_ms;
        return a->position < b->position;
}

/* The best of those that are wanted and not yet taken, or -1. */
static int pick(const struct world *world, const bool *is_wanted, bool by_due)
{
        const struct sim_row *rows = world->database.now.rows;
        int best = -1;

        for (size_t i = 0; i < world->database.n_events; i++)
                if (is_wanted[i] && (best < 0 || is_before(&rows[i], &rows[best], by_due)))
                        best = (int)i;
        return best;
}

struct room {
        uint32_t n_rows;
        uint64_t bytes; /* taken so far */
};

static void take(struct world *world, struct lent_batch *lent, const struct sim_session *session,
    struct room *room, bool *is_wanted, bool *is_taken, bool by_due)
{
        int next;

        while (room->n_rows < session->max_rows && (next = pick(world, is_wanted, by_due)) >= 0) {
                room->bytes += world->database.events[next].bytes;
                if (room->n_rows > 0 && room->bytes > session->max_bytes)
                        return;
                add_row(world, lent, (size_t)next);
                is_wanted[next] = false;
                is_taken[next] = true;
                room->n_rows++;
        }
}

struct parked_batch *database_read_parked(struct world *world, const struct sim_session *session)
{
        struct sim_database *database = &world->database;
        const struct sim_row *rows = database->now.rows;
        struct lent_batch *lent = malloc(sizeof *lent);
        bool is_taken[MAX_EVENTS] = {false};
        bool is_due[MAX_EVENTS];
        int64_t now_ms = database_now(world);
        struct room of_keys = {0}, of_due = {0};

        for (size_t i = 0; i < database->n_events; i++)
                if (database->events[i].is_cancelled)
                        database->now.rows[i].exists = false;
        if (database->reached_ms < now_ms)
                database->reached_ms = now_ms;
        lent->n_lent = &database->n_lent;
        database->n_lent++;
        lent->batch =
            (struct parked_batch){.rows = lent->rows, .next_due_ms = -1, .release = release_batch};

        for (size_t k = 0; k < session->n_parked_keys; k++) {
                bool is_wanted[MAX_EVENTS];
                for (size_t i = 0; i < database->n_events; i++)
                        is_wanted[i] = is_in_line(&rows[i]) && !session->is_excluded[i] &&
                                       database->events[i].key == session->parked_keys[k];
                take(world, lent, session, &of_keys, is_wanted, is_taken, false);
        }
        for (size_t i = 0; i < database->n_events; i++)
                is_due[i] = has_due_time(&rows[i]) && !session->is_excluded[i] && !is_taken[i] &&
                            rows[i].due_ms <= now_ms;
        take(world, lent, session, &of_due, is_due, is_taken, true);
        for (size_t i = 0; i < database->n_events; i++) {
                int64_t due_ms = rows[i].due_ms > now_ms ? rows[i].due_ms - now_ms : 0;
                if (has_due_time(&rows[i]) && !session->is_excluded[i] && !is_taken[i] &&
                    (lent->batch.next_due_ms < 0 || due_ms < lent->batch.next_due_ms))
                        lent->batch.next_due_ms = due_ms;
        }
        return &lent->batch;
}

static void park(struct world *world, const struct verdict_copy *verdict)
{
        struct sim_progress *now = &world->database.now;
        struct sim_row *row = &now->rows[verdict->event];
        const struct sim_event *event = &world->database.events[verdict->event];

        if (verdict->is_parked ? !row->exists : event->is_cancelled)
                return; /* removed by hand */
        must(world, verdict->is_parked || !row->exists, "events are parked once",
            "%s is parked from the stream although it has a row",
            event_name(world, verdict->event));
        if (!verdict->is_parked)
                *row = (struct sim_row){.exists = true, .position = now->next_position++};
        else if (verdict->goes_last)
                row->position = now->next_position++;
        row->state = verdict->state;
        row->due_ms = verdict->state == PARKED_DELAYED ? event->deliver_ms
                                                       : database_now(world) + verdict->due_in_ms;
        row->n_attempts = verdict->n_attempts;
        row->retried_ms = verdict->retried_ms;
}

static void bury(struct world *world, const struct verdict_copy *verdict)
{
        struct sim_progress *now = &world->database.now;

        if (verdict->is_parked && !now->rows[verdict->event].exists)
                return;
        must(world, verdict->is_parked || !now->rows[verdict->event].exists,
            "events are parked once", "%s dies from the stream although it has a row",
            event_name(world, verdict->event));
        now->rows[verdict->event].exists = false;
        world->database.events[verdict->event].is_unplaced = true;
        now->dead[verdict->event] = (struct sim_dead){.exists = true, .reason = verdict->reason};
}

static void apply(
    struct world *world, const struct sim_session *session, const struct verdict_copy *verdict)
{
        struct sim_database *database = &world->database;
        bool is_behind = database_is_behind(world, verdict->event, &session->settle_cursor);
        bool was_behind = database_is_behind(world, verdict->event, &database->now.cursor);

        must(world, is_behind, "verdicts come with the cursor",
            "a verdict on %s is written, but the cursor does not pass it",
            event_name(world, verdict->event));
        must(world, verdict->is_parked || !was_behind, "verdicts come with the cursor",
            "a verdict on %s takes it from the stream, but the cursor has passed it before",
            event_name(world, verdict->event));
        switch (verdict->kind) {
        case VERDICT_PARK:
                park(world, verdict);
                break;
        case VERDICT_DELIVERED:
                must(world, verdict->is_parked, "verdicts fit their events",
                    "%s is settled as a delivered row, and has none",
                    event_name(world, verdict->event));
                database->now.rows[verdict->event].exists = false;
                break;
        case VERDICT_DEAD:
                bury(world, verdict);
                break;
        }
}

/* Whatever the cursor passes is delivered, or has a row of its own. */
static void check_passed(struct world *world, const struct cursor *before)
{
        const struct sim_database *database = &world->database;

        for (size_t i = 0; i < database->n_events; i++) {
                const struct sim_event *event = &database->events[i];
                if (!event->is_ours || !database_is_behind(world, i, &database->now.cursor))
                        continue;
                must(world,
                    event->was_acked || database->now.rows[i].exists ||
                        database->now.dead[i].exists || event->is_cancelled,
                    "the cursor passes decided events only",
                    "%s is behind the cursor, but neither delivered nor parked nor dead",
                    event_name(world, i));
        }
        for (size_t i = 0; i < database->n_events; i++)
                must(world,
                    !database->events[i].is_ours || !database_is_behind(world, i, before) ||
                        database_is_behind(world, i, &database->now.cursor),
                    "the cursor goes forward", "%s was behind the cursor, and is not any more",
                    event_name(world, i));
}

void database_settle(struct world *world, struct sim_session *session)
{
        struct sim_database *database = &world->database;
        struct cursor before = database->now.cursor;

        must(world,
            frame_is_sound(session->settle_cursor.from) &&
                frame_is_sound(session->settle_cursor.until),
            "cursors are complete", "a frame's transaction id is older than its snapshot");
        /* Those that go last come behind those that are new. */
        for (size_t i = 0; i < session->n_verdicts; i++)
                if (!session->verdicts[i].goes_last)
                        apply(world, session, &session->verdicts[i]);
        for (size_t i = 0; i < session->n_verdicts; i++)
                if (session->verdicts[i].goes_last)
                        apply(world, session, &session->verdicts[i]);
        database->now.cursor = (struct cursor){0};
        cursor_assign(&database->now.cursor, &session->settle_cursor);
        check_passed(world, &before);
        cursor_deinit(&before);
}
