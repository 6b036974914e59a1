#include "config/postgres_block.h"

#include "base/alloc.h"
#include "config/checks_common.h"
#include "config/config_keys_internal.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* What PostgreSQL keeps of a name. */
enum { MAX_NAME_BYTES = 63 };

/* Each is a connection. */
enum { MAX_CALLS = 1000 };

/* "schema.name" */
static const char *check_qualified_name(const char *value)
{
        size_t schema = strcspn(value, ".");
        const char *name = value + schema + (value[schema] == '.');

        if (schema == 0 || *name == '\0' || strpbrk(name, ".\"") != NULL ||
            memchr(value, '"', schema) != NULL || strpbrk(value, "( ") != NULL)
                return "is not of the form schema.name, without quotes and arguments";
        if (schema > MAX_NAME_BYTES || strlen(name) > MAX_NAME_BYTES)
                return "has a name of more than 63 bytes, which PostgreSQL would cut";
        return NULL;
}

/* "name=value" */
static const char *check_session_setting(const char *value)
{
        static const char *const others[] = {
            "role", "session_authorization", "search_path", "statement_timeout", "client_encoding"};
        size_t length = strcspn(value, "=");

        if (length == 0 || value[length] == '\0')
                return "is not of the form name=value";
        for (size_t i = 0; i < length; i++)
                if (!isalnum((unsigned char)value[i]) && value[i] != '_' && value[i] != '.')
                        return "has no name of a setting before the =";
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
                if (strlen(others[i]) == length && strncasecmp(value, others[i], length) == 0)
                        return "is not for this list; use role, search_path or timeout";
        return NULL;
}

/* As courier_inbox.accept() takes it. No text of the file holds control characters. */
static const char *check_consumer(const char *value)
{
        size_t n_characters = 0;

        for (const char *at = value; *at != '\0'; at++)
                n_characters += ((unsigned char)*at & 0xc0) != 0x80;
        return n_characters <= 100 ? NULL : "has more than 100 characters";
}

#define OWNER struct postgres_sink_config
static const struct config_key postgres_sink_keys[] = {
    {"call", KEY_TEXT, MEMBER(call), .check = check_qualified_name,
        .help = "the function that is called once for each event, as `schema.function`, written as "
                "in the catalog, without quotes. It takes one `courier.event`"},
    {"insert", KEY_TEXT, MEMBER(insert), .check = check_qualified_name,
        .help = "instead of `call`: the table that events are inserted into, as `schema.table`"},
    {"dsn", KEY_TEXT, MEMBER(dsn), .is_secret = true,
        .help = "the database of the function or table, as `postgres.dsn`; by default that of the "
                "outbox, where the sink logs in as the relay does"},
    FILE_OF(dsn),
    {"password", KEY_TEXT, MEMBER(password), .is_secret = true,
        .help = "the password, if dsn has none"},
    FILE_OF(password),
    {"role", KEY_TEXT, MEMBER(role),
        .help = "the role that the calls run as (`SET ROLE`); the one that logs in must be a "
                "member of it"},
    {"search_path", KEY_TEXT, MEMBER(search_path),
        .help = "the `search_path` of the sessions; by default the role's"},
    {"settings", KEY_TEXT, LIST(settings, n_settings), .max_items = 100,
        .check = check_session_setting,
        .help =
            "further settings of the sessions, each as `name=value`: `work_mem=64MB`, "
            "`app.tenant=7`; not `role`, `search_path` and `statement_timeout`, which have keys"},
    {"consumer", KEY_TEXT, MEMBER(consumer), .check = check_consumer,
        .help = "the name by which the [inbox](inbox.md) of that database knows the sink; by "
                "default the sink's. With another name all events are new to it"},
    {"batch", KEY_INTEGER, MEMBER(batch), .fallback = "1000", .min = "1", .max = "10000",
        .help = "with `insert`: how many events are inserted by one statement, at most"},
    {"timeout", KEY_DURATION, MEMBER(timeout_ms), .fallback = "1m", .min = "10ms", .max = "7d",
        .help = "how long a call may take (`statement_timeout`); then the server cancels it"},
    {"connect_timeout", KEY_DURATION, MEMBER(connect_timeout_ms), .fallback = "5s", .min = "100ms",
        .max = "10m", .help = "how long connecting may take"},
    {"idle", KEY_DURATION, MEMBER(idle_ms), .fallback = "1m", .min = "100ms", .max = "1d",
        .help = "how long an unused connection is kept"},
};
BLOCK(postgres_sink_block, postgres_sink_keys);
#undef OWNER

bool check_postgres_sink(
    const struct source *source, const struct sink_config *sink, const char *sink_path)
{
        const struct postgres_sink_config *postgres = sink->postgres;
        char path[KEY_PATH_SIZE];

        key_path_join(path, sink_path, "postgres");
        if (postgres->call != NULL && sink->concurrency > MAX_CALLS)
                return source_fail(source, sink_path, "concurrency",
                    "'%u' is out of range; allowed for postgres.call: 1 to %d", sink->concurrency,
                    MAX_CALLS);
        if (postgres->call == NULL && postgres->insert == NULL)
                return source_fail(source, path, "call",
                    "is required, or insert: write call: SCHEMA.FUNCTION, or insert: SCHEMA.TABLE");
        if (postgres->call != NULL && postgres->insert != NULL)
                return source_fail(
                    source, path, "insert", "is given together with call; keep one of the two");
        if (postgres->call != NULL && source_has(source, path, "batch"))
                return source_fail(source, path, "batch",
                    "is only for insert: with call each event has a transaction of its own");
        if (postgres->dsn == NULL && postgres->password != NULL)
                return source_fail(source, path,
                    written_as(source, path, "password", "password_file"),
                    "is given without dsn; without a dsn the sink logs in as the relay does");
        return true;
}

/* Copies: a reload exchanges sinks and the block postgres one without the other. */
void postgres_sink_choose_server(
    struct postgres_sink_config *sink, const struct postgres_config *of_outbox)
{
        bool is_other = sink != NULL && sink->dsn != NULL;

        if (sink == NULL)
                return;
        sink->server = (struct postgres_config){
            .dsn = xstrdup(is_other ? sink->dsn : of_outbox->dsn),
            .password = is_other ? sink->password : of_outbox->password,
            .connect_timeout_ms = sink->connect_timeout_ms,
            .query_timeout_ms = sink->connect_timeout_ms,
        };
        if (sink->server.password != NULL)
                sink->server.password = xstrdup(sink->server.password);
}
