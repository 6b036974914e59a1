#include "simulator/people.h"

#include "simulator/database.h"
#include "simulator/relay.h"

static void ring_bells(struct world *world)
{
        for (int i = 0; i < N_RELAYS; i++)
                world->relays[i].is_bell_ringing = true;
}

static void ring_control(struct world *world)
{
        for (int i = 0; i < N_RELAYS; i++)
                world->relays[i].is_control_ringing = true;
}

static bool is_locked(const struct world *world, int key, unsigned transaction)
{
        for (size_t i = 0; i < world->database.n_events; i++) {
                const struct sim_event *event = &world->database.events[i];
                if (event->n_commit == 0 && event->key == key && event->transaction != transaction)
                        return true;
        }
        return false;
}

/* An open transaction, or a new one. */
static unsigned any_transaction(struct world *world)
{
        const struct sim_database *database = &world->database;

        for (size_t i = 0; i < database->n_events; i++)
                if (database->events[i].n_commit == 0 && dice_one_in(&world->dice, 3))
                        return database->events[i].transaction;
        return ++world->database.n_transactions;
}

static void insert(struct world *world)
{
        struct sim_database *database = &world->database;
        struct dice *dice = &world->dice;
        const struct climate *climate = &world->climate;
        struct sim_event *event = &database->events[database->n_events];
        unsigned transaction = any_transaction(world);
        int key = (int)dice_below(dice, N_KEYS + 2) - 1;

        if (key >= N_KEYS)
                key = 0;
        if (key >= 0 && climate->locks_keys && is_locked(world, key, transaction))
                return;
        *event = (struct sim_event){.key = key,
            .bytes = dice_one_in(dice, 10)  ? 3000
                     : dice_one_in(dice, 4) ? 400
                                            : 10,
            .is_ours = !dice_one_in(dice, 8),
            .transaction = transaction};
        if (dice_one_in(dice, climate->delayed))
                event->deliver_ms = database_now(world) + dice_between(dice, 1, 3000);
        if (dice_one_in(dice, climate->rejected))
                event->n_rejections =
                    dice_one_in(dice, 2) ? ALWAYS : (uint8_t)dice_between(dice, 1, 2);
        if (climate->has_targets)
                event->target = (int)dice_below(dice, N_TARGETS);
        if (dice_one_in(dice, climate->blaming)) {
                event->n_blames = dice_one_in(dice, 3) ? ALWAYS : (uint8_t)dice_between(dice, 1, 4);
                event->blame = (enum blame)dice_below(dice, 3);
        }
        if (dice_one_in(dice, climate->failing)) {
                event->n_failures = (uint8_t)dice_between(dice, 1, 4);
                if (dice_one_in(dice, 6))
                        event->n_failures = ALWAYS;
                if (dice_one_in(dice, 4))
                        event->soft_max = (uint8_t)dice_between(dice, 1, 3);
        }
        database->n_events++;
        say(world, "transaction %u inserts %s%s%s", transaction,
            event_name(world, database->n_events - 1), event->is_ours ? "" : ", of another topic",
            event->deliver_ms > 0 ? ", for later" : "");
}

static void end_transaction(struct world *world, unsigned transaction, bool commits)
{
        struct sim_database *database = &world->database;
        uint64_t n_commit = commits ? ++database->n_commits : NEVER;

        say(world, "transaction %u %s", transaction, commits ? "commits" : "is rolled back");
        for (size_t i = 0; i < database->n_events; i++)
                if (database->events[i].n_commit == 0 &&
                    database->events[i].transaction == transaction)
                        database->events[i].n_commit = n_commit;
        database->xid++;
        if (commits) {
                database_sync(world);
                ring_bells(world);
        }
}

void people_write(struct world *world)
{
        struct sim_database *database = &world->database;

        if (database->n_events < MAX_EVENTS && dice_one_in(&world->dice, 2)) {
                insert(world);
                return;
        }
        for (size_t i = 0; i < database->n_events; i++) {
                if (database->events[i].n_commit == 0 && dice_one_in(&world->dice, 2)) {
                        end_transaction(
                            world, database->events[i].transaction, !dice_one_in(&world->dice, 8));
                        return;
                }
        }
}

void people_end_transactions(struct world *world)
{
        struct sim_database *database = &world->database;

        for (size_t i = 0; i < database->n_events; i++)
                if (database->events[i].n_commit == 0)
                        end_transaction(world, database->events[i].transaction, true);
        ring_bells(world);
        ring_control(world);
}

/* A row that exists, or -1. */
static int any_row(struct world *world)
{
        uint32_t n = (uint32_t)world->database.n_events;
        uint32_t first = n > 0 ? dice_below(&world->dice, n) : 0;

        for (uint32_t i = 0; i < n; i++)
                if (world->database.now.rows[(first + i) % n].exists)
                        return (int)((first + i) % n);
        return -1;
}

/* Relays may try it now, whatever they were told before. */
static void allow_now(struct world *world, size_t event)
{
        for (int i = 0; i < N_RELAYS; i++)
                world->relays[i].shadow[event].not_before_ms = 0;
}

static void change_row(struct world *world)
{
        int event = any_row(world);
        struct sim_row *row;

        if (event < 0)
                return;
        row = &world->database.now.rows[event];
        row->due_ms = database_now(world);
        if (dice_one_in(&world->dice, 2)) {
                row->is_skipped = true;
                world->database.events[event].is_unplaced = true;
        }
        say(world, "an operator %s %s", row->is_skipped ? "skips" : "hurries",
            event_name(world, (size_t)event));
        allow_now(world, (size_t)event);
}

static void redrive(struct world *world)
{
        struct sim_progress *now = &world->database.now;

        for (size_t i = 0; i < world->database.n_events; i++) {
                if (!now->dead[i].exists || now->rows[i].exists || !dice_one_in(&world->dice, 2))
                        continue;
                say(world, "an operator redrives %s", event_name(world, i));
                now->dead[i].exists = false;
                now->rows[i] = (struct sim_row){.exists = true,
                    .state = PARKED_DELAYED,
                    .position = now->next_position++,
                    .due_ms = database_now(world),
                    .is_redriven = true};
                for (int relay = 0; relay < N_RELAYS; relay++)
                        if (relay_is_owner(world, relay))
                                world->relays[relay].shadow[i].standing = STANDING_ROW;
                allow_now(world, i);
                return;
        }
}

/* No lane can have begun. */
static bool may_be_cancelled(const struct world *world, size_t index)
{
        const struct sim_database *database = &world->database;
        const struct sim_event *event = &database->events[index];
        const struct sim_row *row = &database->now.rows[index];
        int64_t now_ms = database_now(world);

        if (!event_is_committed(event) || event->is_cancelled || event->deliver_ms <= now_ms ||
            event->deliver_ms <= database->reached_ms || database->now.dead[index].exists)
                return false;
        if (row->exists)
                return row->state == PARKED_DELAYED && row->due_ms == event->deliver_ms;
        return !database_is_behind(world, index, &database->now.cursor);
}

/* courier.cancel() */
static void cancel(struct world *world)
{
        for (size_t i = 0; i < world->database.n_events; i++) {
                if (!may_be_cancelled(world, i) || !dice_one_in(&world->dice, 2))
                        continue;
                say(world, "%s is cancelled", event_name(world, i));
                must(world, world->database.events[i].n_arrived == 0, "cancelled events stay out",
                    "%s is cancelled, and has arrived", event_name(world, i));
                world->database.events[i].is_cancelled = true;
                world->database.now.rows[i].exists = false;
                return;
        }
}

void people_resume(struct world *world)
{
        world->database.is_paused = false;
        ring_control(world);
}

void people_operate(struct world *world)
{
        switch (dice_below(&world->dice, 6)) {
        case 0:
        case 1:
                change_row(world);
                break;
        case 2:
                redrive(world);
                break;
        case 3:
                world->database.is_paused = !world->database.is_paused;
                say(world, "an operator %s", world->database.is_paused ? "pauses" : "resumes");
                break;
        case 4:
                for (int i = 0; i < N_RELAYS; i++) {
                        if (!world->relays[i].is_running || world->relays[i].is_frozen)
                                continue;
                        lane_probe_now(&world->relays[i].lane,
                            world->now_ms + world->relays[i].clock_offset_ms);
                        world->relays[i].down_until_ms = 0;
                        world->relays[i].is_dirty = true;
                }
                say(world, "an operator says that the destination is well");
                break;
        case 5:
                cancel(world);
                break;
        }
        database_sync(world);
        ring_control(world);
}
