#include "sinks/email/email_mime.h"

#include "base/utf8.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

/* A plain word or name longer than this becomes encoded words, which can be folded anywhere. */
#define MAX_PLAIN_BYTES 60

/* In base64 with "=?UTF-8?B?" and "?=" that is 64 characters: with the longest header name of ours
 * before it, a line of 74 (RFC 2047 allows 75 for a word and 76 for a line). */
#define ENCODED_WORD_BYTES 39

/* Of a file's name, percent-encoded, on one line. */
#define PARAMETER_BYTES 57

#define QUOTED_LINE_BYTES 76
#define BASE64_LINE_BYTES 76

/* Whether a reader gets `text` back as it is if it is written as it is. */
static bool reads_as_written(const char *text)
{
        size_t length = strlen(text);

        if (strstr(text, "=?") != NULL)
                return false;
        /* Blanks at either end would be eaten by the reader. */
        if (length > 0 && (text[0] == ' ' || text[length - 1] == ' '))
                return false;
        for (size_t i = 0; i < length; i++)
                if ((unsigned char)text[i] > '~')
                        return false;
        return true;
}

static bool is_plain(const char *text)
{
        return strlen(text) <= MAX_PLAIN_BYTES && reads_as_written(text);
}

/* A character is never split between two words: each must decode by itself. */
static size_t encoded_word_bytes(const char *text)
{
        size_t length = 0;

        while (text[length] != '\0') {
                size_t next = utf8_char_bytes(text + length);
                if (length + next > ENCODED_WORD_BYTES)
                        break;
                length += next;
        }
        return length;
}

static void append_encoded_words(struct bytes *out, const char *text)
{
        unsigned char encoded[ENCODED_WORD_BYTES * 4 / 3 + 8];

        for (bool is_first = true; *text != '\0'; is_first = false) {
                size_t length = encoded_word_bytes(text);
                EVP_EncodeBlock(encoded, (const unsigned char *)text, (int)length);
                bytes_printf(out, "%s=?UTF-8?B?%s?=", is_first ? "" : "\r\n ", (char *)encoded);
                text += length;
        }
}

void mime_append_text_header(struct bytes *out, const char *name, const char *text)
{
        bytes_printf(out, "%s: ", name);
        if (is_plain(text))
                bytes_append_text(out, text);
        else
                append_encoded_words(out, text);
        bytes_append_text(out, "\r\n");
}

void mime_append_custom_header(struct bytes *out, const char *name, const char *text)
{
        bytes_printf(out, "%s: ", name);
        if (reads_as_written(text))
                bytes_append_text(out, text);
        else
                append_encoded_words(out, text);
        bytes_append_text(out, "\r\n");
}

/* Always in quotes: then it does not matter which characters would need them. */
static void append_quoted(struct bytes *out, const char *name)
{
        bytes_append_text(out, "\"");
        for (; *name != '\0'; name++) {
                if (*name == '"' || *name == '\\')
                        bytes_append_text(out, "\\");
                bytes_append(out, name, 1);
        }
        bytes_append_text(out, "\"");
}

void mime_append_mailbox_header(
    struct bytes *out, const char *name, const struct mailbox *mailboxes, size_t n_mailboxes)
{
        bytes_printf(out, "%s: ", name);
        for (size_t i = 0; i < n_mailboxes; i++) {
                const struct mailbox *mailbox = &mailboxes[i];
                if (i > 0)
                        bytes_append_text(out, ",\r\n ");
                if (mailbox->name == NULL || mailbox->name[0] == '\0') {
                        bytes_append_text(out, mailbox->address);
                        continue;
                }
                if (is_plain(mailbox->name))
                        append_quoted(out, mailbox->name);
                else
                        append_encoded_words(out, mailbox->name);
                bytes_printf(out, "\r\n <%s>", mailbox->address);
        }
        bytes_append_text(out, "\r\n");
}

void mime_append_date_header(struct bytes *out, int64_t wall_us)
{
        /* Not strftime(): the names do not depend on the locale. */
        static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
        static const char *const months[] = {
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
        const time_t seconds = (time_t)(wall_us / 1000000);
        struct tm utc = {0};

        gmtime_r(&seconds, &utc);
        bytes_printf(out, "Date: %s, %d %s %d %02d:%02d:%02d +0000\r\n", days[utc.tm_wday],
            utc.tm_mday, months[utc.tm_mon], utc.tm_year + 1900, utc.tm_hour, utc.tm_min,
            utc.tm_sec);
}

static size_t line_end_bytes(const char *at)
{
        if (at[0] == '\r' && at[1] == '\n')
                return 2;
        return at[0] == '\r' || at[0] == '\n' ? 1 : 0;
}

static bool needs_quoting(const char *at)
{
        unsigned char byte = (unsigned char)*at;

        /* Blanks at the end of a line do not survive every relay. */
        if (byte == ' ' || byte == '\t')
                return at[1] == '\0' || line_end_bytes(at + 1) > 0;
        return byte < ' ' || byte > '~' || byte == '=';
}

void mime_append_quoted_printable(struct bytes *out, const char *text)
{
        size_t column = 0;

        while (*text != '\0') {
                size_t line_end = line_end_bytes(text);
                bool is_quoted = line_end == 0 && needs_quoting(text);
                size_t width = is_quoted ? 3 : 1;
                if (line_end > 0) {
                        bytes_append(out, "\r\n", 2);
                        column = 0;
                        text += line_end;
                        continue;
                }
                if (column + width > QUOTED_LINE_BYTES - 1) {
                        bytes_append(out, "=\r\n", 3);
                        column = 0;
                }
                if (is_quoted)
                        bytes_printf(out, "=%02X", (unsigned char)*text);
                else
                        bytes_append(out, text, 1);
                column += width;
                text++;
        }
}

static bool needs_percent(char byte)
{
        return !((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                 (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == '_');
}

static size_t encoded_bytes(const char *name)
{
        size_t n = 0;

        for (; *name != '\0'; name++)
                n += needs_percent(*name) ? 3 : 1;
        return n;
}

/* One line's worth; returns what is left of `name`. */
static const char *append_percent_encoded(struct bytes *out, const char *name)
{
        size_t column = 0;

        for (; *name != '\0' && column + 3 <= PARAMETER_BYTES; name++) {
                if (needs_percent(*name))
                        bytes_printf(out, "%%%02X", (unsigned char)*name);
                else
                        bytes_append(out, name, 1);
                column += needs_percent(*name) ? 3 : 1;
        }
        return name;
}

void mime_append_disposition_header(struct bytes *out, bool is_inline, const char *name)
{
        bool is_one_line = encoded_bytes(name) + 3 <= PARAMETER_BYTES;

        bytes_printf(out, "Content-Disposition: %s", is_inline ? "inline" : "attachment");
        if (is_plain(name)) {
                bytes_append_text(out, ";\r\n filename=");
                append_quoted(out, name);
                bytes_append_text(out, "\r\n");
                return;
        }
        for (unsigned i = 0; *name != '\0'; i++) {
                bytes_append_text(out, ";\r\n filename*");
                if (!is_one_line)
                        bytes_printf(out, "%u*", i);
                bytes_append_text(out, i == 0 ? "=UTF-8''" : "=");
                name = append_percent_encoded(out, name);
        }
        bytes_append_text(out, "\r\n");
}

void mime_append_base64(struct bytes *out, const char *base64)
{
        size_t column = 0;

        while (*base64 != '\0') {
                size_t n = strcspn(base64, "\r\n");
                if (n == 0) {
                        base64++;
                        continue;
                }
                if (column == BASE64_LINE_BYTES) {
                        bytes_append(out, "\r\n", 2);
                        column = 0;
                }
                if (n > BASE64_LINE_BYTES - column)
                        n = BASE64_LINE_BYTES - column;
                bytes_append(out, base64, n);
                base64 += n;
                column += n;
        }
}
