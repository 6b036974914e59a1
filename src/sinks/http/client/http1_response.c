/*
 * Lines are read whole, up to their line feed, and never kept: what matters of a field is taken out
 * at once. Of several contradicting fields that frame the body (RFC 9112, section 6.3) none is
 * believed: the status stands, and the connection carries nothing more.
 */
#include "sinks/http/client/http1_response.h"

#include "base/clock.h"
#include "pgcourier/outcome.h"
#include "sinks/http/http_status.h"

#include <string.h>
#include <strings.h>

struct line {
        const char *text; /* without its end */
        size_t length;
};

static void fail(struct http1_response *response, const char *nonsense)
{
        response->step = HTTP1_FAILED;
        response->nonsense = nonsense;
}

void http1_response_init(struct http1_response *response)
{
        *response = (struct http1_response){
            .step = HTTP1_STATUS, .keep_alive_ms = -1, .retry_after_ms = OUTCOME_NO_DELAY};
}

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

/* Words are lists of elements between commas, in any case of letters. */
static bool lists(const struct line *value, const char *word)
{
        const char *at = value->text;
        const char *end = value->text + value->length;

        while (at < end) {
                const char *comma = memchr(at, ',', (size_t)(end - at));
                const char *stop = comma != NULL ? comma : end;

                while (at < stop && (*at == ' ' || *at == '\t'))
                        at++;
                while (stop > at && (stop[-1] == ' ' || stop[-1] == '\t'))
                        stop--;
                if ((size_t)(stop - at) == strlen(word) && strncasecmp(at, word, strlen(word)) == 0)
                        return true;
                at = comma != NULL ? comma + 1 : end;
        }
        return false;
}

static bool is_word(const struct line *value, const char *word)
{
        return value->length == strlen(word) && strncasecmp(value->text, word, value->length) == 0;
}

/* False if it is no number below 10^18. */
static bool read_number(const char *text, size_t length, uint64_t *out_number)
{
        uint64_t number = 0;

        if (length == 0 || length > 18)
                return false;
        for (size_t i = 0; i < length; i++) {
                if (!is_digit(text[i]))
                        return false;
                number = number * 10 + (uint64_t)(text[i] - '0');
        }
        *out_number = number;
        return true;
}

static void take_length(struct http1_response *response, const struct line *value)
{
        uint64_t length;

        if (!read_number(value->text, value->length, &length) ||
            (response->has_length && response->length != length))
                response->is_unclear = true;
        else
                response->length = length;
        response->has_length = true;
}

static void take_encoding(struct http1_response *response, const struct line *value)
{
        /* Another coding, or a second one: the body is nothing that we could find the end of. */
        if (response->has_encoding || !is_word(value, "chunked"))
                response->is_unclear = true;
        response->has_encoding = true;
        response->is_chunked = true;
}

/* If there are several, the longest counts: the receiver's and its gateway's, perhaps. */
static void take_retry_after(struct http1_response *response, const struct line *value)
{
        char text[64];
        int64_t delay_ms;

        if (value->length >= sizeof text)
                return;
        memcpy(text, value->text, value->length);
        text[value->length] = '\0';
        delay_ms = http_retry_after_ms(text, clock_wall_us() / 1000000);
        if (delay_ms > response->retry_after_ms)
                response->retry_after_ms = delay_ms;
}

/* "timeout=5, max=100" */
static void take_keep_alive(struct http1_response *response, const struct line *value)
{
        static const char name[] = "timeout=";
        const char *at = value->text;
        const char *end = value->text + value->length;

        for (; (size_t)(end - at) > strlen(name); at++) {
                const char *digits = at + strlen(name);
                size_t n = 0;
                uint64_t seconds;

                if (strncasecmp(at, name, strlen(name)) != 0)
                        continue;
                while (digits + n < end && is_digit(digits[n]))
                        n++;
                if (n <= 6 && read_number(digits, n, &seconds))
                        response->keep_alive_ms = (int64_t)seconds * 1000;
                return;
        }
}

/* The first one counts. */
static void take_location(struct http1_response *response, const struct line *value)
{
        size_t length = value->length < HTTP1_LOCATION_MAX ? value->length : HTTP1_LOCATION_MAX;

        if (response->location[0] != '\0')
                return;
        memcpy(response->location, value->text, length);
        response->location[length] = '\0';
}

static void take_delivery(struct http1_response *response, const struct line *value)
{
        if (response->has_delivery)
                return;
        response->has_delivery = true;
        response->is_disabled = is_word(value, "disable");
        response->is_aborted = is_word(value, "abort-message");
}

static void take_connection(struct http1_response *response, const struct line *value)
{
        response->wants_close |= lists(value, "close");
        response->wants_keep_alive |= lists(value, "keep-alive");
}

static const struct {
        const char *name;
        void (*take)(struct http1_response *response, const struct line *value);
} fields[] = {
    {"connection", take_connection},
    {"content-length", take_length},
    {"keep-alive", take_keep_alive},
    {"location", take_location},
    {"retry-after", take_retry_after},
    {"transfer-encoding", take_encoding},
    {"webhook-delivery", take_delivery},
};

/* A response field's name is a token; that it holds no space or control character is enough to tell
 * a field from noise. */
static size_t name_length(const struct line *line)
{
        for (size_t i = 0; i < line->length; i++) {
                unsigned char c = (unsigned char)line->text[i];

                if (c == ':')
                        return i;
                if (c <= ' ' || c >= 0x7f)
                        return 0;
        }
        return 0;
}

static void take_field(struct http1_response *response, const struct line *line)
{
        size_t length = name_length(line);
        struct line value = {line->text + length + 1, 0};

        if (line->text[0] == ' ' || line->text[0] == '\t') {
                /* A line goes on here, as it once was allowed to. If it frames the body, then not
                 * as we have read it. */
                response->is_unclear = true;
                return;
        }
        if (length == 0) {
                fail(response, "a line of its head is no field");
                return;
        }
        value.length = line->length - length - 1;
        while (value.length > 0 && (*value.text == ' ' || *value.text == '\t')) {
                value.text++;
                value.length--;
        }
        while (value.length > 0 &&
               (value.text[value.length - 1] == ' ' || value.text[value.length - 1] == '\t'))
                value.length--;
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
                if (strlen(fields[i].name) == length &&
                    strncasecmp(fields[i].name, line->text, length) == 0)
                        fields[i].take(response, &value);
}

/* HTTP/1.x SP 3DIGIT [SP reason] */
static void take_status_line(struct http1_response *response, const struct line *line)
{
        static const char version[] = "HTTP/1.";
        const char *text = line->text;
        size_t at = strlen(version) + 1;

        if (line->length < at + 4 || memcmp(text, version, strlen(version)) != 0 ||
            !is_digit(text[at - 1]) || text[at] != ' ' || !is_digit(text[at + 1]) ||
            text[at + 1] == '0' || !is_digit(text[at + 2]) || !is_digit(text[at + 3]) ||
            (line->length > at + 4 && text[at + 4] != ' ')) {
                fail(response, "it does not begin as an answer of HTTP/1.1");
                return;
        }
        response->is_http_1_0 = text[at - 1] == '0';
        response->status =
            (text[at + 1] - '0') * 100 + (text[at + 2] - '0') * 10 + (text[at + 3] - '0');
        response->step = HTTP1_FIELDS;
}

static void complete(struct http1_response *response)
{
        bool is_kept = response->is_http_1_0 ? response->wants_keep_alive : true;

        response->step = HTTP1_COMPLETE;
        response->may_go_on = is_kept && !response->wants_close && !response->is_unclear;
}

/* RFC 9112, section 6.3. */
static void begin_body(struct http1_response *response)
{
        bool is_bodiless = response->status == 204 || response->status == 304;

        response->has_status = true;
        if (response->has_encoding && (response->has_length || response->is_http_1_0))
                response->is_unclear = true;
        if (is_bodiless) {
                complete(response);
        } else if (response->is_unclear || (!response->is_chunked && !response->has_length)) {
                response->step = HTTP1_BODY_TO_THE_END;
        } else if (response->is_chunked) {
                response->step = HTTP1_CHUNK_SIZE;
        } else if (response->length == 0) {
                complete(response);
        } else {
                response->step = HTTP1_BODY_COUNTED;
        }
}

/* An interim answer, 100 to 199, says nothing; the final one follows it. */
static void forget_interim(struct http1_response *response)
{
        size_t header_bytes = response->header_bytes;

        http1_response_init(response);
        response->has_begun = true;
        response->header_bytes = header_bytes;
}

static void end_fields(struct http1_response *response)
{
        if (response->status == 101)
                fail(response, "it changes to another protocol, unasked");
        else if (response->status >= 100 && response->status < 200)
                forget_interim(response);
        else
                begin_body(response);
}

static int hex_digit(char c)
{
        if (is_digit(c))
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

/* Hexadecimal, and perhaps an extension behind a semicolon. */
static void take_chunk_size(struct http1_response *response, const struct line *line)
{
        size_t n = 0;

        response->length = 0;
        while (n < line->length && hex_digit(line->text[n]) >= 0) {
                response->length = response->length * 16 + (uint64_t)hex_digit(line->text[n]);
                n++;
        }
        if (n == 0 || n > 15 ||
            (n < line->length && line->text[n] != ';' && line->text[n] != ' ' &&
                line->text[n] != '\t'))
                fail(response, "a chunk of its body has no size");
        else
                response->step = response->length > 0 ? HTTP1_CHUNK : HTTP1_TRAILERS;
}

static void take_line(struct http1_response *response, const struct line *line)
{
        switch (response->step) {
        case HTTP1_STATUS:
                take_status_line(response, line);
                return;
        case HTTP1_FIELDS:
                if (line->length == 0)
                        end_fields(response);
                else
                        take_field(response, line);
                return;
        case HTTP1_CHUNK_SIZE:
                take_chunk_size(response, line);
                return;
        case HTTP1_CHUNK_END:
                if (line->length == 0)
                        response->step = HTTP1_CHUNK_SIZE;
                else
                        fail(response, "a chunk of its body is longer than its size");
                return;
        case HTTP1_TRAILERS:
                if (line->length == 0)
                        complete(response);
                return;
        case HTTP1_BODY_COUNTED:
        case HTTP1_BODY_TO_THE_END:
        case HTTP1_CHUNK:
        case HTTP1_COMPLETE:
        case HTTP1_FAILED:
                return;
        }
}

/* Returns the bytes of the line, 0 if it is not whole yet. */
static size_t feed_line(struct http1_response *response, const char *data, size_t size)
{
        const char *end = memchr(data + response->n_searched, '\n', size - response->n_searched);
        size_t n_used = end != NULL ? (size_t)(end - data) + 1 : 0;
        struct line line = {data, n_used > 0 ? n_used - 1 : 0};

        if (response->header_bytes + (n_used > 0 ? n_used : size) > HTTP1_HEADERS_MAX) {
                response->is_endless = true;
                fail(response, NULL);
                return 0;
        }
        response->n_searched = n_used > 0 ? 0 : size;
        if (n_used == 0)
                return 0;
        response->header_bytes += n_used;
        if (line.length > 0 && line.text[line.length - 1] == '\r')
                line.length--;
        if (memchr(line.text, '\0', line.length) != NULL ||
            memchr(line.text, '\r', line.length) != NULL)
                fail(response, "a line of its head holds a control character");
        else
                take_line(response, &line);
        return n_used;
}

static void keep_body(struct http1_response *response, const char *data, size_t size)
{
        for (size_t i = 0; i < size && response->body_bytes + i < HTTP1_BODY_KEPT; i++)
                response->body[response->body_bytes + i] = data[i] != '\0' ? data[i] : '?';
        response->body_bytes += size;
        if (response->body_bytes > HTTP1_BODY_MAX) {
                response->is_overlong = true;
                fail(response, NULL);
        }
}

static size_t feed_counted(struct http1_response *response, const char *data, size_t size)
{
        size_t n = size < response->length ? size : (size_t)response->length;

        response->length -= n;
        keep_body(response, data, n);
        if (response->length > 0 || response->step == HTTP1_FAILED)
                return n;
        if (response->step == HTTP1_CHUNK)
                response->step = HTTP1_CHUNK_END;
        else
                complete(response);
        return n;
}

size_t http1_response_feed(struct http1_response *response, const char *data, size_t size)
{
        size_t n_used = 0;

        while (n_used < size) {
                size_t n = 0;

                response->has_begun = true;
                switch (response->step) {
                case HTTP1_STATUS:
                case HTTP1_FIELDS:
                case HTTP1_CHUNK_SIZE:
                case HTTP1_CHUNK_END:
                case HTTP1_TRAILERS:
                        n = feed_line(response, data + n_used, size - n_used);
                        break;
                case HTTP1_BODY_COUNTED:
                case HTTP1_CHUNK:
                        n = feed_counted(response, data + n_used, size - n_used);
                        break;
                case HTTP1_BODY_TO_THE_END:
                        n = size - n_used;
                        keep_body(response, data + n_used, n);
                        break;
                case HTTP1_COMPLETE:
                case HTTP1_FAILED:
                        return n_used;
                }
                if (n == 0)
                        return n_used;
                n_used += n;
        }
        return n_used;
}

bool http1_response_end(struct http1_response *response)
{
        if (response->step != HTTP1_BODY_TO_THE_END)
                return false;
        complete(response);
        response->may_go_on = false;
        return true;
}
