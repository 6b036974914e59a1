#include "sinks/email_message.h"

#include "base/alloc.h"
#include "config/config.h"
#include "sinks/email_mime.h"
#include "sinks/utf8.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RECIPIENTS    100
#define MAX_SUBJECT_BYTES 1000

struct mailbox_list {
        struct mailbox *items; /* owned */
        size_t n;
};

/* The payload, member by member; texts are borrowed from the parsed JSON. */
struct draft {
        struct mailbox_list to;
        struct mailbox_list cc;
        struct mailbox_list bcc;
        struct mailbox_list reply_to;
        const char *subject;
        const char *text;
        const char *html;
};

/* Always false, like error_set(). */
static bool reject(struct outcome *out_rejected, const char *member, const char *problem)
{
        *out_rejected =
            outcome_make(OUTCOME_REJECTED, "payload member \"%.64s\": %s", member, problem);
        return false;
}

bool email_sender_init(
    struct email_sender *sender, const struct email_config *config, struct error *error)
{
        const char *problem = mailbox_parse(config->from, &sender->from);

        if (problem != NULL)
                return error_set(error, ERROR_CONFIG, "email: from: %s", problem);
        sender->message_id_domain = config->message_id_domain != NULL
                                        ? config->message_id_domain
                                        : strchr(sender->from.address, '@') + 1;
        if (domain_is_valid(sender->message_id_domain))
                return true;
        email_sender_deinit(sender);
        return error_set(error, ERROR_CONFIG,
            "email: message_id_domain: expected a host name such as mail.example.org");
}

void email_sender_deinit(struct email_sender *sender)
{
        mailbox_deinit(&sender->from);
}

static void list_deinit(struct mailbox_list *list)
{
        for (size_t i = 0; i < list->n; i++)
                mailbox_deinit(&list->items[i]);
        free(list->items);
        *list = (struct mailbox_list){0};
}

static void draft_deinit(struct draft *draft)
{
        list_deinit(&draft->to);
        list_deinit(&draft->cc);
        list_deinit(&draft->bcc);
        list_deinit(&draft->reply_to);
}

static bool read_mailbox(struct mailbox_list *list, const json_t *value, const char *member,
    struct outcome *out_rejected)
{
        const char *problem;

        if (!json_is_string(value))
                return reject(out_rejected, member, "expected an address as a string");
        problem = mailbox_parse(json_string_value(value), &list->items[list->n]);
        if (problem != NULL)
                return reject(out_rejected, member, problem);
        list->n++;
        return true;
}

static bool read_mailboxes(struct mailbox_list *list, const json_t *payload, const char *member,
    struct outcome *out_rejected)
{
        const json_t *value = json_object_get(payload, member);
        size_t n = json_is_array(value) ? json_array_size(value) : 1;

        if (value == NULL || json_is_null(value))
                return true;
        if (!json_is_array(value) && !json_is_string(value))
                return reject(out_rejected, member, "expected an address or an array of addresses");
        if (n > MAX_RECIPIENTS)
                return reject(out_rejected, member, "at most 100 addresses are allowed");

        list->items = xcalloc(n, sizeof *list->items);
        if (json_is_string(value))
                return read_mailbox(list, value, member, out_rejected);
        for (size_t i = 0; i < n; i++) {
                char place[32];
                snprintf(place, sizeof place, "%s[%zu]", member, i);
                if (!read_mailbox(list, json_array_get(value, i), place, out_rejected))
                        return false;
        }
        return true;
}

static bool read_text(
    const char **out_text, const json_t *payload, const char *member, struct outcome *out_rejected)
{
        const json_t *value = json_object_get(payload, member);

        if (value == NULL || json_is_null(value))
                return true;
        if (!json_is_string(value))
                return reject(out_rejected, member, "expected a string");
        *out_text = json_string_value(value);
        return true;
}

static bool has_only_known_members(json_t *payload, struct outcome *out_rejected)
{
        static const char *const known[] = {
            "to", "cc", "bcc", "reply_to", "subject", "text", "html", NULL};
        const char *member;
        json_t *value;

        json_object_foreach(payload, member, value)
        {
                const char *const *at = known;
                while (*at != NULL && strcmp(*at, member) != 0)
                        at++;
                if (*at == NULL)
                        return reject(out_rejected, member,
                            "unknown; allowed are to, cc, bcc, reply_to, subject, text, html");
        }
        return true;
}

static bool read_draft(struct draft *draft, json_t *payload, struct outcome *out_rejected)
{
        const char *problem;

        if (!has_only_known_members(payload, out_rejected) ||
            !read_mailboxes(&draft->to, payload, "to", out_rejected) ||
            !read_mailboxes(&draft->cc, payload, "cc", out_rejected) ||
            !read_mailboxes(&draft->bcc, payload, "bcc", out_rejected) ||
            !read_mailboxes(&draft->reply_to, payload, "reply_to", out_rejected) ||
            !read_text(&draft->subject, payload, "subject", out_rejected) ||
            !read_text(&draft->text, payload, "text", out_rejected) ||
            !read_text(&draft->html, payload, "html", out_rejected))
                return false;
        if (draft->to.n == 0)
                return reject(out_rejected, "to", "at least one address is required");
        if (draft->to.n + draft->cc.n + draft->bcc.n > MAX_RECIPIENTS)
                return reject(out_rejected, "to", "to, cc and bcc hold more than 100 addresses");
        if (draft->subject == NULL)
                return reject(out_rejected, "subject", "required");
        if (strlen(draft->subject) > MAX_SUBJECT_BYTES)
                return reject(out_rejected, "subject", "at most 1000 bytes are allowed");
        problem = header_text_problem(draft->subject);
        if (problem != NULL)
                return reject(out_rejected, "subject", problem);
        if (draft->text == NULL && draft->html == NULL)
                return reject(out_rejected, "text", "required unless there is \"html\"");
        return true;
}

/* A mailbox that is named twice gets one copy. */
static void add_recipients(struct email_message *message, const struct mailbox_list *list)
{
        for (size_t i = 0; i < list->n; i++) {
                size_t at = 0;
                while (at < message->n_recipients &&
                       strcmp(message->recipients[at], list->items[i].address) != 0)
                        at++;
                if (at == message->n_recipients)
                        message->recipients[message->n_recipients++] =
                            xstrdup(list->items[i].address);
        }
}

static void append_text_part(struct bytes *out, const char *type, const char *text)
{
        bytes_printf(out,
            "Content-Type: text/%s; charset=utf-8\r\n"
            "Content-Transfer-Encoding: quoted-printable\r\n\r\n",
            type);
        mime_append_quoted_printable(out, text);
}

/* "=_" cannot occur in quoted-printable text, so no payload can hold the boundary. */
static void append_body(struct bytes *out, const struct draft *draft, const char *event_id)
{
        if (draft->text != NULL && draft->html != NULL) {
                bytes_printf(out,
                    "Content-Type: multipart/alternative;\r\n boundary=\"=_%s\"\r\n\r\n--=_%s\r\n",
                    event_id, event_id);
                append_text_part(out, "plain", draft->text);
                bytes_printf(out, "\r\n--=_%s\r\n", event_id);
                append_text_part(out, "html", draft->html);
                bytes_printf(out, "\r\n--=_%s--\r\n", event_id);
                return;
        }
        if (draft->text != NULL)
                append_text_part(out, "plain", draft->text);
        else
                append_text_part(out, "html", draft->html);
        if (strcmp(out->data + out->length - 2, "\r\n") != 0)
                bytes_append_text(out, "\r\n");
}

static void append_headers(struct bytes *out, const struct draft *draft,
    const struct email_sender *sender, const struct event *event, int64_t wall_us)
{
        const char *event_id = event->event_id;

        mime_append_mailbox_header(out, "From", &sender->from, 1);
        mime_append_mailbox_header(out, "To", draft->to.items, draft->to.n);
        if (draft->cc.n > 0)
                mime_append_mailbox_header(out, "Cc", draft->cc.items, draft->cc.n);
        if (draft->reply_to.n > 0)
                mime_append_mailbox_header(
                    out, "Reply-To", draft->reply_to.items, draft->reply_to.n);
        mime_append_text_header(out, "Subject", draft->subject);
        mime_append_date_header(out, wall_us);
        bytes_printf(out, "Message-ID: <%s@%s>\r\n", event_id, sender->message_id_domain);
        bytes_printf(out, "X-Event-Id: %s\r\n", event_id);
        if (event->is_redriven)
                bytes_append_text(out, "X-Redriven: true\r\n");
        bytes_append_text(out, "Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n");
}

/* jansson's own message would quote the payload: only the place is told. */
static json_t *parse_payload(const struct event *event, struct outcome *out_rejected)
{
        json_error_t failure = {0};
        json_t *payload;

        if (!event->is_json) {
                *out_rejected = outcome_make(OUTCOME_REJECTED,
                    "an email needs a JSON payload; this event was published as binary data");
                return NULL;
        }
        payload = json_loadb(event->payload, event->payload_bytes,
            JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &failure);
        if (payload == NULL) {
                *out_rejected = outcome_make(OUTCOME_REJECTED, "payload, line %d, column %d: %s",
                    failure.line, failure.column,
                    json_error_code(&failure) == json_error_duplicate_key
                        ? "a member occurs twice"
                        : "not JSON that can be read (or it holds a NUL or a lone surrogate)");
                return NULL;
        }
        if (json_is_object(payload))
                return payload;
        json_decref(payload);
        *out_rejected = outcome_make(
            OUTCOME_REJECTED, "the payload is not a JSON object with to, subject and text or html");
        return NULL;
}

bool email_message_init(struct email_message *message, const struct email_sender *sender,
    const struct event *event, int64_t wall_us, struct outcome *out_rejected)
{
        struct draft draft = {0};
        json_t *payload = parse_payload(event, out_rejected);
        bool is_valid = payload != NULL && read_draft(&draft, payload, out_rejected);

        if (is_valid) {
                *message = (struct email_message){0};
                message->recipients =
                    xcalloc(draft.to.n + draft.cc.n + draft.bcc.n, sizeof *message->recipients);
                add_recipients(message, &draft.to);
                add_recipients(message, &draft.cc);
                add_recipients(message, &draft.bcc);
                append_headers(&message->text, &draft, sender, event, wall_us);
                append_body(&message->text, &draft, event->event_id);
        }
        draft_deinit(&draft);
        json_decref(payload);
        return is_valid;
}

void email_message_deinit(struct email_message *message)
{
        for (size_t i = 0; i < message->n_recipients; i++)
                free(message->recipients[i]);
        free(message->recipients);
        bytes_deinit(&message->text);
        *message = (struct email_message){0};
}

static void describe_addresses(struct bytes *out, const json_t *value)
{
        size_t n = json_is_array(value) ? json_array_size(value) : 1;

        for (size_t i = 0; i < n; i++) {
                const json_t *address = json_is_array(value) ? json_array_get(value, i) : value;
                if (json_is_string(address))
                        bytes_printf(
                            out, "%s%s", out->length > 0 ? ", " : "", json_string_value(address));
        }
}

void email_message_describe(const struct event *event, char *recipients, size_t size)
{
        struct outcome rejected;
        json_t *payload = parse_payload(event, &rejected);
        struct bytes out = {0};

        bytes_append_text(&out, "");
        describe_addresses(&out, json_object_get(payload, "to"));
        describe_addresses(&out, json_object_get(payload, "cc"));
        describe_addresses(&out, json_object_get(payload, "bcc"));
        utf8_copy(recipients, size, out.data);
        bytes_deinit(&out);
        json_decref(payload);
}
