/*
 * Mailboxes: "a@b" or "Name <a@b>", checked so strictly that nothing in one
 * can reach the SMTP dialogue or a header as anything but itself. libcurl
 * passes addresses on as they are, line ends included.
 *
 * Addresses are ASCII (an international domain is written as xn--…), their
 * local part is a plain dot-atom (no quoted local parts), at most 64 bytes
 * and 254 in all. Names are any UTF-8 without control characters.
 */
#pragma once

#include <stdbool.h>

struct mailbox {
        char *name;    /* owned; NULL if there is none */
        char *address; /* owned */
};

/* On failure returns what is wrong, in words that do not repeat the text; NULL on success. */
const char *mailbox_parse(const char *text, struct mailbox *out_mailbox);
void mailbox_deinit(struct mailbox *mailbox);

/* A host name: letters, digits and hyphens between dots; one label is enough. */
bool domain_is_valid(const char *text);

/* NULL if `text` may stand in a header; otherwise what is wrong with it. */
const char *header_text_problem(const char *text);
