#include "sinks/email/email_draft.h"

#include "base/alloc.h"
#include "sinks/email/email_message.h"
#include "sinks/email/email_payload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RECIPIENTS    100
#define MAX_SUBJECT_BYTES 1000

static void list_deinit(struct mailbox_list *list)
{
        for (size_t i = 0; i < list->n; i++)
                mailbox_deinit(&list->items[i]);
        free(list->items);
        *list = (struct mailbox_list){0};
}

static bool read_mailbox(struct mailbox_list *list, const json_t *value, const char *member,
    struct outcome *out_rejected)
{
        const char *problem;

        if (!json_is_string(value))
                return email_payload_reject(
                    out_rejected, member, "expected an address as a string");
        problem = mailbox_parse(json_string_value(value), &list->items[list->n]);
        if (problem != NULL)
                return email_payload_reject(out_rejected, member, problem);
        list->n++;
        return true;
}

static bool read_mailboxes(struct mailbox_list *list, const json_t *payload, const char *member,
    struct outcome *out_rejected)
{
        const json_t *value = email_payload_member(payload, member);
        size_t n = json_is_array(value) ? json_array_size(value) : 1;

        if (value == NULL)
                return true;
        if (!json_is_array(value) && !json_is_string(value))
                return email_payload_reject(
                    out_rejected, member, "expected an address or an array of addresses");
        if (n > MAX_RECIPIENTS)
                return email_payload_reject(
                    out_rejected, member, "at most 100 addresses are allowed");

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

static bool read_recipients(struct email_draft *draft, struct outcome *out_rejected)
{
        if (!read_mailboxes(&draft->to, draft->payload, "to", out_rejected) ||
            !read_mailboxes(&draft->cc, draft->payload, "cc", out_rejected) ||
            !read_mailboxes(&draft->bcc, draft->payload, "bcc", out_rejected) ||
            !read_mailboxes(&draft->reply_to, draft->payload, "reply_to", out_rejected))
                return false;
        if (draft->to.n == 0)
                return email_payload_reject(out_rejected, "to", "at least one address is required");
        if (draft->to.n + draft->cc.n + draft->bcc.n > MAX_RECIPIENTS)
                return email_payload_reject(
                    out_rejected, "to", "to, cc and bcc hold more than 100 addresses");
        return true;
}

/* subject, text and html, as the payload has them. */
static bool read_texts(struct email_draft *draft, struct outcome *out_rejected)
{
        const json_t *payload = draft->payload;

        if (!email_payload_read_text(
                &draft->subject, payload, "subject", "subject", out_rejected) ||
            !email_payload_read_text(&draft->text, payload, "text", "text", out_rejected) ||
            !email_payload_read_text(&draft->html, payload, "html", "html", out_rejected))
                return false;
        if (draft->subject == NULL)
                return email_payload_reject(out_rejected, "subject", "required");
        if (draft->text == NULL && draft->html == NULL)
                return email_payload_reject(
                    out_rejected, "text", "required unless there is \"html\"");
        if (email_payload_member(payload, "data") != NULL)
                return email_payload_reject(
                    out_rejected, "data", "allowed only together with \"template\"");
        return true;
}

/* The same three, made from a template. */
static bool render(struct email_draft *draft, const struct email_templates *templates,
    const char *name, const struct event *event, struct outcome *out_rejected)
{
        static const char *const instead[] = {"subject", "text", "html"};
        json_t *values = email_payload_member(draft->payload, "data");
        json_t *none = NULL;
        bool is_rendered;

        for (size_t i = 0; i < sizeof instead / sizeof *instead; i++)
                if (email_payload_member(draft->payload, instead[i]) != NULL)
                        return email_payload_reject(
                            out_rejected, instead[i], "not allowed together with \"template\"");
        if (values != NULL && !json_is_object(values))
                return email_payload_reject(out_rejected, "data", "expected an object");

        json_numbers_to_texts(draft->payload, event->payload, event->payload_bytes);
        if (values == NULL)
                values = none = json_object();
        is_rendered =
            email_templates_render(templates, name, values, &draft->rendering, out_rejected);
        json_decref(none);
        if (!is_rendered)
                return false;
        draft->subject = draft->rendering.subject.data;
        draft->text = draft->rendering.has_text ? draft->rendering.text.data : NULL;
        draft->html = draft->rendering.has_html ? draft->rendering.html.data : NULL;
        return true;
}

static bool check_subject(const char *subject, struct outcome *out_rejected)
{
        const char *problem = header_text_problem(subject);

        if (strlen(subject) > MAX_SUBJECT_BYTES)
                problem = "at most 1000 bytes are allowed";
        return problem == NULL || email_payload_reject(out_rejected, "subject", problem);
}

/* Notifications of several kinds may say which one they are. */
static bool check_type(const json_t *payload, struct outcome *out_rejected)
{
        const char *type = NULL;

        return email_payload_read_text(&type, payload, "type", "type", out_rejected) &&
               (type == NULL || strcmp(type, "email") == 0 ||
                   email_payload_reject(out_rejected, "type", "expected \"email\""));
}

static bool read_members(struct email_draft *draft, const struct email_sender *sender,
    const struct event *event, struct outcome *out_rejected)
{
        json_t *payload = draft->payload;
        const char *template = NULL;

        if (!email_payload_has_only(payload, "",
                "to, cc, bcc, reply_to, subject, text, html, template, data, attachments, "
                "unsubscribe_url, headers, type",
                out_rejected) ||
            !check_type(payload, out_rejected) || !read_recipients(draft, out_rejected) ||
            !email_headers_read(&draft->headers, payload, out_rejected) ||
            !email_attachments_read(
                &draft->attachments, payload, sender->max_attachment_bytes, out_rejected) ||
            !email_payload_read_text(&template, payload, "template", "template", out_rejected))
                return false;
        if (template != NULL ? !render(draft, sender->templates, template, event, out_rejected)
                             : !read_texts(draft, out_rejected))
                return false;
        if (draft->attachments.n_inline > 0 && draft->html == NULL)
                return email_payload_reject(out_rejected, "attachments",
                    "inline_id needs an HTML text that shows the attachment");
        return check_subject(draft->subject, out_rejected);
}

bool email_draft_init(struct email_draft *draft, const struct email_sender *sender,
    const struct event *event, struct outcome *out_rejected)
{
        *draft = (struct email_draft){.payload = email_payload_parse(event, out_rejected)};
        if (draft->payload == NULL)
                return false;
        if (read_members(draft, sender, event, out_rejected))
                return true;
        email_draft_deinit(draft);
        return false;
}

void email_draft_deinit(struct email_draft *draft)
{
        list_deinit(&draft->to);
        list_deinit(&draft->cc);
        list_deinit(&draft->bcc);
        list_deinit(&draft->reply_to);
        email_rendering_deinit(&draft->rendering);
        json_decref(draft->payload);
        *draft = (struct email_draft){0};
}
