/*
 * The wire format of a mail: header lines (RFC 5322, RFC 2047, RFC 2231),
 * quoted-printable text and base64 (RFC 2045). Everything ends in CRLF and no line is
 * longer than RFC 5322 wants, so that libcurl has only the dots to double.
 */
#pragma once

#include "base/bytes.h"
#include "sinks/email/email_address.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Free text, e.g. a subject; as encoded words where plain ASCII on one line does not do. `text` has
 * passed header_text_problem(). */
void mime_append_text_header(struct bytes *out, const char *name, const char *text);

/* To, Cc, From, …: one mailbox a line. */
void mime_append_mailbox_header(
    struct bytes *out, const char *name, const struct mailbox *mailboxes, size_t n_mailboxes);

/* As it is on one line of its own where that keeps it; else as encoded words. `text` has passed
 * header_text_problem() and fits on a line. */
void mime_append_custom_header(struct bytes *out, const char *name, const char *text);

void mime_append_date_header(struct bytes *out, int64_t wall_us);

/* Line ends of any kind (CRLF, LF, CR) become CRLF; none is added at the end. */
void mime_append_quoted_printable(struct bytes *out, const char *text);

/* Content-Disposition of a part: a file, or one that the text shows. `name` has passed
 * header_text_problem(); other than ASCII it is written as RFC 2231 says. */
void mime_append_disposition_header(struct bytes *out, bool is_inline, const char *name);

/* Base64 that is checked already, with lines of our length instead of its own. */
void mime_append_base64(struct bytes *out, const char *base64);
