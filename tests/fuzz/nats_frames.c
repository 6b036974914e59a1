/*
 * A byte of switches, then bytes as they come from a NATS server: they are cut into frames, and
 * each is taken for what it is: INFO, an answer to an event, an error.
 */
#include "sinks/nats/nats_answers.h"

#include "fuzz.h"
#include "sinks/nats/nats_greeting.h"
#include "sinks/nats/nats_protocol.h"
#include "sinks/nats/nats_setup.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* What a stream has stored, by jansson alone. */
static bool says_stored(const struct nats_frame *frame)
{
        json_t *object = json_loadb(frame->payload, frame->payload_bytes, 0, NULL);
        const char *stream = json_string_value(json_object_get(object, "stream"));
        bool is_stored = frame->status == 0 && json_object_get(object, "error") == NULL &&
                         stream != NULL && *stream != '\0' &&
                         json_integer_value(json_object_get(object, "seq")) > 0;

        json_decref(object);
        return is_stored;
}

static void check_answer(const struct nats_frame *frame, unsigned switches)
{
        const struct nats_answer_rules rules = {
            .duplicates = (switches & 1) != 0 ? NATS_DUPLICATES_BY_SUBJECT : NATS_DUPLICATES_ID,
            .is_transient = (switches & 4) != 0};
        const struct outcome outcome = nats_answer_judge(frame, &rules);

        fuzz_require_outcome(&outcome);
        fuzz_require(nats_answer_is_ack(frame) == says_stored(frame),
            "an acknowledgement is one, however it is written", outcome.reason);
        fuzz_require(outcome.kind != OUTCOME_DELIVERED || says_stored(frame) ||
                         rules.duplicates == NATS_DUPLICATES_BY_SUBJECT,
            "only what is stored is delivered", outcome.reason);
        fuzz_require(!outcome.needs_operator || outcome.kind == OUTCOME_SINK_DOWN,
            "an operator is asked for when the sink is down", outcome.reason);
}

static void check_setup(const struct nats_frame *frame, unsigned switches)
{
        static char stream[] = "S";
        const struct nats_config config = {
            .stream = stream, .duplicates = (enum nats_duplicates)((switches >> 3) % 3)};
        struct nats_setup setup = {.config = &config, .step = SETUP_EXAMINE, .stream = "S"};

        nats_setup_take(&setup, frame);
        fuzz_require(setup.step == SETUP_DONE, "an answer ends a probe", "");
        fuzz_require_outcome(&setup.outcome);
}

static void check_error(const struct nats_frame *frame)
{
        const struct nats_error error = nats_error_read(frame->text, frame->text_bytes);

        fuzz_require(fuzz_is_one_line(error.words, false), "an error is one line", error.words);
        fuzz_require(error.kind == NATS_ERROR_OF_PUBLICATION || error.subject[0] == '\0',
            "a subject is that of a publication", error.subject);
}

static void check_info(const struct nats_frame *frame)
{
        struct nats_info info;

        if (!nats_info_parse(frame->text, frame->text_bytes, &info))
                return;
        fuzz_require(info.n_urls <= NATS_MAX_CONNECT_URLS, "servers are bounded", "");
        nats_info_deinit(&info);
}

static bool lies_within(const char *part, size_t part_bytes, const char *whole, size_t whole_bytes)
{
        return part >= whole && part_bytes <= whole_bytes &&
               (size_t)(part - whole) <= whole_bytes - part_bytes;
}

static void check_frame(
    const struct nats_frame *frame, const char *data, size_t size, unsigned switches)
{
        switch (frame->kind) {
        case NATS_MESSAGE:
                fuzz_require(
                    lies_within(frame->subject, frame->subject_bytes, data, frame->size) &&
                        lies_within(frame->payload, frame->payload_bytes, data, frame->size),
                    "a message is where it was read", "");
                check_answer(frame, switches);
                check_setup(frame, switches);
                break;
        case NATS_INFO:
                check_info(frame);
                break;
        case NATS_ERROR:
                check_error(frame);
                break;
        case NATS_INCOMPLETE:
                fuzz_require(size < NATS_MAX_LINE_BYTES + NATS_MAX_MESSAGE_BYTES + 4,
                    "what is awaited is bounded", "");
                break;
        case NATS_PING:
        case NATS_PONG:
        case NATS_OK:
        case NATS_MALFORMED:
                break;
        }
        fuzz_require(
            (frame->size == 0) == (frame->kind == NATS_INCOMPLETE || frame->kind == NATS_MALFORMED),
            "a frame has bytes", "");
        fuzz_require(frame->size <= size, "a frame is not longer than what came", "");
}

/* The same bytes with their end still to come: nothing else may be seen in them. */
static void check_split(const struct nats_frame *frame, const char *data)
{
        for (size_t n = 0; n < frame->size; n += 1 + n / 4) {
                char *part = malloc(n + 1);
                struct nats_frame early;

                memcpy(part, data, n);
                early = nats_read(part, n);
                fuzz_require(early.kind == NATS_INCOMPLETE, "a part of a frame is none", "");
                free(part);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        unsigned switches = fuzz_take_byte(&input);
        size_t length;
        char *text = fuzz_take_rest(&input, &length);
        size_t at = 0;

        for (;;) {
                const struct nats_frame frame = nats_read(text + at, length - at);

                check_frame(&frame, text + at, length - at, switches);
                if (frame.size == 0)
                        break;
                check_split(&frame, text + at);
                at += frame.size;
        }
        free(text);
        return 0;
}
