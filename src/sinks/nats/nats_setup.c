#include "sinks/nats/nats_setup.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config.h"
#include "sinks/nats/nats_answers.h"
#include "sinks/nats/nats_protocol.h"
#include "sinks/nats/nats_subject.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS INT64_C(1000000)

/* A repetition may come so late, after an outage or a crash. */
#define SHORT_WINDOW_MS INT64_C(3600000)

static void finish(struct nats_setup *setup, const struct outcome *outcome)
{
        setup->step = SETUP_DONE;
        setup->outcome = *outcome;
}

static void fail(struct nats_setup *setup, enum outcome_fault fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void fail(struct nats_setup *setup, enum outcome_fault fault, const char *format, ...)
{
        char reason[512];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(reason, sizeof reason, format, arguments);
        va_end(arguments);
        setup->step = SETUP_DONE;
        setup->outcome = outcome_down(fault, true, "%s", reason);
}

static void name_stream(struct nats_setup *setup, const char *name)
{
        snprintf(setup->stream, sizeof setup->stream, "%s", name);
}

void nats_setup_begin(struct nats_setup *setup)
{
        finish(setup, &outcome_delivered);
        if (setup->config->create_stream == NULL)
                return;
        name_stream(setup, setup->config->stream);
        setup->step = SETUP_LOOK;
}

void nats_setup_begin_probe(struct nats_setup *setup)
{
        struct bytes filter = {0};

        finish(setup, &outcome_delivered);
        setup->is_elsewhere = false;
        if (setup->config->stream != NULL) {
                name_stream(setup, setup->config->stream);
                setup->step = SETUP_EXAMINE;
        }
        if (nats_subject_append_filter(setup->subject, &filter))
                setup->step = SETUP_NAME;
        bytes_deinit(&filter);
}

static void append_json(struct bytes *out, json_t *object)
{
        char *text;

        if (object == NULL)
                out_of_memory();
        text = json_dumps(object, JSON_COMPACT);
        if (text == NULL)
                out_of_memory();
        bytes_append_text(out, text);
        free(text);
        json_decref(object);
}

static void append_names_question(const struct nats_setup *setup, struct bytes *body)
{
        struct bytes filter = {0};

        (void)nats_subject_append_filter(setup->subject, &filter);
        append_json(body, json_pack("{s:s}", "subject", filter.data));
        bytes_deinit(&filter);
}

/* With duplicates: by-subject the stream keeps one message of each subject, for ever. */
static void append_stream(const struct nats_config *config, struct bytes *body)
{
        const struct nats_stream_config *stream = config->create_stream;
        const bool is_by_subject = config->duplicates == NATS_DUPLICATES_BY_SUBJECT;
        json_t *subjects = json_array();

        for (unsigned i = 0; i < stream->n_subjects; i++)
                if (json_array_append_new(subjects, json_string(stream->subjects[i])) != 0)
                        out_of_memory();
        append_json(
            body, json_pack("{s:s,s:o,s:s,s:s,s:s,s:b,s:i,s:i,s:i,s:I,s:I,s:I}", "name",
                      config->stream, "subjects", subjects, "retention", "limits", "storage",
                      stream->storage == NATS_STORAGE_MEMORY ? "memory" : "file", "discard",
                      is_by_subject ? "new" : "old", "discard_new_per_subject", (int)is_by_subject,
                      "num_replicas", (int)stream->replicas, "max_consumers", -1,
                      "max_msgs_per_subject", is_by_subject ? 1 : -1, "max_bytes",
                      (json_int_t)(stream->max_bytes > 0 ? (json_int_t)stream->max_bytes : -1),
                      "max_age", (json_int_t)(stream->max_age_ms * NS_PER_MS), "duplicate_window",
                      (json_int_t)(stream->duplicates_ms * NS_PER_MS)));
}

void nats_setup_ask(const struct nats_setup *setup, struct bytes *subject, struct bytes *body)
{
        const char *domain = setup->config->domain;

        bytes_printf(subject, "$JS.%s%sAPI.STREAM.", domain != NULL ? domain : "",
            domain != NULL ? "." : "");
        switch (setup->step) {
        case SETUP_LOOK:
        case SETUP_EXAMINE:
                bytes_printf(subject, "INFO.%s", setup->stream);
                return;
        case SETUP_CREATE:
                bytes_printf(subject, "CREATE.%s", setup->stream);
                append_stream(setup->config, body);
                return;
        case SETUP_NAME:
                bytes_append_text(subject, "NAMES");
                append_names_question(setup, body);
                return;
        case SETUP_DONE:
                break;
        }
        abort();
}

/* "2m", "1h", "90s" */
static void write_duration(int64_t ms, char *out, size_t size)
{
        if (ms % 3600000 == 0)
                snprintf(out, size, "%" PRId64 "h", ms / 3600000);
        else if (ms % 60000 == 0)
                snprintf(out, size, "%" PRId64 "m", ms / 60000);
        else if (ms % 1000 == 0)
                snprintf(out, size, "%" PRId64 "s", ms / 1000);
        else
                snprintf(out, size, "%" PRId64 "ms", ms);
}

static bool keeps_one_of_each(const json_t *config)
{
        const char *discard = json_string_value(json_object_get(config, "discard"));

        return discard != NULL && strcmp(discard, "new") == 0 &&
               json_is_true(json_object_get(config, "discard_new_per_subject")) &&
               json_integer_value(json_object_get(config, "max_msgs_per_subject")) == 1;
}

static void judge_window(struct nats_setup *setup, const json_t *config)
{
        const json_t *window = json_object_get(config, "duplicate_window");
        const int64_t window_ms = json_integer_value(window) / NS_PER_MS;
        char words[32];
        struct outcome outcome = outcome_delivered;

        if (json_is_integer(window)) {
                const bool is_short = window_ms < SHORT_WINDOW_MS;
                write_duration(window_ms, words, sizeof words);
                outcome = outcome_make(OUTCOME_DELIVERED,
                    "stream %.100s recognizes a repeated event for %s%s (duplicate_window)%s",
                    setup->stream, words, is_short ? " only" : "",
                    is_short
                        ? ": one that is repeated later, after an outage, is stored twice; set "
                          "1h or more"
                        : "");
                outcome.needs_operator = is_short;
        }
        finish(setup, &outcome);
}

static void fail_for_subject(struct nats_setup *setup, const char *which)
{
        struct bytes filter = {0};

        (void)nats_subject_append_filter(setup->subject, &filter);
        fail(setup, OUTCOME_FAULT_NATS, "%s takes %s: create one, or correct the key subject",
            which, filter.data);
        bytes_deinit(&filter);
}

static void examine(struct nats_setup *setup, const json_t *answer)
{
        const json_t *config = json_object_get(answer, "config");
        char which[sizeof setup->stream + 50];

        if (json_is_true(json_object_get(config, "sealed"))) {
                fail(setup, OUTCOME_FAULT_NATS, "the stream %s is sealed", setup->stream);
                return;
        }
        if (setup->is_elsewhere) {
                snprintf(which, sizeof which, "the stream %s exists, but another one, or none,",
                    setup->stream);
                fail_for_subject(setup, which);
                return;
        }
        switch (setup->config->duplicates) {
        case NATS_DUPLICATES_ID:
                judge_window(setup, config);
                return;
        case NATS_DUPLICATES_BY_SUBJECT:
                if (keeps_one_of_each(config))
                        finish(setup, &outcome_delivered);
                else
                        fail(setup, OUTCOME_FAULT_NATS,
                            "duplicates: by-subject needs a stream with discard new, "
                            "discard_new_per_subject and max_msgs_per_subject 1, which %s is not",
                            setup->stream);
                return;
        case NATS_DUPLICATES_OFF:
                finish(setup, &outcome_delivered);
                return;
        }
}

static bool is_named(const json_t *names, const char *stream)
{
        for (size_t i = 0; i < json_array_size(names); i++) {
                const char *name = json_string_value(json_array_get(names, i));
                if (name != NULL && strcmp(name, stream) == 0)
                        return true;
        }
        return false;
}

/* The subjects of a template are many, and more than one stream may share them: each has its own
 * window, and the first one is examined. */
static void take_names(struct nats_setup *setup, const json_t *answer)
{
        const json_t *names = json_object_get(answer, "streams");
        const char *name = json_string_value(json_array_get(names, 0));

        setup->step = SETUP_EXAMINE;
        if (setup->config->stream != NULL)
                setup->is_elsewhere = !is_named(names, setup->config->stream);
        else if (name != NULL && strlen(name) < sizeof setup->stream)
                name_stream(setup, name);
        else
                fail_for_subject(setup, "no stream");
}

static void take_error(struct nats_setup *setup, int code, const char *words)
{
        const bool is_missing = code == NATS_API_STREAM_NOT_FOUND;

        if (setup->step == SETUP_LOOK && is_missing)
                setup->step = SETUP_CREATE;
        else if (setup->step == SETUP_CREATE && code == NATS_API_STREAM_EXISTS)
                finish(setup, &outcome_delivered); /* another relay was faster */
        else if (setup->step == SETUP_EXAMINE && is_missing && setup->config->create_stream != NULL)
                finish(setup, &outcome_delivered); /* run makes it */
        else if (is_missing)
                fail(setup, OUTCOME_FAULT_NATS,
                    "there is no stream %s: create it, or let create_stream do it", setup->stream);
        else
                fail(setup, OUTCOME_FAULT_NATS, "%s stream %s: %s",
                    setup->step == SETUP_CREATE ? "cannot create" : "cannot look at", setup->stream,
                    words);
}

void nats_setup_take(struct nats_setup *setup, const struct nats_frame *answer)
{
        char words[256];
        int code;
        json_t *object;

        if (answer->status != 0) {
                fail(setup, OUTCOME_FAULT_NATS,
                    "JetStream does not answer (status %u): enable it on the server and for the "
                    "account, or correct the key domain",
                    answer->status);
                return;
        }
        code = nats_api_error(answer->payload, answer->payload_bytes, words, sizeof words);
        if (code != 0) {
                take_error(setup, code, words);
                return;
        }
        object = json_loadb(answer->payload, answer->payload_bytes, 0, NULL);
        if (!json_is_object(object))
                fail(setup, OUTCOME_FAULT_PROTOCOL, "JetStream's API did not answer with JSON");
        else if (setup->step == SETUP_NAME)
                take_names(setup, object);
        else if (setup->step == SETUP_EXAMINE)
                examine(setup, object);
        else
                finish(setup, &outcome_delivered);
        json_decref(object);
}

void nats_setup_refuse(struct nats_setup *setup, const char *words)
{
        switch (setup->step) {
        case SETUP_NAME:
                if (setup->config->stream != NULL) {
                        setup->step = SETUP_EXAMINE;
                        return;
                }
                finish(setup, &outcome_delivered);
                return;
        case SETUP_EXAMINE:
                /* One who may not ask may deliver all the same. */
                finish(setup, &outcome_delivered);
                return;
        case SETUP_LOOK:
        case SETUP_CREATE:
                fail(setup, OUTCOME_FAULT_AUTH, "create_stream: %s", words);
                return;
        case SETUP_DONE:
                return;
        }
}
