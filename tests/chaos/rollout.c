#include "chaos/rollout.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PAUSE_MS = 400, LOOK_MS = 50 };

/* A division waits for the relays that have shards, and each fault lasts a few seconds. */
enum { DEADLINE_MS = 60 * 1000 };

static const char watch_sql[] =
    "CREATE TABLE public.divided (sink text, shards integer, at timestamptz);"
    "CREATE FUNCTION public.note_division() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$"
    "BEGIN"
    "  INSERT INTO public.divided VALUES (NEW.name, NEW.shards, clock_timestamp());"
    "  RETURN NULL;"
    "END$$;"
    "CREATE TRIGGER note_division AFTER UPDATE OF shards ON courier.sink FOR EACH ROW"
    " WHEN (OLD.shards <> NEW.shards) EXECUTE FUNCTION public.note_division()";

void rollout_watch(const char *dsn)
{
        PGconn *admin = database_connect(dsn);

        database_exec(admin, watch_sql);
        PQfinish(admin);
}

static void pause_for(struct rollout *rollout, unsigned ms)
{
        rollout->next_us = clock_monotonic_us() + ms * INT64_C(1000);
}

/* ---- what it brings -------------------------------------------------------------------------- */

static unsigned count_changes(const struct rollout *rollout, const unsigned *numbers)
{
        unsigned n = 0;

        for (int i = 0; i < N_DIVIDED; i++)
                n += rollout->numbers[i] != numbers[i];
        return n;
}

/* At least one sink gets another number. */
static void choose_numbers(struct rollout *rollout)
{
        unsigned which = 1 + chaos_random(&rollout->random) % ((1u << N_DIVIDED) - 1);

        for (unsigned i = 0; i < N_DIVIDED; i++) {
                unsigned more = 1 + chaos_random(&rollout->random) % (MAX_SHARDS - 1);
                rollout->numbers[i] = divided_sinks[i].usual;
                if ((which >> i & 1u) != 0)
                        rollout->numbers[i] = 1 + (rollout->numbers[i] - 1 + more) % MAX_SHARDS;
        }
}

static void choose_usual_numbers(struct rollout *rollout)
{
        for (int i = 0; i < N_DIVIDED; i++)
                rollout->numbers[i] = divided_sinks[i].usual;
}

static void shuffle(struct rollout *rollout)
{
        for (unsigned i = 0; i < N_RELAYS; i++) {
                unsigned with = chaos_random(&rollout->random) % (i + 1);
                rollout->order[i] = rollout->order[with];
                rollout->order[with] = i;
        }
}

void rollout_describe(const struct rollout *rollout, char *words, size_t n_bytes)
{
        size_t n =
            (size_t)snprintf(words, n_bytes, "%s:", rollout->is_rolling ? "restarts" : "reloads");

        for (int i = 0; i < N_DIVIDED && n < n_bytes; i++)
                n += (size_t)snprintf(
                    words + n, n_bytes - n, " %s %u", divided_sinks[i].name, rollout->numbers[i]);
}

/* ---- its course ------------------------------------------------------------------------------ */

/* All relays have what the one before brought. */
static void begin(struct rollout *rollout, const struct world *world)
{
        shuffle(rollout);
        rollout->n_given = 0;
        rollout->n_planned += count_changes(rollout, world->numbers[0]);
        rollout->state = ROLLOUT_GIVING;
        rollout->next_us = 0;
}

bool rollout_begin(struct rollout *rollout, struct world *world, const struct chaos_step *step)
{
        bool has_news = step->kind == STEP_RESHARD || step->variant % 2 == 0;

        if (!rollout_is_over(rollout))
                return false;
        rollout->is_rolling = step->kind == STEP_RELAYS_ROLL;
        rollout->random = step->variant;
        if (has_news)
                choose_numbers(rollout);
        else
                choose_usual_numbers(rollout);
        begin(rollout, world);
        return true;
}

void rollout_end(struct rollout *rollout)
{
        for (int i = 0; i < N_DIVIDED; i++)
                rollout->wants_back =
                    rollout->wants_back || rollout->numbers[i] != divided_sinks[i].usual;
}

bool rollout_is_over(const struct rollout *rollout)
{
        return rollout->state == ROLLOUT_RESTING && !rollout->wants_back;
}

static void give(struct rollout *rollout, struct world *world)
{
        unsigned relay = rollout->order[rollout->n_given];
        struct relay_slot *slot = &world->relays[relay];

        /* It is told to stop when it goes on. */
        if (rollout->is_rolling && slot->state == RELAY_FROZEN) {
                pause_for(rollout, LOOK_MS);
                return;
        }
        rollout->n_starts = slot->n_starts;
        if (rollout->is_rolling)
                relay_slot_stop(slot);
        memcpy(world->numbers[relay], rollout->numbers, sizeof rollout->numbers);
        world_configure_relay(world, relay, &the_usual);
        rollout->n_given++;
        if (rollout->is_rolling)
                rollout->state = ROLLOUT_RESTARTING;
        pause_for(
            rollout, rollout->is_rolling ? LOOK_MS : chaos_random(&rollout->random) % MAX_PAUSE_MS);
}

static void look_at_restart(struct rollout *rollout, struct world *world)
{
        struct relay_slot *slot = &world->relays[rollout->order[rollout->n_given - 1]];

        pause_for(rollout, LOOK_MS);
        if (slot->state == RELAY_DOWN)
                slot->restart_us = 0; /* without a pause */
        if (slot->n_starts > rollout->n_starts && relay_slot_serves(slot))
                rollout->state = ROLLOUT_GIVING;
}

static void await(struct rollout *rollout)
{
        rollout->n_rolled += rollout->is_rolling;
        rollout->state = ROLLOUT_AWAITING;
        rollout->deadline_us = clock_monotonic_us() + DEADLINE_MS * INT64_C(1000);
}

/* Of the divisions that are to follow; all of them while the server is away. */
static unsigned count_outstanding(const struct rollout *rollout, const struct world *world)
{
        PGconn *admin = PQconnectdb(world->dsn);
        unsigned n = N_DIVIDED;

        for (int i = 0; i < N_DIVIDED; i++) {
                char *sql = xasprintf("SELECT FROM courier.sink WHERE name = '%s' AND shards = %u"
                                      " AND shards_wanted IS NULL",
                    divided_sinks[i].name, rollout->numbers[i]);
                PGresult *result = PQexec(admin, sql);
                n -= PQntuples(result) == 1;
                PQclear(result);
                free(sql);
        }
        PQfinish(admin);
        return n;
}

static void look_at_divisions(struct rollout *rollout, const struct world *world)
{
        unsigned n = count_outstanding(rollout, world);

        pause_for(rollout, LOOK_MS);
        if (n > 0 && clock_monotonic_us() < rollout->deadline_us)
                return;
        rollout->n_overdue += n;
        rollout->state = ROLLOUT_RESTING;
}

void rollout_see_to(struct rollout *rollout, struct world *world)
{
        if (clock_monotonic_us() < rollout->next_us)
                return;
        switch (rollout->state) {
        case ROLLOUT_RESTING:
                if (!rollout->wants_back)
                        return;
                rollout->wants_back = false;
                choose_usual_numbers(rollout);
                begin(rollout, world);
                return;
        case ROLLOUT_GIVING:
                if (rollout->n_given < N_RELAYS)
                        give(rollout, world);
                else
                        await(rollout);
                return;
        case ROLLOUT_RESTARTING:
                look_at_restart(rollout, world);
                return;
        case ROLLOUT_AWAITING:
                look_at_divisions(rollout, world);
                return;
        }
}
