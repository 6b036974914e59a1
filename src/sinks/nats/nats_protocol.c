/*
 * The tricky part is what a server may say that makes no sense: a length that is too large is found
 * before anything is awaited or kept for it.
 */
#include "sinks/nats/nats_protocol.h"

#include "base/bytes.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

enum { MAX_FIELDS = 5 /* of HMSG: subject, sid, reply, header bytes, total bytes */ };

struct field {
        const char *text;
        size_t length;
};

#define READ(kind_, ...) ((struct nats_frame){.kind = (kind_), __VA_ARGS__})

static struct nats_frame malformed(const char *why)
{
        return READ(NATS_MALFORMED, .text = why, .text_bytes = strlen(why));
}

/* Returns how many there are, up to one more than `fields` holds. */
static unsigned split(const char *text, size_t length, struct field *fields)
{
        const char *end = text + length;
        unsigned n = 0;

        for (;;) {
                while (text < end && (*text == ' ' || *text == '\t'))
                        text++;
                if (text == end)
                        return n;
                if (n == MAX_FIELDS)
                        return n + 1;
                fields[n].text = text;
                while (text < end && *text != ' ' && *text != '\t')
                        text++;
                fields[n].length = (size_t)(text - fields[n].text);
                n++;
        }
}

static bool read_length(const struct field *field, size_t *out_length)
{
        size_t length = 0;

        if (field->length == 0 || field->length > 9)
                return false;
        for (size_t i = 0; i < field->length; i++) {
                if (field->text[i] < '0' || field->text[i] > '9')
                        return false;
                length = 10 * length + (size_t)(field->text[i] - '0');
        }
        *out_length = length;
        return true;
}

/* "NATS/1.0 503 No Responders\r\n": 503. */
static unsigned read_status(const char *headers, size_t length)
{
        static const char version[] = "NATS/1.0 ";
        size_t at = sizeof version - 1;
        unsigned status = 0;

        if (length < at + 3 || memcmp(headers, version, at) != 0)
                return 0;
        for (size_t i = at; i < at + 3; i++) {
                if (headers[i] < '0' || headers[i] > '9')
                        return 0;
                status = 10 * status + (unsigned)(headers[i] - '0');
        }
        return status;
}

static struct nats_frame read_message(const char *data, size_t size, size_t line_bytes,
    const struct field *arguments, bool has_headers)
{
        struct field fields[MAX_FIELDS];
        const unsigned n_lengths = has_headers ? 2 : 1;
        unsigned n = split(arguments->text, arguments->length, fields);
        size_t header_bytes = 0;
        size_t total;
        const char *body = data + line_bytes;

        if (n != 2 + n_lengths && n != 3 + n_lengths)
                return malformed("a message with too few or too many fields");
        if (!read_length(&fields[n - 1], &total) ||
            (has_headers && !read_length(&fields[n - 2], &header_bytes)) || header_bytes > total)
                return malformed("a message without a valid length");
        if (total > NATS_MAX_MESSAGE_BYTES)
                return malformed("a message that is too long to be an answer to us");
        if (size - line_bytes < total + 2)
                return READ(NATS_INCOMPLETE, .size = 0);
        if (body[total] != '\r' || body[total + 1] != '\n')
                return malformed("a message that is longer or shorter than it says");
        return READ(NATS_MESSAGE, .size = line_bytes + total + 2, .subject = fields[0].text,
            .subject_bytes = fields[0].length, .status = read_status(body, header_bytes),
            .payload = body + header_bytes, .payload_bytes = total - header_bytes);
}

/* -ERR 'Authorization Violation' */
static struct nats_frame read_error(const struct field *words, size_t line_bytes)
{
        const char *text = words->text;
        size_t length = words->length;

        if (length >= 2 && text[0] == '\'' && text[length - 1] == '\'') {
                text++;
                length -= 2;
        }
        return READ(NATS_ERROR, .size = line_bytes, .text = text, .text_bytes = length);
}

static bool is_word(const struct field *word, const char *name)
{
        return word->length == strlen(name) && strncasecmp(word->text, name, word->length) == 0;
}

static struct nats_frame read_line(
    const char *data, size_t size, size_t line_bytes, const struct field *line)
{
        struct field word = {line->text, 0};
        struct field rest;

        while (word.length < line->length && word.text[word.length] != ' ' &&
               word.text[word.length] != '\t')
                word.length++;
        rest = (struct field){word.text + word.length, line->length - word.length};
        while (rest.length > 0 && (rest.text[0] == ' ' || rest.text[0] == '\t')) {
                rest.text++;
                rest.length--;
        }
        if (is_word(&word, "INFO"))
                return READ(
                    NATS_INFO, .size = line_bytes, .text = rest.text, .text_bytes = rest.length);
        if (line_bytes > NATS_MAX_LINE_BYTES)
                return malformed("a line that is too long");
        if (is_word(&word, "MSG"))
                return read_message(data, size, line_bytes, &rest, false);
        if (is_word(&word, "HMSG"))
                return read_message(data, size, line_bytes, &rest, true);
        if (is_word(&word, "PING"))
                return READ(NATS_PING, .size = line_bytes);
        if (is_word(&word, "PONG"))
                return READ(NATS_PONG, .size = line_bytes);
        if (is_word(&word, "+OK"))
                return READ(NATS_OK, .size = line_bytes);
        if (is_word(&word, "-ERR"))
                return read_error(&rest, line_bytes);
        return malformed("a line that is not of NATS' protocol");
}

struct nats_frame nats_read(const char *data, size_t size)
{
        const char *end =
            memchr(data, '\n', size < NATS_MAX_INFO_BYTES ? size : NATS_MAX_INFO_BYTES);
        struct field line = {data, 0};

        if (end == NULL) {
                if (size >= NATS_MAX_INFO_BYTES ||
                    (size > NATS_MAX_LINE_BYTES && strncasecmp(data, "INFO", 4) != 0))
                        return malformed("a line that is too long");
                return READ(NATS_INCOMPLETE, .size = 0);
        }
        line.length = (size_t)(end - data);
        if (line.length > 0 && line.text[line.length - 1] == '\r')
                line.length--;
        return read_line(data, size, (size_t)(end - data) + 1, &line);
}

static char *put_number(char *at, size_t number)
{
        char digits[20];
        size_t n = 0;

        do
                digits[n++] = (char)('0' + number % 10);
        while ((number /= 10) > 0);
        while (n > 0)
                *at++ = digits[--n];
        return at;
}

static char *put(char *at, const void *data, size_t length)
{
        if (length > 0)
                memcpy(at, data, length);
        return at + length;
}

void nats_append_publication(struct bytes *out, const struct nats_publication *publication)
{
        const bool has_headers = publication->headers_bytes > 0;
        const size_t total = publication->headers_bytes + publication->payload_bytes;
        /* "HPUB ", three blanks, two lengths and two line ends. */
        char *begin = bytes_reserve(out,
            publication->subject_bytes + publication->reply_bytes + total + 5 + 3 + 40 + 4 + 1);
        char *at = has_headers ? put(begin, "HPUB ", 5) : put(begin, "PUB ", 4);

        at = put(at, publication->subject, publication->subject_bytes);
        *at++ = ' ';
        if (publication->reply_bytes > 0) {
                at = put(at, publication->reply, publication->reply_bytes);
                *at++ = ' ';
        }
        if (has_headers) {
                at = put_number(at, publication->headers_bytes);
                *at++ = ' ';
        }
        at = put_number(at, total);
        at = put(at, "\r\n", 2);
        at = put(at, publication->headers, publication->headers_bytes);
        at = put(at, publication->payload, publication->payload_bytes);
        at = put(at, "\r\n", 2);
        *at = '\0';
        out->length += (size_t)(at - begin);
}

void nats_append_subscription(struct bytes *out, const char *subject, unsigned sid)
{
        bytes_printf(out, "SUB %s %u\r\n", subject, sid);
}

void nats_append_ping(struct bytes *out)
{
        bytes_append(out, "PING\r\n", 6);
}

void nats_append_pong(struct bytes *out)
{
        bytes_append(out, "PONG\r\n", 6);
}
