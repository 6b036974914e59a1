#include "chaos/world.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "chaos/broker_arrivals.h"
#include "chaos/jobs.h"
#include "chaos/rabbit_watch.h"
#include "support/postgres_replica.h"

#include <stdlib.h>
#include <time.h>

/* ---- HTTP ------------------------------------------------------------------------------------ */

/* What it never takes is tried a few times; two of three such answers blame the receiver, and not
 * the event, as long as other events show who is right. What it takes at other times it refuses for
 * good, so that the next one of the key is sent at once: should the relay end before it has written
 * that down, the refused one comes again, and perhaps is taken then. */
static bool refuses(
    const struct hook *hook, enum chaos_sink sink, const char *body, struct http_answer *out_answer)
{
        static const unsigned never[] = {422, 404, 503};
        unsigned writer, number;
        int64_t due_us;
        struct chaos_event event;

        if ((hook->world->options.without & WITHOUT_REFUSALS) != 0 || sink == SINK_FRESH ||
            !chaos_event_parse(body, &writer, &number, &due_us))
                return false;
        event = chaos_event(writer, number, PUBLISHED, true);
        if ((event.relents >> sink & 1u) != 0) {
                *out_answer = (struct http_answer){
                    .status = 400, .headers = {"webhook-delivery: abort-message"}};
                return chaos_is_strict(clock_wall_us());
        }
        *out_answer = (struct http_answer){.body = "never",
            .status = never[atomic_load(&hook->world->has_written) ? 0 : number % 3]};
        return (event.refused >> sink & 1u) != 0;
}

static struct http_answer on_hook_request(void *context, const struct http_request *request)
{
        static const struct timespec a_while = {.tv_nsec = 400 * 1000 * 1000};
        struct hook *hook = context;
        enum hook_mood mood = (enum hook_mood)atomic_load(&hook->mood);
        enum chaos_sink sink = hook->sink;
        struct http_answer refusal;
        unsigned generation = 0;

        if (mood == MOOD_500)
                return (struct http_answer){.status = 500};
        if (mood == MOOD_503)
                return (struct http_answer){.status = 503};
        if (mood == MOOD_429)
                return (struct http_answer){.status = 429, .headers = {"Retry-After: 1"}};
        if (sink == N_SINKS &&
            !receivers_find(&hook->world->receivers, request->target, &sink, &generation))
                return (struct http_answer){.status = 204}; /* of one that was removed */
        if (refuses(hook, sink, request->body, &refusal))
                return refusal;
        arrivals_note_of(&hook->world->arrivals[sink], generation, request->body, clock_wall_us());
        if (mood == MOOD_SLOW)
                nanosleep(&a_while, NULL);
        if (mood == MOOD_HANGING)
                return (struct http_answer){.is_held = true};
        if (mood == MOOD_SILENT)
                return (struct http_answer){.manner = ANSWER_NONE};
        if (mood == MOOD_HALF)
                return (struct http_answer){
                    .status = 200, .body = "half of this", .manner = ANSWER_HALF_BODY};
        return (struct http_answer){.status = 204};
}

static void start_hook(struct world *world, struct hook *hook, enum chaos_sink sink)
{
        hook->sink = sink;
        hook->world = world;
        hook->receiver = http_receiver_start(NULL, NULL);
        http_receiver_decide(hook->receiver, on_hook_request, hook);
}

/* ---- mail ------------------------------------------------------------------------------------ */

void world_set_mail_mood(struct world *world, const char *mood)
{
        replace_file(world->mood_path, mood);
}

void world_start_mail(struct world *world)
{
        smtp_receiver_start(&world->smtp, (const char *[]){"--mood", world->mood_path, NULL});
}

/* ---- relays ---------------------------------------------------------------------------------- */

const struct relay_settings the_usual = {.left_out = -1};

const struct divided_sink divided_sinks[N_DIVIDED] = {{"stream", 4}, {"hook", 3}, {"many", 3}};

static unsigned in_flight(const struct relay_settings *settings, int sink)
{
        unsigned usual = sink == SINK_MANY ? 100 : WORLD_MAX_IN_FLIGHT;

        return (settings->narrow >> sink & 1) != 0 ? usual / 2 : usual;
}

#define SINK   "  - {name: %s, topics: [\"chaos.%s\"], start: beginning, max_in_flight: %u,\n"
#define RETRY  "     retry: {first: 50ms, factor: 2, max: 1s},\n"
#define LOGIN  "user: relay, password_file: \"%s\",\n"
#define WITHIN "connect_timeout: 1s, timeout: 1500ms}}\n"

unsigned world_brokers(const struct world_options *options)
{
        return brokers_available() & ~(options->without / WITHOUT_NATS);
}

bool world_has_sink(const struct world *world, enum chaos_sink sink)
{
        return sink < SINK_NATS || sink > SINK_KAFKA ||
               brokers_have(&world->brokers, (enum broker)(sink - SINK_NATS));
}

static char *nats_config(const struct world *world, unsigned max_in_flight)
{
        char *servers = brokers_nats_servers(&world->brokers);
        char *config =
            xasprintf(SINK RETRY "     nats: {servers: [%s], stream: " BROKERS_STREAM ",\n"
                                 "     create_stream: {subjects: [\"events.>\"], replicas: %u, "
                                 "duplicates: " BROKERS_WINDOW "}, ping: 1s,\n     " WITHIN,
                "nats", "*", max_in_flight, servers, world->brokers.n_nats);

        free(servers);
        return config;
}

/* NULL for a broker that is not there. Each says for itself how long it may take: what comes late
 * comes twice, and servers of this size may be busy with themselves for a while. */
static char *broker_config(
    const struct world *world, enum broker broker, const struct relay_settings *settings)
{
        enum chaos_sink sink = (enum chaos_sink)(SINK_NATS + broker);
        unsigned port;

        if (!world_has_sink(world, sink))
                return NULL;
        port = fault_link_port(world->brokers.links[broker]);
        switch (broker) {
        case BROKER_NATS:
                return nats_config(world, in_flight(settings, (int)sink));
        case BROKER_RABBIT:
                return xasprintf(SINK RETRY
                    "     rabbitmq: {servers: [\"127.0.0.1:%u\"], exchange: " BROKERS_QUEUE
                    ", routing_key: " BROKERS_QUEUE ",\n     heartbeat: 2s, blocked_timeout: 2s, "
                    "connect_timeout: 2s, timeout: 3s}}\n",
                    "rabbitmq", "*", in_flight(settings, (int)sink), port);
        case BROKER_KAFKA:
                return xasprintf(SINK RETRY
                    "     kafka: {brokers: [\"127.0.0.1:%u\"], topic: " BROKERS_TOPIC ",\n"
                    "     connect_timeout: 2s, timeout: 4s}}\n",
                    "kafka", "*", in_flight(settings, (int)sink), port);
        case N_BROKERS:
                break;
        }
        abort();
}

static char *relay_config(
    const struct world *world, unsigned relay, const struct relay_settings *settings)
{
        enum link road = relay % 2 == 0 ? LINK_PG_A : LINK_PG_B;
        char *by_tcp = dsn_by_tcp(world->dsn, fault_link_port(world->links[road]));
        char *dsn = dsn_as_user(by_tcp, relay_roles[relay]);
        const unsigned *shards = world->numbers[relay];
        char *sinks[N_CONFIGURED] = {
            [SINK_STREAM] = xasprintf(SINK RETRY
                "     shards: %u, redis: {url: \"redis://127.0.0.1:%u\", " LOGIN
                "     stream: " WORLD_STREAM ", " WITHIN,
                "stream", "*", in_flight(settings, SINK_STREAM), shards[DIVIDED_STREAM],
                fault_link_port(world->links[LINK_STREAM]), world->passwords.redis.path),
            /* It waits for answers for longer than a division waits for attempts. */
            [SINK_HOOK] = xasprintf(SINK RETRY "     shards: %u, park_after: 700ms, http: {url: "
                                               "\"http://127.0.0.1:%u/hook\", connect_timeout: 1s, "
                                               "timeout: 2500ms}}\n",
                "hook", "*", in_flight(settings, SINK_HOOK), shards[DIVIDED_HOOK],
                fault_link_port(world->links[LINK_HOOK])),
            [SINK_FAST] = xasprintf(SINK RETRY
                "     order: none, http: {url: \"http://127.0.0.1:%u/fast\", " WITHIN,
                "fast", "*", in_flight(settings, SINK_FAST),
                fault_link_port(world->links[LINK_FAST])),
            [SINK_MAIL] = xasprintf(SINK RETRY
                "     concurrency: 4, email: {url: \"smtp://127.0.0.1:%u\",\n"
                "     from: shop@example.org, connect_timeout: 1s, timeout: 3s}}\n",
                "mail", "mail", in_flight(settings, SINK_MAIL),
                fault_link_port(world->links[LINK_MAIL])),
            [SINK_ONCE] =
                xasprintf(SINK RETRY "     redis: {url: \"redis://127.0.0.1:%u\", " LOGIN
                                     "     stream: " WORLD_LEDGER ", exactly_once: true, " WITHIN,
                    "once", "*", in_flight(settings, SINK_ONCE),
                    fault_link_port(world->links[LINK_ONCE]), world->passwords.redis.path),
            [SINK_JOBS] =
                xasprintf(SINK RETRY "     concurrency: 8, postgres: {call: jobs.run, " WITHIN,
                    "jobs", "*", in_flight(settings, SINK_JOBS)),
            [SINK_NATS] = broker_config(world, BROKER_NATS, settings),
            [SINK_RABBIT] = broker_config(world, BROKER_RABBIT, settings),
            [SINK_KAFKA] = broker_config(world, BROKER_KAFKA, settings),
            [SINK_MANY] = xasprintf(
                "  - {name: many, topics: [\"chaos.*\", \"fresh.*\"],\n     max_in_flight: %u, "
                "park_after: 700ms, shards: %u,\n" RETRY
                "     http: {receivers: table, allow_networks: "
                "[127.0.0.1], allow_ports: [%u, %u],\n"
                "     " WITHIN,
                in_flight(settings, SINK_MANY), shards[DIVIDED_MANY],
                fault_link_port(world->links[LINK_MANY]),
                fault_link_port(world->links[LINK_FRAIL])),
        };
        struct bytes config = {0};

        bytes_printf(&config,
            "postgres: {dsn: \"%s\", password_file: \"%s\", connect_timeout: 2s, query_timeout: "
            "%s}\n"
            "relay: {name: %s, standby: 100ms, sweep: 1h, drain: %dms, "
            "modules: " CHAOS_MODULE_FOLDER "}\nsinks:\n",
            dsn, world->passwords.postgres.path, settings->is_hasty ? "3500ms" : "4s",
            relay_roles[relay], RELAY_DRAIN_MS);
        for (int i = 0; i < N_CONFIGURED; i++) {
                if (i != settings->left_out && sinks[i] != NULL)
                        bytes_append_text(&config, sinks[i]);
                free(sinks[i]);
        }
        free(by_tcp);
        free(dsn);
        return config.data;
}

void world_configure_relay(
    struct world *world, unsigned relay, const struct relay_settings *settings)
{
        char *config = relay_config(world, relay, settings);

        relay_slot_configure(&world->relays[relay], config);
        free(config);
}

static void begin_relay(struct world *world, int i)
{
        char *config;

        for (int d = 0; d < N_DIVIDED; d++)
                world->numbers[i][d] = divided_sinks[d].usual;
        config = relay_config(world, (unsigned)i, &the_usual);
        relay_slot_init(&world->relays[i], (char)('a' + i), world->folder, config,
            world->options.seed * 10 + (uint64_t)i);
        free(config);
        relay_slot_start(&world->relays[i], false);
}

/* ---- all ------------------------------------------------------------------------------------- */

static void begin_postgres(struct world *world)
{
        PGconn *admin;
        char *dsn;

        world->postgres =
            world->options.has_standby ? postgres_start_replicated() : postgres_start_durable();
        dsn = postgres_new_database(world->postgres);
        /* A standby that takes over takes connections before it takes writes. */
        world->dsn = xasprintf("%s target_session_attrs=read-write", dsn);
        free(dsn);
        world->app = dsn_as_user(world->dsn, "app");
        admin = database_connect(world->dsn);
        for (int i = 0; i < N_RELAYS; i++) {
                char *sql = xasprintf("CREATE ROLE %s LOGIN IN ROLE courier_relay", relay_roles[i]);
                database_exec(admin, sql);
                free(sql);
        }
        database_exec(admin, "CHECKPOINT"); /* or the first recovery begins before all that */
        PQfinish(admin);
}

/* With all roles, databases and rights to log in. */
static void begin_standby(struct world *world)
{
        world->standby = postgres_start_standby(world->postgres);
        postgres_wait_for_standby(world->postgres);
}

void world_recover_postgres(struct world *world)
{
        if (world->standby == NULL) {
                postgres_start_again(world->postgres);
                return;
        }
        postgres_take_over(world->postgres, world->standby);
        postgres_rewind(world->standby, world->postgres);
        postgres_wait_for_standby(world->postgres);
}

static void begin_links(struct world *world)
{
        uint16_t ports[N_LINKS] = {[LINK_PG_A] = world->postgres->port,
            [LINK_PG_B] = world->postgres->port,
            [LINK_STREAM] = world->redis.port,
            [LINK_MAIL] = world->smtp.port,
            [LINK_ONCE] = world->redis.port};

        for (int i = 0; i < N_HOOKS; i++)
                ports[LINK_HOOK + i] = http_receiver_port(world->hooks[i].receiver);
        for (int i = 0; i < N_LINKS; i++)
                world->links[i] = fault_proxy_add(world->proxy, ports[i]);
}

/* Those that are not of a receiver. */
static unsigned count_lanes(const struct world *world)
{
        unsigned n = 0;

        for (int s = 0; s < N_PLAIN_SINKS; s++)
                n += world_has_sink(world, (enum chaos_sink)s);
        return n;
}

void world_begin(struct world *world, const struct world_options *options)
{
        *world = (struct world){.options = *options, .folder = temp_folder()};
        for (int s = 0; s < N_SINKS; s++)
                arrivals_init(&world->arrivals[s]);
        world->proxy = fault_proxy_start();
        brokers_begin(&world->brokers, world_brokers(options), options->has_clusters, world->proxy);
        begin_postgres(world);
        taps_begin(&world->taps, world->dsn);
        jobs_begin(world->dsn, (options->without & WITHOUT_REFUSALS) == 0);
        world->trimmer = trimmer_start(world->dsn, count_lanes(world));
        passwords_init(&world->passwords, world->folder);
        redis_server_start(&world->redis, world->passwords.redis_options);
        passwords_begin(&world->passwords, world->postgres, world->dsn, &world->redis);
        if (options->has_standby)
                begin_standby(world);
        start_hook(world, &world->hooks[HOOK_HOOK], SINK_HOOK);
        start_hook(world, &world->hooks[HOOK_FAST], SINK_FAST);
        start_hook(world, &world->hooks[HOOK_MANY], N_SINKS);
        start_hook(world, &world->hooks[HOOK_FRAIL], N_SINKS);
        smtp_receiver_init(&world->smtp);
        world->mood_path = xasprintf("%s/mood", world->folder);
        world_set_mail_mood(world, "");
        world_start_mail(world);
        begin_links(world);
        receivers_begin(&world->receivers, world->dsn, fault_link_port(world->links[LINK_MANY]),
            fault_link_port(world->links[LINK_FRAIL]), &world->arrivals[SINK_PASSING]);
        brokers_await(&world->brokers, &world->arrivals[SINK_RABBIT]);
        for (int i = 0; i < N_RELAYS; i++)
                begin_relay(world, i);
        world->event_sql = chaos_event_sql((options->without & WITHOUT_REFUSALS) == 0);
        world->writers =
            writers_start(world->app, &(struct writer_options){.n_writers = options->n_writers,
                                          .pause_us = options->pause_us,
                                          .long_ms = 1000,
                                          .seed = (unsigned)options->seed,
                                          .columns = chaos_event_columns,
                                          .tables = tap_tables,
                                          .n_tables = N_TAP_TABLES,
                                          .event_sql = world->event_sql});
}

void world_end_calm(struct world *world)
{
        if ((world->options.without & WITHOUT_NEWCOMERS) != 0)
                return;
        world->newcomers = newcomers_start(world->dsn, fault_link_port(world->links[LINK_MANY]),
            &world->arrivals[SINK_FRESH], world->options.seed);
}

void world_end(struct world *world)
{
        for (int i = 0; i < N_RELAYS; i++)
                relay_slot_deinit(&world->relays[i]);
        writers_destroy(world->writers);
        newcomers_destroy(world->newcomers);
        brokers_end(&world->brokers);
        fault_proxy_destroy(world->proxy);
        for (int i = 0; i < N_HOOKS; i++) {
                http_receiver_release(world->hooks[i].receiver);
                http_receiver_destroy(world->hooks[i].receiver);
        }
        smtp_receiver_deinit(&world->smtp);
        redis_server_destroy(&world->redis);
        passwords_deinit(&world->passwords);
        receivers_deinit(&world->receivers);
        postgres_stop_immediate(world->postgres);
        if (world->standby != NULL)
                postgres_stop_immediate(world->standby);
        for (int s = 0; s < N_SINKS; s++)
                arrivals_deinit(&world->arrivals[s]);
        free(world->mood_path);
        free(world->event_sql);
        free(world->dsn);
        free(world->app);
        free(world->folder);
}

uint32_t world_sinks_of_link(enum link link)
{
        const uint32_t frail = 1u << SINK_FRAIL | 1u << SINK_MOVING;
        const uint32_t many = ALL_RECEIVERS & ~(1u << SINK_FRAIL);

        switch (link) {
        case LINK_PG_A:
        case LINK_PG_B:
                return ALL_SINKS;
        case LINK_STREAM:
                return 1u << SINK_STREAM;
        case LINK_HOOK:
                return 1u << SINK_HOOK;
        case LINK_FAST:
                return 1u << SINK_FAST;
        case LINK_MANY:
                return many;
        case LINK_FRAIL:
                return frail;
        case LINK_MAIL:
                return 1u << SINK_MAIL;
        case LINK_ONCE:
                return 1u << SINK_ONCE;
        case N_LINKS:
                break;
        }
        abort();
}

void world_read_arrivals_of_nats(struct world *world)
{
        arrivals_read_nats(&world->arrivals[SINK_NATS], &world->brokers);
}

void world_read_arrivals(struct world *world)
{
        arrivals_read_stream(&world->arrivals[SINK_STREAM], &world->redis, WORLD_STREAM);
        arrivals_read_stream(&world->arrivals[SINK_ONCE], &world->redis, WORLD_LEDGER);
        arrivals_read_mailbox(&world->arrivals[SINK_MAIL], &world->smtp);
        jobs_read(&world->arrivals[SINK_JOBS], world->dsn);
        if (world_has_sink(world, SINK_NATS))
                world_read_arrivals_of_nats(world);
        if (world_has_sink(world, SINK_RABBIT))
                rabbit_watch_read(world->brokers.watch);
        if (world_has_sink(world, SINK_KAFKA))
                arrivals_read_kafka(&world->arrivals[SINK_KAFKA], &world->brokers);
}
