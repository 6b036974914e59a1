/*
 * A payload's members, checked one by one: all that a mail is made of. Which
 * they are is said in email_message.h.
 */
#pragma once

#include "pgcourier/event.h"
#include "pgcourier/outcome.h"
#include "sinks/email/email_address.h"
#include "sinks/email/email_attachments.h"
#include "sinks/email/email_headers.h"
#include "sinks/email/email_templates.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct email_sender;

struct mailbox_list {
        struct mailbox *items; /* owned */
        size_t n;
};

struct email_draft {
        json_t *payload; /* owned; what is borrowed below is so from here, or from `rendering` */
        struct email_rendering rendering;

        struct mailbox_list to;
        struct mailbox_list cc;
        struct mailbox_list bcc;
        struct mailbox_list reply_to;
        const char *subject;
        const char *text; /* NULL: none */
        const char *html; /* NULL: none; not both are */
        struct email_headers headers;
        struct email_attachments attachments;
};

/* On failure *out_rejected says which member is wrong and why, and there is nothing to deinit. */
bool email_draft_init(struct email_draft *draft, const struct email_sender *sender,
    const struct event *event, struct outcome *out_rejected);
void email_draft_deinit(struct email_draft *draft);
