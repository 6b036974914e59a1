#include "config/checks.h"

#include "base/alloc.h"
#include "config/kind_checks.h"
#include "text/network.h"
#include "text/topic_pattern.h"

#include <stdlib.h>
#include <string.h>

static bool check_names_differ(const struct source *source, const struct config *config)
{
        char path[KEY_PATH_SIZE];

        for (unsigned i = 1; i < config->n_sinks; i++) {
                for (unsigned j = 0; j < i; j++) {
                        if (strcmp(config->sinks[i].name, config->sinks[j].name) != 0)
                                continue;
                        key_path_item(path, "sinks", i);
                        return source_fail(source, path, "name",
                            "is the name of sinks[%u] too; each sink needs its own", j);
                }
        }
        return true;
}

static bool check_has_one_kind(
    const struct source *source, const struct sink_config *sink, const char *path)
{
        int n_kinds = (sink->redis != NULL) + (sink->http != NULL) + (sink->email != NULL) +
                      (sink->stdout_ != NULL) + (sink->module != NULL);

        if (n_kinds == 1)
                return true;
        return source_fail(source, path, "",
            "%s; exactly one of these is needed: redis, http, email, stdout, module",
            n_kinds == 0 ? "has no destination" : "has more than one destination");
}

/* As mail servers do it: greylisting passes after a minute, a full mailbox after hours. The delays add up
 * to two and a half days. */
static void set_email_delays(struct retry_config *retry)
{
        static const int64_t minutes[] = {
            1, 5, 15, 30, 60, 2 * 60, 4 * 60, 8 * 60, 16 * 60, 24 * 60};
        enum { N = sizeof minutes / sizeof minutes[0] };

        retry->delays_ms = xcalloc(N, sizeof *retry->delays_ms);
        retry->n_delays = N;
        for (unsigned i = 0; i < N; i++)
                retry->delays_ms[i] = minutes[i] * 60 * 1000;
}

/* The length of the list limits the attempts, and its sum their age. The defaults of the other two
 * limits would shorten that, so only values from the file count. */
static void let_delays_decide(
    const struct source *source, struct retry_config *retry, const char *path)
{
        if (!source_has(source, path, "attempts"))
                retry->attempts = 0;
        if (!source_has(source, path, "max_age"))
                retry->max_age_ms = 0;
}

static bool check_delays(const struct source *source, struct retry_config *retry, const char *path)
{
        static const char *const others[] = {"first", "factor", "max"};

        if (retry->n_delays == 0)
                return source_fail(source, path, "delays",
                    "is empty; give at least one delay, or leave the key out (attempts: 1 tries "
                    "only once)");
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
                if (source_has(source, path, others[i]))
                        return source_fail(source, path, others[i],
                            "is given together with delays; keep one of the two");
        let_delays_decide(source, retry, path);
        return true;
}

static bool check_retry(const struct source *source, struct sink_config *sink, const char *path)
{
        struct retry_config *retry = &sink->retry;
        char retry_path[KEY_PATH_SIZE];

        key_path_join(retry_path, path, "retry");
        if (source_has(source, retry_path, "delays"))
                return check_delays(source, retry, retry_path);
        if (sink->email != NULL && !source_has(source, retry_path, "first") &&
            !source_has(source, retry_path, "factor") && !source_has(source, retry_path, "max")) {
                set_email_delays(retry);
                let_delays_decide(source, retry, retry_path);
                return true;
        }
        return retry->max_ms >= retry->first_ms ||
               source_fail(source, retry_path, "max",
                   "is below retry.first; allowed: retry.first or longer");
}

static bool check_patterns(const struct source *source, const char *path, const char *name,
    char *const *patterns, unsigned n_patterns)
{
        const char *wrong = topic_patterns_check(patterns, n_patterns);

        return wrong == NULL || source_fail(source, path, name, "%s", wrong);
}

static bool check_rate(
    const struct source *source, const struct sink_config *sink, const char *path)
{
        if (sink->rate.burst > 0 && sink->rate.per_second <= 0)
                return source_fail(source, path, "rate.burst",
                    "is given without per_second, which limits the rate in the first place");
        /* One rate for all receivers would let the slowest hold up the others. */
        if (sink_config_fans_out(sink) && sink->rate.per_second > 0)
                return source_fail(source, path, "rate",
                    "does not go with endpoints: table: give each endpoint its own "
                    "(courier.endpoint.rate)");
        return true;
}

/* Each mail on its way occupies a thread. */
static bool check_concurrency(
    const struct source *source, const struct sink_config *sink, const char *path)
{
        return sink->email == NULL || sink->concurrency <= 16 ||
               source_fail(source, path, "concurrency",
                   "'%u' is out of range; allowed for email: 1 to 16", sink->concurrency);
}

static bool check_kind(const struct source *source, struct sink_config *sink, const char *path)
{
        char block_path[KEY_PATH_SIZE];

        key_path_join(block_path, path, sink_config_kind(sink));
        if (sink->redis != NULL)
                return check_redis(source, sink->redis, block_path);
        if (sink->http != NULL)
                return check_http(source, sink->http, block_path);
        return sink->email == NULL || check_email(source, sink->email, block_path);
}

static bool check_sink(const struct source *source, struct sink_config *sink, const char *path)
{
        return check_has_one_kind(source, sink, path) && check_retry(source, sink, path) &&
               check_patterns(source, path, "topics", sink->topics, sink->n_topics) &&
               check_patterns(source, path, "types", sink->types, sink->n_types) &&
               check_rate(source, sink, path) && check_concurrency(source, sink, path) &&
               check_kind(source, sink, path);
}

/* Where other machines can reach the endpoint, only the token keeps them from changing things. */
static bool check_admin(const struct source *source, const struct admin_config *admin)
{
        struct listen_address address;

        if (admin == NULL || admin->token != NULL)
                return true;
        if (listen_address_parse(admin->listen, &address) != NULL)
                abort(); /* its row's check has accepted it */
        return listen_address_is_local(&address) ||
               source_fail(source, "admin", "listen",
                   "is reachable from other machines, but there is no token; add admin.token_file "
                   "(make a token by: openssl rand -hex 32), or listen on 127.0.0.1, [::1] or "
                   "unix:/path");
}

static bool check_outbox(const struct source *source, const struct outbox_config *outbox)
{
        if (outbox->retention_max_ms == 0 || outbox->retention_max_ms >= outbox->retention_ms)
                return true;
        return source_fail(source, "outbox", "retention_max",
            "is below outbox.retention; allowed: 0, outbox.retention or longer");
}

bool config_check(const struct source *source, struct config *config)
{
        char path[KEY_PATH_SIZE];

        if (!check_outbox(source, &config->outbox))
                return false;
        for (unsigned i = 0; i < config->n_sinks; i++) {
                key_path_item(path, "sinks", i);
                if (!check_sink(source, &config->sinks[i], path))
                        return false;
        }
        return check_admin(source, config->admin) && check_names_differ(source, config);
}
