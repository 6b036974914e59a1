#include "chaos/steps.h"

#include "base/alloc.h"
#include "chaos/broker_steps.h"

#include <stdlib.h>

#define NO_BOUND    UINT32_MAX
#define REDIS_SINKS (1u << SINK_STREAM | 1u << SINK_ONCE)

/* ---- relays ---------------------------------------------------------------------------------- */

/* Or the next one that runs. */
static bool kill_relay(struct faults *faults, unsigned relay)
{
        for (unsigned i = 0; i < N_RELAYS; i++, relay = (relay + 1) % N_RELAYS)
                if (relay_slot_kill(&faults->world->relays[relay])) {
                        faults_note(
                            faults, "  relay %c is dead", faults->world->relays[relay].name);
                        faults_add_relay_incident(
                            faults, CAUSE_KILL, (int)relay, WORLD_MAX_IN_FLIGHT);
                        return true;
                }
        return false;
}

/* Sessions are ended so that the standby can take over, as a server does that misses its client. */
static void terminate_sessions(struct faults *faults, const char *condition)
{
        PGconn *admin = PQconnectdb(faults->world->dsn);
        char *sql =
            xasprintf("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE %s", condition);

        if (PQstatus(admin) == CONNECTION_OK)
                PQclear(PQexec(admin, sql));
        PQfinish(admin);
        free(sql);
}

static bool begin_away(struct faults *faults)
{
        for (int i = 0; i < N_RELAYS; i++) {
                relay_slot_stop(&faults->world->relays[i]);
                faults->world->relays[i].is_away = true;
        }
        return true;
}

static bool begin_freeze(struct faults *faults, const struct chaos_step *step, size_t *incident)
{
        struct relay_slot *slot = &faults->world->relays[step->target];
        char *condition;

        if (!relay_slot_freeze(slot))
                return false;
        *incident = faults_add_relay_incident(
            faults, CAUSE_FREEZE, (int)step->target, 2 * WORLD_MAX_IN_FLIGHT);
        condition = xasprintf("usename = '%s'", relay_roles[step->target]);
        terminate_sessions(faults, condition);
        free(condition);
        return true;
}

/* In the end it has all its sinks again. */
static void begin_reload(struct faults *faults, const struct chaos_step *step)
{
        const struct relay_settings settings = {
            .narrow = step->variant & ((1u << N_CONFIGURED) - 1),
            .is_hasty = (step->variant >> 8) % 3 == 0,
            .left_out =
                (step->variant >> 12) % 2 == 0 ? (int)((step->variant >> 16) % N_CONFIGURED) : -1};

        faults_note(faults, "  relay %c: narrow %x%s, without %d",
            faults->world->relays[step->target].name, settings.narrow,
            settings.is_hasty ? ", another session" : "", settings.left_out);
        world_configure_relay(faults->world, step->target, &settings);
}

static bool begin_rollout(struct faults *faults, const struct chaos_step *step)
{
        char words[80];

        if (!rollout_begin(&faults->rollout, faults->world, step))
                return false;
        rollout_describe(&faults->rollout, words, sizeof words);
        faults_note(faults, "  %s", words);
        return true;
}

/* ---- PostgreSQL ------------------------------------------------------------------------------ */

static void terminate_some(struct faults *faults, unsigned variant)
{
        static const char *const which[] = {
            "usename LIKE 'relay%' AND query ~ 'await_quiet|unlock_all|pg_locks'",
            "usename LIKE 'relay%' AND query !~ 'await_quiet|unlock_all|pg_locks'",
            "usename LIKE 'relay%'"};

        faults_add_incident(faults, CAUSE_SESSION, ALL_SINKS, WORLD_MAX_IN_FLIGHT);
        terminate_sessions(faults, which[variant % 3]);
}

/* ---- passwords ------------------------------------------------------------------------------- */

static bool is_file_first(const struct chaos_step *step)
{
        return step->variant % 2 == 0;
}

static void lose_postgres_sessions(struct faults *faults)
{
        faults_add_incident(faults, CAUSE_PG_PASSWORD, ALL_SINKS, WORLD_MAX_IN_FLIGHT);
        terminate_sessions(faults, "usename LIKE 'relay%'");
}

static void lose_redis_connections(struct faults *faults)
{
        faults_add_incident(faults, CAUSE_REDIS_PASSWORD, REDIS_SINKS, NO_BOUND);
        redis_server_do(&faults->world->redis, "CLIENT KILL USER relay");
}

/* At times sessions end also between the two changes: then no session can log in for a while. */
static bool begin_postgres_password(struct faults *faults, const struct chaos_step *step)
{
        struct passwords *passwords = &faults->world->passwords;

        login_choose(&passwords->postgres);
        if (is_file_first(step))
                login_change_file(&passwords->postgres);
        else if (!passwords_change_postgres(passwords))
                return false;
        faults_note(faults, "  %s first", is_file_first(step) ? "file" : "server");
        if (step->variant / 2 % 2 == 0)
                lose_postgres_sessions(faults);
        return true;
}

static void end_postgres_password(struct faults *faults, const struct chaos_step *step)
{
        struct passwords *passwords = &faults->world->passwords;

        if (!is_file_first(step))
                login_change_file(&passwords->postgres);
        else if (!passwords_change_postgres(passwords))
                test_abort("cannot change PostgreSQL's password");
        lose_postgres_sessions(faults);
}

static void begin_redis_password(struct faults *faults, const struct chaos_step *step)
{
        struct passwords *passwords = &faults->world->passwords;

        login_choose(&passwords->redis);
        if (is_file_first(step))
                login_change_file(&passwords->redis);
        else
                passwords_change_redis(passwords);
        faults_note(faults, "  %s first", is_file_first(step) ? "file" : "server");
        if (step->variant / 2 % 2 == 0)
                lose_redis_connections(faults);
}

static void end_redis_password(struct faults *faults, const struct chaos_step *step)
{
        struct passwords *passwords = &faults->world->passwords;

        if (is_file_first(step))
                passwords_change_redis(passwords);
        else
                login_change_file(&passwords->redis);
        lose_redis_connections(faults);
}

/* ---- destinations ---------------------------------------------------------------------------- */

static const struct fault no_fault = {.kind = FAULT_NONE};
static const struct fault refusal = {.kind = FAULT_REFUSE};

static void set_link(struct faults *faults, enum link link, const struct fault *fault)
{
        fault_link_set(faults->world->links[link], fault);
}

static void begin_mail_mood(struct faults *faults, unsigned variant)
{
        static const char *const moods[] = {
            "mail 450 4.7.1 try later", "mail 421 4.3.2 going down", "slow 700", "drop"};

        faults_note(faults, "  %s", moods[variant % 4]);
        world_set_mail_mood(faults->world, moods[variant % 4]);
}

static void begin_hook_mood(struct faults *faults, const struct chaos_step *step)
{
        static const char *const names[N_MOODS] = {
            "good", "500", "503", "429", "slow", "hanging", "silent", "half"};
        enum hook_mood mood = (enum hook_mood)(1 + step->variant % (N_MOODS - 1));

        faults_note(faults, "  %s", names[mood]);
        http_receiver_hold(faults->world->hooks[step->target].receiver);
        atomic_store(&faults->world->hooks[step->target].mood, (int)mood);
}

struct fault step_choose_fault(
    struct faults *faults, const struct chaos_step *step, unsigned few_bytes)
{
        unsigned size = step->variant >> 8;
        const struct fault fault = {.kind = (enum fault_kind)(1 + step->variant % FAULT_REFUSE),
            .delay_ms = 10 + size % 200,
            .jitter_ms = size % 100,
            .bytes_per_s = 4000 + size % 60000,
            .after_bytes = few_bytes + size % (few_bytes > 100 ? 20000 : 2000)};

        faults_note(faults, "  link %u: %s", step->target, fault_kind_name(fault.kind));
        faults->n_network[fault.kind]++;
        return fault;
}

static void begin_network(struct faults *faults, const struct chaos_step *step)
{
        bool is_pg = step->target == LINK_PG_A || step->target == LINK_PG_B;
        const struct fault fault = step_choose_fault(faults, step, is_pg ? 400 : 20);

        set_link(faults, (enum link)step->target, &fault);
}

static bool is_without(const struct world *world, enum step_kind kind)
{
        unsigned without = world->options.without;

        return (kind == STEP_RECEIVER_FILTER && (without & WITHOUT_FILTERS) != 0) ||
               (kind == STEP_RELAYS_AWAY && (without & WITHOUT_ABSENCES) != 0) ||
               ((kind == STEP_PG_PASSWORD || kind == STEP_REDIS_PASSWORD) &&
                   (without & WITHOUT_PASSWORDS) != 0);
}

/* ---- each step ------------------------------------------------------------------------------- */

bool step_begin(struct faults *faults, const struct chaos_step *step, size_t *incident)
{
        struct world *world = faults->world;
        bool is_pg_link = step->target == LINK_PG_A || step->target == LINK_PG_B;

        if (is_without(world, step->kind))
                return false;
        switch (step->kind) {
        case STEP_RELAY_KILL:
                return kill_relay(faults, step->target);
        case STEP_RELAY_STOP:
                return relay_slot_stop(&world->relays[step->target]);
        case STEP_RELAY_RELOAD:
                begin_reload(faults, step);
                return true;
        case STEP_RELAY_FREEZE:
                return begin_freeze(faults, step, incident);
        case STEP_RELAYS_AWAY:
                return begin_away(faults);
        case STEP_RELAYS_ROLL:
        case STEP_RESHARD:
                return begin_rollout(faults, step);
        case STEP_PG_RESTART_FAST:
                *incident =
                    faults_add_incident(faults, CAUSE_SESSION, ALL_SINKS, WORLD_MAX_IN_FLIGHT);
                postgres_stop(world->postgres);
                return true;
        case STEP_PG_RESTART_IMMEDIATE:
                *incident = faults_add_incident(faults, CAUSE_PG_CRASH, ALL_SINKS, NO_BOUND);
                postgres_stop_immediate(world->postgres);
                return true;
        case STEP_PG_KILL:
                *incident = faults_add_incident(faults, CAUSE_PG_CRASH, ALL_SINKS, NO_BOUND);
                postgres_kill(world->postgres);
                return true;
        case STEP_PG_TERMINATE:
                terminate_some(faults, step->variant);
                return true;
        case STEP_PG_PASSWORD:
                return begin_postgres_password(faults, step);
        case STEP_REDIS_KILL:
                *incident = faults_add_incident(faults, CAUSE_DESTINATION, REDIS_SINKS, NO_BOUND);
                set_link(faults, LINK_STREAM, &refusal);
                set_link(faults, LINK_ONCE, &refusal);
                redis_server_kill(&world->redis);
                return true;
        case STEP_REDIS_FREEZE:
                *incident = faults_add_incident(faults, CAUSE_DESTINATION, REDIS_SINKS, NO_BOUND);
                redis_server_pause(&world->redis);
                return true;
        case STEP_REDIS_DISCONNECT:
                faults_add_incident(faults, CAUSE_DESTINATION, REDIS_SINKS, NO_BOUND);
                redis_server_do(&world->redis, "CLIENT KILL TYPE normal SKIPME yes");
                return true;
        case STEP_REDIS_FULL:
                *incident = faults_add_incident(faults, CAUSE_DESTINATION, REDIS_SINKS, NO_BOUND);
                redis_server_do(&world->redis, "CONFIG SET maxmemory 1");
                return true;
        case STEP_REDIS_PASSWORD:
                begin_redis_password(faults, step);
                return true;
        case STEP_HOOK_STOP:
                *incident = faults_add_incident(faults, CAUSE_DESTINATION,
                    world_sinks_of_link(LINK_HOOK + step->target), NO_BOUND);
                set_link(faults, LINK_HOOK + step->target, &refusal);
                http_receiver_stop(world->hooks[step->target].receiver);
                return true;
        case STEP_HOOK_MOOD:
                *incident = faults_add_incident(faults, CAUSE_DESTINATION,
                    world_sinks_of_link(LINK_HOOK + step->target), NO_BOUND);
                begin_hook_mood(faults, step);
                return true;
        case STEP_MAIL_STOP:
                *incident =
                    faults_add_incident(faults, CAUSE_DESTINATION, 1u << SINK_MAIL, NO_BOUND);
                set_link(faults, LINK_MAIL, &refusal);
                smtp_receiver_stop(&world->smtp);
                return true;
        case STEP_MAIL_MOOD:
                *incident =
                    faults_add_incident(faults, CAUSE_DESTINATION, 1u << SINK_MAIL, NO_BOUND);
                begin_mail_mood(faults, step->variant);
                return true;
        case STEP_RECEIVER_PAUSE:
                world->receivers.wants_pause = true;
                return true;
        case STEP_RECEIVER_MOVE:
                world->receivers.wants_move = true;
                return true;
        case STEP_RECEIVER_RENEW:
                world->receivers.wants_new = true;
                return true;
        case STEP_RECEIVER_FILTER:
                world->receivers.filter.wanted = (int)(step->variant % N_DEAR_FILTERS);
                faults_note(faults, "  number %d", world->receivers.filter.wanted);
                return true;
        case STEP_LINK:
                *incident = faults_add_incident(faults, is_pg_link ? CAUSE_PG_LINK : CAUSE_LINK,
                    world_sinks_of_link((enum link)step->target), NO_BOUND);
                begin_network(faults, step);
                return true;
        case STEP_NATS_KILL ... STEP_BROKER_LINK:
                return broker_step_begin(faults, step, incident);
        case N_STEP_KINDS:
                break;
        }
        abort();
}

void step_end(struct faults *faults, const struct chaos_step *step)
{
        struct world *world = faults->world;

        switch (step->kind) {
        case STEP_RELAY_KILL:
        case STEP_RELAY_STOP:
        case STEP_PG_TERMINATE:
        case STEP_REDIS_DISCONNECT:
        case STEP_RECEIVER_MOVE:
        case STEP_RECEIVER_RENEW:
                return;
        case STEP_RELAY_RELOAD:
                world_configure_relay(world, step->target, &the_usual);
                return;
        case STEP_RELAY_FREEZE:
                relay_slot_thaw(&world->relays[step->target]);
                return;
        case STEP_RELAYS_AWAY:
                for (int i = 0; i < N_RELAYS; i++)
                        world->relays[i].is_away = false;
                return;
        case STEP_RELAYS_ROLL:
        case STEP_RESHARD:
                rollout_end(&faults->rollout);
                return;
        case STEP_PG_PASSWORD:
                end_postgres_password(faults, step);
                return;
        case STEP_REDIS_PASSWORD:
                end_redis_password(faults, step);
                return;
        case STEP_PG_RESTART_FAST:
        case STEP_PG_RESTART_IMMEDIATE:
                postgres_start_again(world->postgres);
                return;
        case STEP_PG_KILL:
                world_recover_postgres(world);
                return;
        case STEP_REDIS_KILL:
                redis_server_restart(&world->redis);
                set_link(faults, LINK_STREAM, &no_fault);
                set_link(faults, LINK_ONCE, &no_fault);
                return;
        case STEP_REDIS_FREEZE:
                redis_server_resume(&world->redis);
                return;
        case STEP_REDIS_FULL:
                redis_server_do(&world->redis, "CONFIG SET maxmemory 0");
                return;
        case STEP_HOOK_STOP:
                http_receiver_restart(world->hooks[step->target].receiver);
                set_link(faults, LINK_HOOK + step->target, &no_fault);
                return;
        case STEP_HOOK_MOOD:
                atomic_store(&world->hooks[step->target].mood, MOOD_GOOD);
                http_receiver_release(world->hooks[step->target].receiver);
                return;
        case STEP_MAIL_STOP:
                world_start_mail(world);
                set_link(faults, LINK_MAIL, &no_fault);
                return;
        case STEP_MAIL_MOOD:
                world_set_mail_mood(world, "");
                return;
        case STEP_RECEIVER_PAUSE:
                world->receivers.wants_pause = false;
                return;
        case STEP_RECEIVER_FILTER:
                world->receivers.filter.wanted = DEAR_FILTER_NONE;
                return;
        case STEP_LINK:
                set_link(faults, (enum link)step->target, &no_fault);
                return;
        case STEP_NATS_KILL ... STEP_BROKER_LINK:
                broker_step_end(faults, step);
                return;
        case N_STEP_KINDS:
                break;
        }
        abort();
}

bool step_is_over(struct faults *faults, const struct chaos_step *step)
{
        if (step->kind == STEP_RELAYS_ROLL || step->kind == STEP_RESHARD)
                return rollout_is_over(&faults->rollout);
        return step->kind < STEP_NATS_KILL || step->kind > STEP_BROKER_LINK ||
               broker_step_is_over(faults, step);
}
