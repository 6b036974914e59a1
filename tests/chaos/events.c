#include "chaos/events.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        KEYS_PER_WRITER = 8,
        MAIL_EVERY = 9,
        MAIL_AT = 7,
        REFUSED_EVERY = 61,
        DELAYED_EVERY = 23,
        DELAYED_AT = 11,
        DELAY_STEP_MS = 90,
        DELAY_STEPS = 40
};

const char chaos_event_columns[] = "topic, key, payload, deliver_at";

const char *chaos_sink_name(enum chaos_sink sink)
{
        static const char *const names[N_SINKS] = {"stream", "hook", "fast", "mail"};
        return names[sink];
}

bool chaos_sink_keeps_order(enum chaos_sink sink)
{
        return sink != SINK_FAST;
}

char *chaos_event_sql(bool with_refusals)
{
        char *due = xasprintf(
            "now() + (n / %d %% %d) * interval '%d ms'", DELAYED_EVERY, DELAY_STEPS, DELAY_STEP_MS);
        char *sql = xasprintf(
            "CASE WHEN n %% %d = %d THEN 'chaos.mail' ELSE 'chaos.event' END, "
            "'w' || w || 'k' || n %% %d, "
            "json_build_object('to', CASE WHEN %s AND n / %d %% 19 = 1 THEN "
            "'reject550@example.org' "
            "ELSE 'customer@example.org' END, 'subject', w || ' ' || n || CASE WHEN n %% %d = %d "
            "THEN ' ' || (extract(epoch FROM %s) * 1000000)::bigint ELSE '' END, 'text', 'chaos'), "
            "CASE WHEN n %% %d = %d THEN %s END",
            MAIL_EVERY, MAIL_AT, KEYS_PER_WRITER, with_refusals ? "true" : "false", MAIL_EVERY,
            DELAYED_EVERY, DELAYED_AT, due, DELAYED_EVERY, DELAYED_AT, due);
        free(due);
        return sql;
}

static uint32_t refused_by(unsigned number)
{
        uint32_t sinks = 0;

        if (number % REFUSED_EVERY == 5)
                sinks |= 1u << SINK_HOOK;
        if (number % REFUSED_EVERY == 17)
                sinks |= 1u << SINK_FAST;
        if (number / MAIL_EVERY % 19 == 1)
                sinks |= 1u << SINK_MAIL;
        return sinks;
}

struct chaos_event chaos_event(
    unsigned writer, unsigned number, enum published fate, bool with_refusals)
{
        bool is_mail = number % MAIL_EVERY == MAIL_AT;

        return (struct chaos_event){.fate = fate,
            .key = writer * KEYS_PER_WRITER + number % KEYS_PER_WRITER,
            .sinks = is_mail ? ALL_SINKS : ALL_SINKS & ~(1u << SINK_MAIL),
            .refused = with_refusals ? refused_by(number) : 0,
            .is_delayed = number % DELAYED_EVERY == DELAYED_AT};
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
