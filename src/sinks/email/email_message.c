/*
 * Not by curl_mime: it draws a random boundary, and each attempt of an event must send the same
 * bytes.
 */
#include "sinks/email/email_message.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "config/config.h"
#include "sinks/email/email_draft.h"
#include "sinks/email/email_mime.h"
#include "sinks/email/email_payload.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

bool email_sender_init(
    struct email_sender *sender, const struct email_config *config, struct error *error)
{
        const char *problem = mailbox_parse(config->from, &sender->from);

        if (problem != NULL)
                return error_set(error, ERROR_CONFIG, "email: from: %s", problem);
        sender->message_id_domain = config->message_id_domain != NULL
                                        ? config->message_id_domain
                                        : strchr(sender->from.address, '@') + 1;
        sender->max_attachment_bytes = config->max_attachment_bytes;
        sender->templates = NULL;
        if (!domain_is_valid(sender->message_id_domain)) {
                email_sender_deinit(sender);
                return error_set(error, ERROR_CONFIG,
                    "email: message_id_domain: expected a host name such as mail.example.org");
        }
        if (config->templates == NULL)
                return true;
        sender->templates = email_templates_load(config->templates, error);
        if (sender->templates == NULL)
                email_sender_deinit(sender);
        return sender->templates != NULL;
}

void email_sender_deinit(struct email_sender *sender)
{
        mailbox_deinit(&sender->from);
        email_templates_destroy(sender->templates);
        sender->templates = NULL;
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

/*
 * A multipart body. `tag` tells nested multiparts apart, and no tag is the beginning of another.
 * "=_" occurs in no quoted-printable text and in no base64, so no payload can hold a boundary.
 */
static void open_multipart(
    struct bytes *out, const char *subtype, const char *tag, const char *event_id)
{
        bytes_printf(out, "Content-Type: multipart/%s;\r\n boundary=\"=_%s%s\"\r\n\r\n--=_%s%s\r\n",
            subtype, tag, event_id, tag, event_id);
}

static void next_part(struct bytes *out, const char *tag, const char *event_id)
{
        bytes_printf(out, "\r\n--=_%s%s\r\n", tag, event_id);
}

static void close_multipart(struct bytes *out, const char *tag, const char *event_id)
{
        bytes_printf(out, "\r\n--=_%s%s--\r\n", tag, event_id);
}

static void append_attachment(struct bytes *out, const struct email_attachment *attachment)
{
        bytes_printf(out, "Content-Type: %s\r\n", attachment->type);
        mime_append_disposition_header(out, attachment->inline_id != NULL, attachment->name);
        if (attachment->inline_id != NULL)
                bytes_printf(out, "Content-ID: <%s>\r\n", attachment->inline_id);
        bytes_append_text(out, "Content-Transfer-Encoding: base64\r\n\r\n");
        mime_append_base64(out, attachment->data);
}

/* Each of those with an inline id, or each of the others, as a further part. */
static void append_attachments(struct bytes *out, const struct email_attachments *attachments,
    bool is_inline, const char *tag, const char *event_id)
{
        for (size_t i = 0; i < attachments->n; i++) {
                if ((attachments->items[i].inline_id != NULL) != is_inline)
                        continue;
                next_part(out, tag, event_id);
                append_attachment(out, &attachments->items[i]);
        }
}

static void append_html(struct bytes *out, const struct email_draft *draft, const char *event_id)
{
        if (draft->attachments.n_inline == 0) {
                append_text_part(out, "html", draft->html);
                return;
        }
        open_multipart(out, "related; type=\"text/html\"", "r_", event_id);
        append_text_part(out, "html", draft->html);
        append_attachments(out, &draft->attachments, true, "r_", event_id);
        close_multipart(out, "r_", event_id);
}

static void append_texts(struct bytes *out, const struct email_draft *draft, const char *event_id)
{
        if (draft->html == NULL) {
                append_text_part(out, "plain", draft->text);
                return;
        }
        if (draft->text == NULL) {
                append_html(out, draft, event_id);
                return;
        }
        open_multipart(out, "alternative", "", event_id);
        append_text_part(out, "plain", draft->text);
        next_part(out, "", event_id);
        append_html(out, draft, event_id);
        close_multipart(out, "", event_id);
}

static void append_body(struct bytes *out, const struct email_draft *draft, const char *event_id)
{
        if (draft->attachments.n == draft->attachments.n_inline) {
                append_texts(out, draft, event_id);
        } else {
                open_multipart(out, "mixed", "m_", event_id);
                append_texts(out, draft, event_id);
                append_attachments(out, &draft->attachments, false, "m_", event_id);
                close_multipart(out, "m_", event_id);
        }
        if (strcmp(out->data + out->length - 2, "\r\n") != 0)
                bytes_append_text(out, "\r\n");
}

static void append_headers(struct bytes *out, const struct email_draft *draft,
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
        email_headers_append(out, &draft->headers);
        bytes_append_text(out, "Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n");
}

bool email_message_init(struct email_message *message, const struct email_sender *sender,
    const struct event *event, int64_t wall_us, struct outcome *out_rejected)
{
        struct email_draft draft;

        if (!email_draft_init(&draft, sender, event, out_rejected))
                return false;
        *message = (struct email_message){0};
        message->recipients =
            xcalloc(draft.to.n + draft.cc.n + draft.bcc.n, sizeof *message->recipients);
        add_recipients(message, &draft.to);
        add_recipients(message, &draft.cc);
        add_recipients(message, &draft.bcc);
        append_headers(&message->text, &draft, sender, event, wall_us);
        append_body(&message->text, &draft, event->event_id);
        email_draft_deinit(&draft);
        return true;
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
        json_t *payload = email_payload_parse(event, &rejected);
        struct bytes out = {0};

        bytes_append_text(&out, "");
        describe_addresses(&out, json_object_get(payload, "to"));
        describe_addresses(&out, json_object_get(payload, "cc"));
        describe_addresses(&out, json_object_get(payload, "bcc"));
        utf8_copy(recipients, size, out.data);
        bytes_deinit(&out);
        json_decref(payload);
}
