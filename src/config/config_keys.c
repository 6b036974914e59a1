#include "config/config_keys.h"

#include "config/config.h"

#include <stdlib.h>

#define MEMBER(type, member)                                                                       \
        .offset = offsetof(type, member), .member_bytes = sizeof(((type *)NULL)->member)
#define COUNTED(type, member, count) MEMBER(type, member), .count_offset = offsetof(type, count)
#define BLOCK(name, type, rows)                                                                    \
        const struct config_block name = {                                                         \
            .keys = (rows), .n_keys = sizeof(rows) / sizeof *(rows), .struct_bytes = sizeof(type)}

#define P(member) MEMBER(struct postgres_config, member)
static const struct config_key postgres_keys[] = {
    {"dsn", KEY_TEXT, P(dsn), .is_required = true, .is_secret = true,
        .help = "how to reach the database: a libpq connection string or URI"},
    {"dsn_file", KEY_FILE_OF, P(dsn), .help = "a file that holds dsn"},
    {"password", KEY_TEXT, P(password), .is_secret = true,
        .help = "the password, if dsn has none; without it libpq looks in its usual places"},
    {"password_file", KEY_FILE_OF, P(password), .help = "a file that holds password"},
    {"connect_timeout", KEY_DURATION, P(connect_timeout_ms), .fallback = "5s", .min = "100ms",
        .max = "10m", .help = "how long connecting may take"},
    {"query_timeout", KEY_DURATION, P(query_timeout_ms), .fallback = "30s", .min = "100ms",
        .max = "1h", .help = "a statement unanswered for so long breaks the connection"},
};
static BLOCK(postgres_block, struct postgres_config, postgres_keys);

#define R(member) MEMBER(struct relay_config, member)
static const struct config_key relay_keys[] = {
    {"wakeup", KEY_CHOICE, R(wakeup), .fallback = "notify", .choices = "notify, poll",
        .help =
            "what wakes a sleeping relay: LISTEN/NOTIFY, or polling (where LISTEN cannot be used)"},
    {"sweep", KEY_DURATION, R(sweep_ms), .fallback = "5s", .min = "10ms", .max = "1h",
        .help = "how often to look at the backlog without having been notified"},
    {"poll_interval", KEY_DURATION, R(poll_interval_ms), .fallback = "250ms", .min = "1ms",
        .max = "1h", .help = "how often to look at the backlog with wakeup: poll"},
    {"standby", KEY_DURATION, R(standby_ms), .fallback = "1s", .min = "10ms", .max = "1h",
        .help = "how often a standby tries for a lane that another relay owns"},
    {"drain", KEY_DURATION, R(drain_ms), .fallback = "10s", .min = "0", .max = "1h",
        .help = "how long a stopping relay waits for what is in flight"},
};
static BLOCK(relay_block, struct relay_config, relay_keys);

static const struct config_key log_keys[] = {
    {"level", KEY_TEXT, MEMBER(struct config, log_level), .fallback = "info",
        .choices = "debug, info, warn, error",
        .help = "the least important messages that are written"},
};
static BLOCK(log_block, struct config, log_keys);

#define T(member) MEMBER(struct retry_config, member)
static const struct config_key retry_keys[] = {
    {"first", KEY_DURATION, T(first_ms), .fallback = "1s", .min = "1ms", .max = "1h",
        .help = "the delay before the second attempt"},
    {"factor", KEY_NUMBER, T(factor), .fallback = "3", .min = "1", .max = "10",
        .help = "how much longer each further delay is"},
    {"max", KEY_DURATION, T(max_ms), .fallback = "1h", .min = "1ms", .max = "30d",
        .help = "the longest delay; not below first"},
    {"delays", KEY_DURATIONS, COUNTED(struct retry_config, delays_ms, n_delays), .max_items = 100,
        .min = "1ms", .max = "30d",
        .help = "instead of first, factor and max: the delay after each failed attempt"},
    {"attempts", KEY_INTEGER, T(attempts), .fallback = "20", .min = "0", .max = "1000000",
        .help = "give up after so many; 0: any number"},
    {"max_age", KEY_DURATION, T(max_age_ms), .fallback = "3d", .min = "0", .max = "365d",
        .help = "give up when the delays add up to more than this; 0: any"},
};
static BLOCK(retry_block, struct retry_config, retry_keys);

#define D(member) MEMBER(struct redis_config, member)
static const struct config_key redis_keys[] = {
    {"url", KEY_TEXT, D(url), .is_required = true, .is_secret = true, .check = check_redis_url,
        .help = "redis://[user[:password]@]host[:port][/db] or unix:///path/to.sock[?db=N]"},
    {"user", KEY_TEXT, D(user), .help = "the ACL user, if url has none"},
    {"password", KEY_TEXT, D(password), .is_secret = true, .help = "the password, if url has none"},
    {"password_file", KEY_FILE_OF, D(password), .help = "a file that holds password"},
    {"stream", KEY_TEXT, D(stream), .fallback = "events:{{topic}}", .check = check_stream_template,
        .help = "the stream's key; {{topic}} stands for the event's topic"},
    {"maxlen", KEY_INTEGER, D(maxlen), .fallback = "0", .min = "0", .max = "9223372036854775807",
        .help = "trim the stream to about so many entries; 0: never"},
    {"connect_timeout", KEY_DURATION, D(connect_timeout_ms), .fallback = "5s", .min = "1ms",
        .max = "10m", .help = "how long connecting may take"},
    {"timeout", KEY_DURATION, D(timeout_ms), .fallback = "5s", .min = "1ms", .max = "1h",
        .help = "a command unanswered for so long breaks the connection"},
};
static BLOCK(redis_block, struct redis_config, redis_keys);

#define H(member) MEMBER(struct http_config, member)
static const struct config_key http_keys[] = {
    {"url", KEY_TEXT, H(url), .is_required = true, .is_secret = true, .check = check_http_url,
        .help = "where events are posted: http://host… or https://host…"},
    {"url_file", KEY_FILE_OF, H(url), .help = "a file that holds url"},
    {"secret", KEY_TEXT, H(secret), .is_secret = true, .check = check_http_secret,
        .help = "signs requests (Standard Webhooks): whsec_ and base64 of 24 to 64 bytes"},
    {"secret_file", KEY_FILE_OF, H(secret), .help = "a file that holds secret"},
    {"headers", KEY_TEXTS, COUNTED(struct http_config, headers, n_headers),
        .check = check_header_name,
        .help = "names of event headers that are passed on as HTTP headers"},
    {"concurrency", KEY_INTEGER, H(concurrency), .fallback = "16", .min = "1", .max = "1024",
        .help = "requests in flight at the same time"},
    {"connect_timeout", KEY_DURATION, H(connect_timeout_ms), .fallback = "5s", .min = "1ms",
        .max = "10m", .help = "how long connecting may take"},
    {"timeout", KEY_DURATION, H(timeout_ms), .fallback = "15s", .min = "1ms", .max = "1h",
        .help = "how long a whole request may take"},
    {"ca_file", KEY_TEXT, H(ca_file), .check = check_readable_file,
        .help = "certificates to trust instead of the system's (PEM)"},
};
static BLOCK(http_block, struct http_config, http_keys);

#define E(member) MEMBER(struct email_config, member)
static const struct config_key email_keys[] = {
    {"url", KEY_TEXT, E(url), .is_required = true, .check = check_email_url,
        .help = "smtp://host[:port] or smtps://host[:port]"},
    {"from", KEY_TEXT, E(from), .is_required = true, .check = check_email_address,
        .help = "the sender: name@domain, or Name <name@domain>"},
    {"user", KEY_TEXT, E(user), .help = "the name to log in with"},
    {"password", KEY_TEXT, E(password), .is_secret = true, .help = "the password to log in with"},
    {"password_file", KEY_FILE_OF, E(password), .help = "a file that holds password"},
    {"message_id_domain", KEY_TEXT, E(message_id_domain), .check = check_domain,
        .help = "the right side of each Message-ID; by default the domain of from"},
    {"tls", KEY_CHOICE, E(tls), .fallback = "auto", .choices = "auto, required, none",
        .help = "auto: required unless the server is on this machine"},
    {"concurrency", KEY_INTEGER, E(concurrency), .fallback = "2", .min = "1", .max = "16",
        .help = "messages sent at the same time"},
    {"connect_timeout", KEY_DURATION, E(connect_timeout_ms), .fallback = "10s", .min = "1ms",
        .max = "10m", .help = "how long connecting may take"},
    {"timeout", KEY_DURATION, E(timeout_ms), .fallback = "120s", .min = "1ms", .max = "1h",
        .help = "how long sending one message may take"},
    {"ca_file", KEY_TEXT, E(ca_file), .check = check_readable_file,
        .help = "certificates to trust instead of the system's (PEM)"},
};
static BLOCK(email_block, struct email_config, email_keys);

static const struct config_key stdout_keys[] = {
    {"payload", KEY_BOOL, MEMBER(struct stdout_config, payload), .fallback = "true",
        .help = "print payloads; false leaves only each event's name and identity"},
};
static BLOCK(stdout_block, struct stdout_config, stdout_keys);

#define S(member) MEMBER(struct sink_config, member)
static const struct config_key sink_keys[] = {
    {"name", KEY_TEXT, S(name), .is_required = true, .check = check_sink_name,
        .help = "the sink's name in the database, in logs and in metrics; never change it"},
    {"topics", KEY_TEXTS, COUNTED(struct sink_config, topics, n_topics), .is_required = true,
        .check = check_topic_pattern,
        .help = "patterns of the topics it takes; * stands for any run of characters"},
    {"start", KEY_CHOICE, S(start), .fallback = "now", .choices = "now, beginning",
        .help = "where a new sink begins: with events from now on, or with all that are kept"},
    {"order", KEY_CHOICE, S(order), .fallback = "key", .choices = "key, none",
        .help = "key: events of one key are delivered one after another; none: as fast as they go"},
    {"max_in_flight", KEY_INTEGER, S(max_in_flight), .fallback = "1000", .min = "2",
        .max = "100000", .help = "events that are claimed and not settled at the same time"},
    {"max_in_flight_bytes", KEY_SIZE, S(max_in_flight_bytes), .fallback = "16MiB", .min = "64KiB",
        .max = "1GiB", .help = "the size of their payloads"},
    {"retry", KEY_BLOCK, S(retry), .block = &retry_block,
        .help = "when an event whose delivery failed is tried again, and when it is given up"},
    {"park_after", KEY_DURATION, S(park_after_ms), .fallback = "1s", .min = "1ms", .max = "1h",
        .help = "a delivery under way for so long that holds up others is parked meanwhile"},
    {"max_parked", KEY_INTEGER, S(max_parked), .fallback = "100000", .min = "1",
        .max = "1000000000",
        .help = "with so many deliveries parked nothing new is read until some are through"},
    {"max_event_bytes", KEY_SIZE, S(max_event_bytes), .fallback = "1MiB", .min = "0", .max = "1GiB",
        .help = "a larger payload is a dead letter at once; 0: any size"},
    {"redis", KEY_OPTIONAL_BLOCK, S(redis), .block = &redis_block,
        .help = "append to a Redis Stream"},
    {"http", KEY_OPTIONAL_BLOCK, S(http), .block = &http_block, .help = "post to a webhook"},
    {"email", KEY_OPTIONAL_BLOCK, S(email), .block = &email_block, .help = "send as e-mail"},
    {"stdout", KEY_OPTIONAL_BLOCK, S(stdout_), .block = &stdout_block,
        .help = "print as JSON lines"},
};
static BLOCK(sink_block, struct sink_config, sink_keys);

#define C(member) MEMBER(struct config, member)
static const struct config_key root_keys[] = {
    {"postgres", KEY_BLOCK, C(postgres), .block = &postgres_block,
        .help = "the database that holds the outbox"},
    {"relay", KEY_BLOCK, C(relay), .block = &relay_block, .help = "how the relay works"},
    /* Its only key is a member of struct config itself. */
    {"log", KEY_BLOCK, .offset = 0, .member_bytes = sizeof(struct config), .block = &log_block,
        .help = "what is logged"},
    {"sinks", KEY_BLOCKS, COUNTED(struct config, sinks, n_sinks), .is_required = true,
        .block = &sink_block,
        .help = "the destinations, each of exactly one kind: redis, http, email or stdout"},
};
BLOCK(config_root, struct config, root_keys);

enum key_shape key_shape(enum key_type type)
{
        switch (type) {
        case KEY_TEXT:
        case KEY_FILE_OF:
        case KEY_CHOICE:
        case KEY_BOOL:
        case KEY_INTEGER:
        case KEY_NUMBER:
        case KEY_DURATION:
        case KEY_SIZE:
                return SHAPE_SCALAR;
        case KEY_TEXTS:
        case KEY_DURATIONS:
                return SHAPE_TEXTS;
        case KEY_BLOCK:
        case KEY_OPTIONAL_BLOCK:
                return SHAPE_BLOCK;
        case KEY_BLOCKS:
                return SHAPE_BLOCKS;
        }
        abort();
}
