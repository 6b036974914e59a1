#include "config/config_keys.h"

#include "base/alloc.h"
#include "config/config_keys_internal.h"
#include "config/value_types.h"
#include "text/topic_pattern.h"

#include <stdlib.h>
#include <string.h>

#define OWNER struct postgres_config
static const struct config_key postgres_keys[] = {
    {"dsn", KEY_TEXT, MEMBER(dsn), .is_required = true, .is_secret = true,
        .help = "how to reach the database: a libpq connection string or URI. With several "
                "hosts the one that accepts writes is used. `sslmode` is `verify-full` by "
                "default for a server on another machine"},
    FILE_OF(dsn),
    {"password", KEY_TEXT, MEMBER(password), .is_secret = true,
        .help = "the password, if dsn has none; without it libpq looks in its usual places"},
    FILE_OF(password),
    {"connect_timeout", KEY_DURATION, MEMBER(connect_timeout_ms), .fallback = "5s", .min = "100ms",
        .max = "10m", .help = "how long connecting may take"},
    {"query_timeout", KEY_DURATION, MEMBER(query_timeout_ms), .fallback = "30s", .min = "100ms",
        .max = "1h",
        .help =
            "how long a statement may take before the relay closes the connection; the "
            "server cancels the relay's statements after two thirds of this, and waits for locks "
            "a third: below 4s the making of partitions may cost sessions"},
};
static BLOCK(postgres_block, postgres_keys);
#undef OWNER

#define OWNER struct relay_config
static const struct config_key relay_keys[] = {
    {"name", KEY_TEXT, MEMBER(name), .check = check_relay_name,
        .help =
            "the relay's name among those of the database: 1 to 63 of a-z, 0-9, `-`, `_` and "
            "`.`; by default the host's. Of two relays of one name the second is called name/2"},
    {"weight", KEY_INTEGER, MEMBER(weight), .fallback = "1", .min = "1", .max = "1000",
        .help = "its share of the shards, beside those of the other relays: with 2 it has twice as "
                "many as a relay with 1"},
    {"sinks", KEY_TEXT, LIST(sinks, n_sinks), .max_items = 1000, .check = check_sink_pattern,
        .help = "patterns of the names of the sinks that this relay serves, by the rules of "
                "`topics`; by default all sinks of the file. Each must match a sink"},
    {"wakeup", KEY_CHOICE, MEMBER(wakeup), .fallback = "notify", .choices = "notify, poll",
        .help = "what wakes a sleeping relay: LISTEN/NOTIFY on a second connection, or polling, "
                "where LISTEN cannot be used"},
    {"sweep", KEY_DURATION, MEMBER(sweep_ms), .fallback = "5s", .min = "10ms", .max = "1h",
        .help = "how often to check the backlog without a notification; up to an eighth "
                "sooner, so that several relays do not check at the same moment"},
    {"poll_interval", KEY_DURATION, MEMBER(poll_interval_ms), .fallback = "250ms", .min = "1ms",
        .max = "1h",
        .help = "how often to check the backlog with `wakeup: poll`, and at least as often "
                "while the second connection is lost"},
    {"standby", KEY_DURATION, MEMBER(standby_ms), .fallback = "200ms", .min = "10ms", .max = "1h",
        .help = "how often a relay looks which others are there, and what they own; alone it does "
                "not"},
    {"drain", KEY_DURATION, MEMBER(drain_ms), .fallback = "10s", .min = "0", .max = "1h",
        .help = "how long a stopping relay waits for deliveries in flight"},
    {"dns_servers", KEY_TEXT, LIST(dns_servers, n_dns_servers), .max_items = 16,
        .check = check_dns_server,
        .help = "name servers to ask instead of the system's: `192.0.2.53`, `192.0.2.53:5353`, "
                "`2001:db8::53` or `[2001:db8::53]:5353`; see [addresses](sinks.md#addresses)"},
    {"modules", KEY_TEXT, MEMBER(modules),
        .help = "the folder with the [modules](writing-a-sink.md) of sinks; by default the "
                "installation's folder, which `pgcourier version` prints"},
};
static BLOCK(relay_block, relay_keys);
#undef OWNER

#define OWNER struct admin_config
static const struct config_key admin_keys[] = {
    {"listen", KEY_TEXT, MEMBER(listen), .fallback = "127.0.0.1:8477",
        .check = check_listen_address,
        .help = "the address to listen on: 127.0.0.1:8477, [::1]:8477 or unix:/path; needs a "
                "token if other machines can reach it"},
    {"token", KEY_TEXT, MEMBER(token), .is_secret = true, .check = check_admin_token,
        .help = "the secret that a client must send to pause, resume, redrive, drop or reload; "
                "without a token nothing can be changed"},
    FILE_OF(token),
    {"allowed_hosts", KEY_TEXT, LIST(allowed_hosts, n_allowed_hosts), .max_items = 64,
        .check = check_host_name,
        .help = "host names that clients use for the endpoint, besides localhost and IP "
                "addresses: the name of a reverse proxy or of a Kubernetes service"},
};
static BLOCK(admin_block, admin_keys);
#undef OWNER

#define OWNER struct portal_config
static const struct config_key portal_keys[] = {
    {"listen", KEY_TEXT, MEMBER(listen), .fallback = "127.0.0.1:9188",
        .check = check_listen_address,
        .help = "the address to listen on: 127.0.0.1:9188, [::1]:9188 or unix:/path; a proxy in "
                "front of it speaks TLS"},
    {"base_url", KEY_TEXT, MEMBER(base_url), .is_required = true, .check = check_portal_url,
        .help = "where customers find it, as links begin: `https://hooks.example.com/`; http:// "
                "only for localhost and loopback addresses"},
    {"manage", KEY_TEXT, LIST(manage, n_manage), .max_items = 4, .check = check_portal_right,
        .help = "what links with --manage allow, any of `resend`, `pause`, `url` and `secret`; "
                "without this key all of them"},
};
static BLOCK(portal_block, portal_keys);
#undef OWNER

#define OWNER struct outbox_config
static const struct config_key outbox_keys[] = {
    {"retention", KEY_DURATION, MEMBER(retention_ms), .fallback = "7d", .min = "0", .max = "3650d",
        .help = "how long events stay in the outbox; longer while a sink still needs them"},
    {"retention_max", KEY_DURATION, MEMBER(retention_max_ms), .fallback = "0", .min = "0",
        .max = "3650d",
        .help = "drop events of this age even if a sink has not read them; that sink loses "
                "them; `0`: never; at least `retention`"},
    {"dedup_retention", KEY_DURATION, MEMBER(dedup_retention_ms), .fallback = "7d", .min = "1m",
        .max = "3650d",
        .help =
            "how long a second event of a `dedup_key` is not published, counted from the first"},
    {"types", KEY_CHOICE, MEMBER(types), .fallback = "any", .choices = "any, strict",
        .help = "`strict`: publishing refuses events whose type is not in [the catalogue]"
                "(sql.md#types)"},
};
static BLOCK(outbox_block, outbox_keys);
#undef OWNER

#define OWNER struct marks_config
static const struct config_key marks_keys[] = {
    {"enabled", KEY_BOOL, MEMBER(is_enabled), .fallback = "true",
        .help = "mark the rows of [attached tables](architecture.md#marks); if no relay does, the "
                "outbox keeps their events"},
    {"interval", KEY_DURATION, MEMBER(interval_ms), .fallback = "200ms", .min = "1ms", .max = "1h",
        .help = "how long after a sink has settled events their rows are marked"},
    {"batch", KEY_INTEGER, MEMBER(batch), .fallback = "1000", .min = "1", .max = "10000",
        .help = "how many rows are marked in one transaction"},
    {"lock_timeout", KEY_DURATION, MEMBER(lock_timeout_ms), .fallback = "100ms", .min = "1ms",
        .max = "10s",
        .help = "how long a mark waits for a lock on a table before it is put off; rows that are "
                "locked are put off at once"},
};
static BLOCK(marks_block, marks_keys);
#undef OWNER

#define OWNER struct config
static const struct config_key log_keys[] = {
    {"level", KEY_TEXT, MEMBER(log_level), .fallback = "info",
        .choices = "debug, info, warn, error",
        .help = "the least important messages that are written; `--log-level` takes precedence"},
    {"format", KEY_CHOICE, MEMBER(log_format), .fallback = "logfmt", .choices = "logfmt, json",
        .help = "the format of each line: logfmt, or one JSON object"},
};
static BLOCK(log_block, log_keys);
#undef OWNER

#define OWNER struct retry_config
static const struct config_key retry_keys[] = {
    {"first", KEY_DURATION, MEMBER(first_ms), .fallback = "1s", .min = "1ms", .max = "1h",
        .help = "the delay before the second attempt"},
    {"factor", KEY_NUMBER, MEMBER(factor), .fallback = "3", .min = "1", .max = "10",
        .help = "the factor from one delay to the next"},
    {"max", KEY_DURATION, MEMBER(max_ms), .fallback = "1h", .min = "1ms", .max = "30d",
        .help = "the longest delay; not below first"},
    {"delays", KEY_DURATION, LIST(delays_ms, n_delays), .max_items = 100, .min = "1ms",
        .max = "30d",
        .help = "instead of `first`, `factor` and `max`: the delay after each failed attempt; 1 to "
                "100 of them"},
    {"attempts", KEY_INTEGER, MEMBER(attempts), .fallback = "20", .min = "0", .max = "1000000",
        .help = "give an event up after this many failed attempts; `0`: any number. With `delays` "
                "the default is `0`"},
    {"max_age", KEY_DURATION, MEMBER(max_age_ms), .fallback = "3d", .min = "0", .max = "365d",
        .help = "give an event up when its delays would add up to more than this; `0`: no "
                "limit. With `delays` the default is `0`"},
};
static BLOCK(retry_block, retry_keys);
#undef OWNER

#define OWNER struct rate_config
static const struct config_key rate_keys[] = {
    {"per_second", KEY_NUMBER, MEMBER(per_second), .fallback = "0", .min = "0", .max = "1000000",
        .help = "attempts per second, retries included; `0`: any number"},
    {"burst", KEY_INTEGER, MEMBER(burst), .fallback = "0", .min = "0", .max = "1000000",
        .help = "attempts that may start at once after a pause; `0`: as many as in a second"},
};
static BLOCK(rate_block, rate_keys);
#undef OWNER

#define OWNER struct sink_config
static const struct config_key sink_keys[] = {
    {"name", KEY_TEXT, MEMBER(name), .is_required = true, .check = check_sink_name,
        .help = "the sink's name in the database, in logs and in metrics: 1 to 63 of a-z, 0-9, `-` "
                "and `_`, the first a letter or digit. It names the cursor: a sink with a new name "
                "is a new sink"},
    {"topics", KEY_TEXT, LIST(topics, n_topics), .is_required = true, .max_items = 1000,
        .check = topic_pattern_check,
        .help = "patterns of the topics it takes: `*` matches any characters but a dot, `**` "
                "any characters, everything else itself; a pattern that begins with `!` "
                "excludes topics. Up to 1000"},
    {"types", KEY_TEXT, LIST(types, n_types), .max_items = 1000, .check = topic_pattern_check,
        .help = "patterns of the types it takes, by the same rules; without them, events of any "
                "type or none"},
    {"match_headers", KEY_TEXT, LIST(match_headers, n_match_headers), .max_items = 100,
        .check = check_header_condition,
        .help =
            "headers that an event must have: name=value, or name for any value; all must hold"},
    {"filter", KEY_TEXT, MEMBER(filter), .check = check_filter,
        .help = "a jsonpath predicate that must be true of the payload, as in `$.amount > 100`; "
                "PostgreSQL evaluates it"},
    {"start", KEY_CHOICE, MEMBER(start), .fallback = "now", .choices = "now, beginning",
        .help = "where a new sink begins: `now` with events that commit after its first claim, "
                "`beginning` with all events in the outbox. No effect once the sink has a "
                "cursor"},
    {"order", KEY_CHOICE, MEMBER(order), .fallback = "key", .choices = "key, none",
        .help = "`key`: events of one key are delivered one after another; `none`: in any order, "
                "as fast as possible"},
    {"shards", KEY_INTEGER, MEMBER(shards), .fallback = "1", .min = "1", .max = "256",
        .help = "divides its keys, or receivers, into so many shards, which several relays share. "
                "To change it, change the configuration of all relays that serve the sink"},
    {"max_in_flight", KEY_INTEGER, MEMBER(max_in_flight), .fallback = "1000", .min = "2",
        .max = "100000",
        .help = "how many events a relay may have claimed and not yet settled; a crash repeats at "
                "most these"},
    {"max_in_flight_bytes", KEY_SIZE, MEMBER(max_in_flight_bytes), .fallback = "16MiB",
        .min = "64KiB", .max = "1GiB",
        .help = "the total size of their payloads; an event larger than half of it is claimed "
                "alone"},
    {"concurrency", KEY_INTEGER, MEMBER(concurrency), .fallback = "0", .min = "0", .max = "16384",
        .help =
            "attempts that a relay has in flight at the same time. `0`: 16 for `http`, with "
            "`receivers: table` 16384 or three quarters of the files that may be open; 2 for "
            "`email` (at most 16); 4 for `postgres` with `call`, each on a connection of its own; "
            "no limit but `max_in_flight` for the other kinds; a `module` "
            "sets its own"},
    {"rate", KEY_BLOCK, MEMBER(rate), .block = &rate_block,
        .help =
            "how many attempts may start in a second; of several shards each has an equal part"},
    {"retry", KEY_BLOCK, MEMBER(retry), .block = &retry_block,
        .help = "when an event whose delivery failed is tried again, and when it is given up"},
    {"park_after", KEY_DURATION, MEMBER(park_after_ms), .fallback = "1s", .min = "1ms", .max = "1h",
        .help = "a delivery that takes longer than this and holds up others is parked meanwhile"},
    {"max_parked", KEY_INTEGER, MEMBER(max_parked), .fallback = "100000", .min = "1",
        .max = "1000000000",
        .help = "stop reading new events at this many parked deliveries; those that only wait for "
                "`deliver_at` do not count"},
    {"max_event_bytes", KEY_SIZE, MEMBER(max_event_bytes), .fallback = "1MiB", .min = "0",
        .max = "1GiB",
        .help = "an event with a larger payload becomes a dead letter without an attempt; `0`: any "
                "size"},
    {"attempts", KEY_CHOICE, MEMBER(attempts), .fallback = "failures",
        .choices = "failures, all, none",
        .help = "which attempts are kept in `courier.attempt`, for people to see what happened: "
                "`failures`: those that failed, and the success that ended them; `all` costs "
                "some 140 bytes of disk an attempt"},
    {"attempts_retention", KEY_DURATION, MEMBER(attempts_retention_ms), .fallback = "7d",
        .min = "1h", .max = "365d",
        .help = "how long they are kept; they are dropped by whole days, in UTC"},
    {"redis", KEY_OPTIONAL_BLOCK, MEMBER(redis), .block = &redis_block,
        .help = "append to a Redis Stream"},
    {"http", KEY_OPTIONAL_BLOCK, MEMBER(http), .block = &http_block, .help = "post to a webhook"},
    {"email", KEY_OPTIONAL_BLOCK, MEMBER(email), .block = &email_block, .help = "send as e-mail"},
    {"nats", KEY_OPTIONAL_BLOCK, MEMBER(nats), .block = &nats_block,
        .help = "publish to a stream of NATS JetStream"},
    {"rabbitmq", KEY_OPTIONAL_BLOCK, MEMBER(rabbitmq), .block = &rabbitmq_block,
        .help = "publish to an exchange of RabbitMQ"},
    {"kafka", KEY_OPTIONAL_BLOCK, MEMBER(kafka), .block = &kafka_block,
        .help = "write to topics of Kafka; needs the package `pgcourier-kafka`"},
    {"postgres", KEY_OPTIONAL_BLOCK, MEMBER(postgres), .block = &postgres_sink_block,
        .help = "call a function of PostgreSQL, or insert into a table, exactly once for each "
                "event"},
    {"stdout", KEY_OPTIONAL_BLOCK, MEMBER(stdout_), .block = &stdout_block,
        .help = "print as JSON lines"},
    {"module", KEY_OPTIONAL_BLOCK, MEMBER(module), .block = &module_block,
        .help = "hand to a module: a kind of sink in a shared object"},
};
static BLOCK(sink_block, sink_keys);
#undef OWNER

#define OWNER struct config
static const struct config_key root_keys[] = {
    {"postgres", KEY_BLOCK, MEMBER(postgres), .block = &postgres_block,
        .help = "the database that holds the outbox"},
    {"relay", KEY_BLOCK, MEMBER(relay), .block = &relay_block, .help = "how the relay works"},
    {"admin", KEY_OPTIONAL_BLOCK, MEMBER(admin), .block = &admin_block,
        .help = "the endpoint with the live page, health, metrics and changes at run time; "
                "without this block there is no endpoint"},
    {"portal", KEY_OPTIONAL_BLOCK, MEMBER(portal), .block = &portal_block,
        .help = "the [pages](portal.md) on which the owners of receivers look after them; without "
                "this block there are none"},
    {"outbox", KEY_BLOCK, MEMBER(outbox), .block = &outbox_block,
        .help = "how long events are kept in the database"},
    {"marks", KEY_BLOCK, MEMBER(marks), .block = &marks_block,
        .help = "how attached tables learn what has been delivered"},
    /* Its keys are members of struct config itself. */
    {"log", KEY_BLOCK, .offset = 0, .value_bytes = sizeof(struct config), .block = &log_block,
        .help = "what is logged"},
    {"sinks", KEY_BLOCK, LIST(sinks, n_sinks), .is_required = true, .block = &sink_block,
        .help = "the destinations, each of exactly one kind: redis, http, email, nats, "
                "rabbitmq, kafka, postgres, stdout or module"},
};
BLOCK(config_root, root_keys);
#undef OWNER

struct key_values key_values(const struct config_key *key, const void *target)
{
        struct key_values values = {.n = 1};
        char *member = member_text(&target) + key->offset;

        if (key->type == KEY_FILE_OF)
                return (struct key_values){0};
        values.first = member;
        if (key->is_list || key->type == KEY_OPTIONAL_BLOCK)
                values.first = member_text(member);
        if (key->is_list)
                memcpy(&values.n, member_text(&target) + key->count_offset, sizeof values.n);
        else if (values.first == NULL)
                values.n = 0;
        return values;
}

const struct config_key *key_twin(const struct config_block *block, const struct config_key *key)
{
        for (const struct config_key *row = block->keys; row < block->keys + block->n_keys; row++)
                if (row->offset == key->offset &&
                    (row->type == KEY_FILE_OF) != (key->type == KEY_FILE_OF))
                        return row;
        return NULL;
}

bool key_is_required(const struct config_key *key)
{
        if (key->is_required || key->type != KEY_BLOCK || key->is_list)
                return key->is_required;
        for (size_t i = 0; i < key->block->n_keys; i++)
                if (key_is_required(&key->block->keys[i]))
                        return true;
        return false;
}

char *key_help(const struct config_key *key)
{
        char *plain = xstrdup(key->help);
        char *end = plain;
        bool is_link = false;

        for (const char *at = key->help; *at != '\0'; at++) {
                bool opens =
                    *at == '[' && at[strcspn(at, "]")] == ']' && at[strcspn(at, "]") + 1] == '(';
                if (opens)
                        is_link = true;
                else if (*at == ']' && is_link) {
                        at += strcspn(at, ")");
                        is_link = false;
                } else if (*at != '`')
                        *end++ = *at;
        }
        *end = '\0';
        return plain;
}
