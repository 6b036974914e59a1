#include "chaos/events.h"

#include "base/alloc.h"
#include "chaos/taps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        KEYS_PER_WRITER = 8,
        IN_A_ROW = 6, /* events of a key: the next of its key is right behind one that is refused */
        MAIL_EVERY = 9,
        MAIL_AT = 7,
        PLAIN_OF_THREE = 2, /* not for the receivers, of whom there are many */
        REFUSED_EVERY = 61,
        REFUSED_BY_JOB_AT = 41,
        STRICT_EVERY = 2 * IN_A_ROW,
        STRICT_AT = 2,
        STRICT_PERIOD_MS = 200,
        STRICT_FOR_MS = 100,
        DELAYED_EVERY = 23,
        DELAYED_AT = 11,
        DELAY_STEP_MS = 90,
        DELAY_STEPS = 40
};

const char chaos_event_columns[] = "topic, key, payload, deliver_at";

const char *chaos_sink_name(enum chaos_sink sink)
{
        static const char *const names[N_SINKS] = {"stream", "hook", "fast", "mail", "once", "jobs",
            "nats", "rabbitmq", "kafka", "all", "events", "mails", "frail", "paused", "moving",
            "passing", "limited", "strict", "choosy", "fresh"};
        return names[sink];
}

bool chaos_sink_keeps_order(enum chaos_sink sink)
{
        return sink != SINK_FAST;
}

bool chaos_sink_is_receiver(enum chaos_sink sink)
{
        return sink >= N_PLAIN_SINKS;
}

/* 50 is max_in_flight of the plain sinks. That of the receivers' sink is 100; a receiver's own is
 * four times its concurrency within that, and at least 64. */
uint32_t chaos_sink_window(enum chaos_sink sink)
{
        if (!chaos_sink_is_receiver(sink))
                return 50;
        return sink == SINK_ALL ? 80 : sink == SINK_FRAIL ? 100 : 64;
}

/* The text of what is no mail: enough that a filter can get lost in it. */
static const char nodes[] = "{\"a\":2,\"b\":3,\"c\":4,\"d\":[1,2,3],\"e\":{\"x\":1}}";

char *chaos_event_sql(bool with_refusals)
{
        char *due = xasprintf(
            "now() + (n / %d %% %d) * interval '%d ms'", DELAYED_EVERY, DELAY_STEPS, DELAY_STEP_MS);
        char *sql = xasprintf(
            "CASE WHEN n %% %d = %d THEN 'chaos.mail' WHEN n %% 3 < %d THEN 'chaos.plain' "
            "ELSE 'chaos.event' END, "
            "'w' || w || 'k' || n / %d %% %d, "
            "json_build_object('to', CASE WHEN %s AND n / %d %% 19 = 1 THEN "
            "'reject550@example.org' "
            "ELSE 'customer@example.org' END, 'subject', w || ' ' || n || CASE WHEN n %% %d = %d "
            "AND w %% %d <> %d "
            "THEN ' ' || (extract(epoch FROM %s) * 1000000)::bigint ELSE '' END, 'text', CASE "
            "WHEN n %% %d = %d THEN to_json('chaos'::text) ELSE json '%s' END), "
            "CASE WHEN n %% %d = %d THEN %s END",
            MAIL_EVERY, MAIL_AT, PLAIN_OF_THREE, IN_A_ROW, KEYS_PER_WRITER,
            with_refusals ? "true" : "false", MAIL_EVERY, DELAYED_EVERY, DELAYED_AT, N_TAP_TABLES,
            CAPTURED_TABLE, due, MAIL_EVERY, MAIL_AT, nodes, DELAYED_EVERY, DELAYED_AT, due);
        free(due);
        return sql;
}

char *chaos_refused_by_job_sql(const char *payload)
{
        return xasprintf("split_part(%s->>'subject', ' ', 1) <> 'beacon' AND "
                         "split_part(%s->>'subject', ' ', 2)::integer %% %d = %d",
            payload, payload, REFUSED_EVERY, REFUSED_BY_JOB_AT);
}

static uint32_t relented_by(unsigned number)
{
        uint32_t sinks = 0;

        if (number % STRICT_EVERY == STRICT_AT + IN_A_ROW)
                sinks |= 1u << SINK_HOOK;
        if (number % STRICT_EVERY == STRICT_AT)
                sinks |= 1u << SINK_STRICT;
        return sinks;
}

bool chaos_is_strict(int64_t now_us)
{
        return now_us / 1000 % STRICT_PERIOD_MS < STRICT_FOR_MS;
}

static uint32_t refused_by(unsigned number)
{
        uint32_t sinks = 0;

        if (number % REFUSED_EVERY == 5)
                sinks |= 1u << SINK_HOOK;
        if (number % REFUSED_EVERY == 17)
                sinks |= 1u << SINK_FAST;
        if (number % REFUSED_EVERY == REFUSED_BY_JOB_AT)
                sinks |= 1u << SINK_JOBS;
        if (number % REFUSED_EVERY == 29)
                sinks |= 1u << SINK_LIMITED;
        if (number / MAIL_EVERY % 19 == 1)
                sinks |= 1u << SINK_MAIL;
        return sinks | relented_by(number);
}

struct chaos_event chaos_event(
    unsigned writer, unsigned number, enum published fate, bool with_refusals)
{
        bool is_mail = number % MAIL_EVERY == MAIL_AT;
        bool is_plain = !is_mail && number % 3 < PLAIN_OF_THREE;
        uint32_t not_for = 1u << SINK_FRESH;

        not_for |= is_mail ? 1u << SINK_EVENTS : 1u << SINK_MAIL | 1u << SINK_MAILS;

        if (is_plain)
                not_for |= ALL_RECEIVERS;

        return (struct chaos_event){.fate = fate,
            .key = writer * KEYS_PER_WRITER + number / IN_A_ROW % KEYS_PER_WRITER,
            .sinks = ALL_SINKS & ~not_for,
            .refused = with_refusals ? refused_by(number) : 0,
            .relents = with_refusals ? relented_by(number) : 0,
            .is_delayed =
                number % DELAYED_EVERY == DELAYED_AT && writer % N_TAP_TABLES != CAPTURED_TABLE};
}

static const char *const marks[] = {"\"subject\" : \"", "Subject: "};

bool chaos_event_parse(
    const char *text, unsigned *out_writer, unsigned *out_number, int64_t *out_due_us)
{
        for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
                const char *found = strstr(text, marks[i]);
                *out_due_us = 0;
                if (found != NULL && sscanf(found + strlen(marks[i]), "%u %u %" SCNd64, out_writer,
                                         out_number, out_due_us) >= 2)
                        return true;
        }
        return false;
}

const char chaos_beacon_sql[] =
    "INSERT INTO courier.outbox (topic, key, payload) VALUES ('chaos.mail', 'beacon', "
    "json_build_object('to', 'customer@example.org', 'subject', 'beacon', 'text', 'chaos'))";

bool chaos_is_beacon(const char *text)
{
        for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
                const char *found = strstr(text, marks[i]);
                if (found != NULL && strncmp(found + strlen(marks[i]), "beacon", 6) == 0)
                        return true;
        }
        return false;
}
