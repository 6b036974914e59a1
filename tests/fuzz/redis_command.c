/*
 * A byte of switches, STREAM NUL TOPIC NUL TYPE NUL KEY NUL NAME NUL VALUE NUL PAYLOAD: the command
 * made of it is read back by hiredis, as one array of just the words we meant.
 */
#include "sinks/redis/redis_command.h"

#include "base/bytes.h"
#include "base/error.h"
#include "config/config.h"
#include "fuzz.h"
#include "pgcourier/event.h"
#include "pgcourier/outcome.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

static char source[] = "/shop";
static char nothing[] = "default";

static void check_words(const redisReply *reply, struct redis_command *command,
    const struct redis_config *config, const struct event *event)
{
        const struct bytes *name = redis_command_target(command, event);
        const redisReply *last = reply->element[reply->elements - 1];

        fuzz_require(
            reply->elements == redis_command_n_words(command, event) && reply->elements >= 3,
            "as many words as announced", "");
        for (size_t i = 0; i < reply->elements; i++)
                fuzz_require(
                    reply->element[i]->type == REDIS_REPLY_STRING, "each word is one", name->data);
        fuzz_require(
            strcmp(reply->element[0]->str, config->mode == REDIS_PUBSUB ? "PUBLISH" : "XADD") == 0,
            "the command is ours", reply->element[0]->str);
        fuzz_require(reply->element[1]->len == name->length &&
                         memcmp(reply->element[1]->str, name->data, name->length) == 0,
            "the stream is the one that is told", name->data);
        if (config->mode == REDIS_PUBSUB && config->format == FORMAT_NATIVE)
                fuzz_require(last->len == event->payload_bytes &&
                                 memcmp(last->str, event->payload, last->len) == 0,
                    "the message is the payload, byte for byte", last->str);
        if (config->mode == REDIS_STREAM)
                fuzz_require((reply->elements - (config->maxlen > 0 ? 6 : 3)) % 2 == 0,
                    "each field has a value", name->data);
}

/* Literal and {{variables}}, as the reader of a configuration would expand them. */
static void check_name(struct redis_command *command, const char *text, const struct event *event)
{
        const char *const names[] = {"{{topic}}", "{{type}}", "{{key}}"};
        const char *const values[] = {event->topic, event->type, event->key};
        const struct bytes *name = redis_command_target(command, event);
        struct bytes expected = {0};

        /* Blanks in braces and braces in braces are for the unit tests. */
        if (strstr(text, "{{{") != NULL || strstr(text, "}}}") != NULL || strchr(text, ' ') != NULL)
                return;
        bytes_append_text(&expected, "");
        while (*text != '\0') {
                size_t i = 0;

                while (i < 3 && strncmp(text, names[i], strlen(names[i])) != 0)
                        i++;
                if (i < 3) {
                        bytes_append_text(&expected, values[i] != NULL ? values[i] : "");
                        text += strlen(names[i]);
                } else {
                        bytes_append(&expected, text++, 1);
                }
        }
        fuzz_require(
            strcmp(name->data, expected.data) == 0, "a template means what it says", name->data);
        bytes_deinit(&expected);
}

static void check(const struct redis_config *config, const struct event *event)
{
        const char *text = config->mode == REDIS_PUBSUB ? config->channel : config->stream;
        struct error error = {.kind = ERROR_NONE};
        struct redis_command *command = redis_command_create(config, &error);
        struct outcome refusal = outcome_delivered;
        redisReader *reader;
        struct bytes out = {0};
        void *reply = NULL;
        char described[64];

        if (command == NULL) {
                fuzz_require(error.kind == ERROR_CONFIG, "an error is set", text);
                return;
        }
        redis_command_describe(command, event, described, sizeof described);
        fuzz_require(fuzz_is_one_line(described, false), "a description is one line", described);
        if (!redis_command_admit(command, event, &refusal)) {
                fuzz_require(
                    refusal.kind == OUTCOME_REJECTED, "what goes nowhere is rejected", text);
                fuzz_require_outcome(&refusal);
                redis_command_destroy(command);
                return;
        }
        check_name(command, text, event);
        if (redis_command_is_target_per_event(command))
                fuzz_require(fuzz_is_one_line(redis_command_target(command, event)->data, false),
                    "an event puts no control character into a name", text);
        reader = redisReaderCreate();
        redis_command_encode(command, event, &out);
        redisReaderFeed(reader, out.data, out.length);
        fuzz_require(redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL &&
                         ((redisReply *)reply)->type == REDIS_REPLY_ARRAY,
            "it is a command", out.data);
        check_words(reply, command, config, event);
        freeReplyObject(reply);
        reply = NULL;
        fuzz_require(redisReaderGetReply(reader, &reply) == REDIS_OK && reply == NULL,
            "and no second one", out.data);
        redisReaderFree(reader);
        bytes_deinit(&out);
        redis_command_destroy(command);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        unsigned switches = fuzz_take_byte(&input);
        char *stream = fuzz_take_text(&input);
        char *topic = fuzz_take_text(&input);
        char *type = fuzz_take_text(&input);
        char *key = fuzz_take_text(&input);
        char *name = fuzz_take_text(&input);
        char *value = fuzz_take_text(&input);
        size_t length;
        char *payload = fuzz_take_rest(&input, &length);
        const struct event_header header = {.name = *name != '\0' ? name : "a", .value = value};
        const enum debezium_form form =
            (switches & 2) != 0 ? DEBEZIUM_JSON_SCHEMA : DEBEZIUM_STRING;
        const struct redis_config config = {
            .mode = (switches & 1) != 0 ? REDIS_PUBSUB : REDIS_STREAM,
            .stream = stream,
            .channel = stream,
            .maxlen = (switches & 2) != 0 ? 1000 : 0,
            .layout = (enum redis_fields)((switches >> 2 & 3) % 3),
            .format = (switches & 16) != 0 ? FORMAT_CLOUDEVENTS : FORMAT_NATIVE,
            .source = source,
            .debezium = {.key = form,
                .value = form,
                .headers = form,
                .null_key = nothing,
                .null_value = nothing},
            .max_streams = 2};
        const struct event event = {.event_id = "018f2b6e-5c1d-7a43-9b0e-2f64a1c7d911",
            .topic = topic,
            .type = (switches & 32) != 0 ? NULL : type,
            .key = (switches & 64) != 0 ? NULL : key,
            .payload = payload,
            .payload_bytes = length,
            .created_us = 1706745599000001,
            .headers = &header,
            .n_headers = 1,
            .is_redriven = (switches & 128) != 0};

        check(&config, &event);
        free(payload);
        free(value);
        free(name);
        free(key);
        free(type);
        free(topic);
        free(stream);
        return 0;
}
