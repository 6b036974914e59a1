/* Neighbouring events have few topics, so where the topic alone makes it, the last are kept. */
#include "sinks/nats/nats_subject.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/utf8.h"
#include "pgcourier/event.h"
#include "pgcourier/outcome.h"
#include "text/template.h"

#include <stdlib.h>
#include <string.h>

enum { N_RECENT = 16 };
enum { TOPIC, TYPE, KEY, ID, N_VARIABLES };

static const char *const variables[N_VARIABLES + 1] = {"topic", "type", "key", "id", NULL};

struct recent_subject {
        struct bytes topic; /* NULL: none yet */
        struct bytes text;
        bool is_allowed;
};

struct nats_subject {
        struct template *template; /* owned */
        char *text;                /* owned */
        const char *inbox;         /* borrowed */
        bool is_per_event;
        bool is_by_topic; /* it depends on nothing but the topic, or on nothing at all */
        struct recent_subject recent[N_RECENT];
        struct bytes rendered; /* unless is_by_topic */
};

const char *nats_subject_problem(const char *text, size_t length, const char *inbox)
{
        size_t inbox_bytes = strlen(inbox);

        if (length == 0)
                return "is empty";
        if (length > NATS_MAX_SUBJECT_BYTES)
                return "is longer than 1024 bytes";
        if (text[0] == '$')
                return "begins with $, as those that NATS itself acts on";
        if (strncmp(text, "_INBOX", 6) == 0 ||
            (strncmp(text, inbox, inbox_bytes) == 0 &&
                (text[inbox_bytes] == '.' || text[inbox_bytes] == '\0')))
                return "is one of the subjects of answers";
        if (text[0] == '.' || text[length - 1] == '.')
                return "begins or ends with a dot";
        for (size_t i = 0; i < length; i++) {
                const unsigned char c = (unsigned char)text[i];
                if (c <= ' ' || c == 0x7f)
                        return "holds a blank or a control character";
                if (c == '*' || c == '>')
                        return "holds a wildcard (* or >)";
                if (c == '.' && text[i - 1] == '.')
                        return "holds two dots side by side";
        }
        return NULL;
}

static void render(const struct nats_subject *subject, const struct event *event, struct bytes *out)
{
        const char *const values[N_VARIABLES] = {[TOPIC] = event->topic,
            [TYPE] = event->type != NULL ? event->type : "",
            [KEY] = event->key != NULL ? event->key : "",
            [ID] = event->event_id};

        bytes_clear(out);
        bytes_append_text(out, "");
        template_render(subject->template, values, out);
}

struct nats_subject *nats_subject_create(const char *text, const char *inbox, struct error *error)
{
        struct template *template = template_compile(text, variables, error);
        struct nats_subject *subject;
        const char *problem;

        if (template == NULL)
                return NULL;
        problem = template_has_variables(template)
                      ? NULL
                      : nats_subject_problem(text, strlen(text), inbox);
        if (problem != NULL) {
                template_destroy(template);
                error_set(error, ERROR_CONFIG, "the subject '%s' %s", text, problem);
                return NULL;
        }
        subject = xcalloc(1, sizeof *subject);
        subject->template = template;
        subject->text = xstrdup(text);
        subject->inbox = inbox;
        subject->is_per_event = template_has_variables(template);
        subject->is_by_topic = !template_uses(template, TYPE) && !template_uses(template, KEY) &&
                               !template_uses(template, ID);
        return subject;
}

void nats_subject_destroy(struct nats_subject *subject)
{
        if (subject == NULL)
                return;
        for (size_t i = 0; i < N_RECENT; i++) {
                bytes_deinit(&subject->recent[i].topic);
                bytes_deinit(&subject->recent[i].text);
        }
        bytes_deinit(&subject->rendered);
        template_destroy(subject->template);
        free(subject->text);
        free(subject);
}

bool nats_subject_is_per_event(const struct nats_subject *subject)
{
        return subject->is_per_event;
}

bool nats_subject_is_unique(const struct nats_subject *subject)
{
        return template_uses(subject->template, ID);
}

static bool admit(
    const struct nats_subject *subject, const struct bytes *text, struct outcome *out_refusal)
{
        const char *problem = nats_subject_problem(text->data, text->length, subject->inbox);

        if (problem != NULL)
                *out_refusal = outcome_make(OUTCOME_REJECTED, "the event's subject %s", problem);
        return problem == NULL;
}

static bool has_its_parts(
    const struct nats_subject *subject, const struct event *event, struct outcome *out_refusal)
{
        if (event->key == NULL && template_uses(subject->template, KEY))
                *out_refusal = outcome_make(
                    OUTCOME_REJECTED, "the event has no key, which the subject needs ({{key}})");
        else if (event->type == NULL && template_uses(subject->template, TYPE))
                *out_refusal = outcome_make(
                    OUTCOME_REJECTED, "the event has no type, which the subject needs ({{type}})");
        else
                return true;
        return false;
}

static const struct bytes *by_topic(
    struct nats_subject *subject, const struct event *event, struct outcome *out_refusal)
{
        size_t length = strlen(event->topic);
        unsigned char last = length > 0 ? (unsigned char)event->topic[length - 1] : 0;
        struct recent_subject *recent = &subject->recent[(7 * length + last) % N_RECENT];

        if (recent->topic.data == NULL || strcmp(recent->topic.data, event->topic) != 0) {
                bytes_clear(&recent->topic);
                bytes_append(&recent->topic, event->topic, length);
                render(subject, event, &recent->text);
                recent->is_allowed = false;
        }
        recent->is_allowed = recent->is_allowed || admit(subject, &recent->text, out_refusal);
        return recent->is_allowed ? &recent->text : NULL;
}

const struct bytes *nats_subject_of(
    struct nats_subject *subject, const struct event *event, struct outcome *out_refusal)
{
        if (subject->is_by_topic)
                return by_topic(subject, event, out_refusal);
        if (!has_its_parts(subject, event, out_refusal))
                return NULL;
        render(subject, event, &subject->rendered);
        return admit(subject, &subject->rendered, out_refusal) ? &subject->rendered : NULL;
}

void nats_subject_describe(
    const struct nats_subject *subject, const struct event *event, char *text, size_t size)
{
        struct bytes full = {0};

        render(subject, event, &full);
        utf8_copy(text, size, full.data);
        bytes_deinit(&full);
}

bool nats_subject_append_filter(const struct nats_subject *subject, struct bytes *out)
{
        const char *variable = subject->is_per_event ? strstr(subject->text, "{{") : NULL;
        const char *end = subject->text + strlen(subject->text);

        if (variable != NULL) {
                for (end = variable; end > subject->text && end[-1] != '.'; end--)
                        ;
                if (end == subject->text)
                        return false;
        }
        bytes_append(out, subject->text, (size_t)(end - subject->text));
        if (variable != NULL)
                bytes_append_text(out, ">");
        return true;
}
