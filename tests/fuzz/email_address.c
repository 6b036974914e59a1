/* One text: as a mailbox, and as free text of a header, read back by a decoder of its own. */
#include "sinks/email/email_address.h"

#include "base/alloc.h"
#include "fuzz.h"
#include "sinks/email/email_mime.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/* The header as one line: CRLF only before a blank, and at the end. */
static char *unfold(const struct bytes *header, size_t max_line)
{
        char *line = xcalloc(header->length + 1, 1);
        size_t n = 0;
        size_t run = 0;

        for (size_t i = 0; i < header->length; i++, run++) {
                const char *at = header->data + i;
                fuzz_require(*at != '\0', "no NUL in a header", header->data);
                if (*at != '\r') {
                        fuzz_require(*at != '\n', "no bare LF in a header", header->data);
                        line[n++] = *at;
                        continue;
                }
                fuzz_require(run <= max_line, "no line is too long", header->data);
                fuzz_require(at[1] == '\n' && (at[2] == '\0' || at[2] == ' '),
                    "a header is one header", header->data);
                i++;
                run = (size_t)-1;
        }
        return line;
}

/* Encoded words in base64, with the blanks between them left out; anything else as it stands. */
static char *decode(const char *text)
{
        char *out = xcalloc(strlen(text) + 4, 1);
        size_t n = 0;

        if (strncmp(text, "=?UTF-8?B?", 10) != 0) {
                strcpy(out, text);
                return out;
        }
        while (*text != '\0') {
                const char *end = strstr(text, "?=");
                size_t length = (size_t)(end - text - 10);
                size_t padding = (end[-1] == '=') + (size_t)(end[-2] == '=');
                fuzz_require(
                    end != NULL && strncmp(text, "=?UTF-8?B?", 10) == 0, "only words", text);
                n += (size_t)EVP_DecodeBlock(
                         (unsigned char *)out + n, (const unsigned char *)text + 10, (int)length) -
                     padding;
                text = end + 2;
                text += *text == ' ';
        }
        out[n] = '\0';
        return out;
}

static void check_text(const char *text)
{
        struct bytes header = {0};
        char *line;
        char *decoded;

        mime_append_text_header(&header, "Subject", text);
        line = unfold(&header, 76);
        fuzz_require(strncmp(line, "Subject: ", 9) == 0, "the name comes first", line);
        decoded = decode(line + 9);
        fuzz_require(strcmp(decoded, text) == 0, "a reader gets the text back", line);
        free(decoded);
        free(line);
        bytes_deinit(&header);
}

static void check_mailbox(const struct mailbox *mailbox)
{
        const char *at = strchr(mailbox->address, '@');
        struct bytes header = {0};
        char *line;

        fuzz_require(strlen(mailbox->address) <= 254 && at != NULL && strchr(at + 1, '@') == NULL &&
                         domain_is_valid(at + 1),
            "an address has one domain", mailbox->address);
        for (const char *byte = mailbox->address; *byte != '\0'; byte++)
                fuzz_require(*byte > ' ' && *byte <= '~' && strchr("<>()[]\\,;:\"", *byte) == NULL,
                    "an address cannot leave its place", mailbox->address);
        if (mailbox->name != NULL)
                fuzz_require(header_text_problem(mailbox->name) == NULL, "a name is free text",
                    mailbox->name);
        mime_append_mailbox_header(&header, "To", mailbox, 1);
        line = unfold(&header, 998);
        fuzz_require(strstr(line, mailbox->address) != NULL, "it names the address", line);
        free(line);
        bytes_deinit(&header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        char *text = fuzz_take_text(&input);
        struct mailbox mailbox;

        if (mailbox_parse(text, &mailbox) == NULL) {
                fuzz_require(header_text_problem(text) == NULL, "a mailbox is free text", text);
                check_mailbox(&mailbox);
                mailbox_deinit(&mailbox);
        }
        if (header_text_problem(text) == NULL) {
                fuzz_require(fuzz_is_one_line(text, false), "free text is one line", text);
                check_text(text);
        }
        if (domain_is_valid(text))
                for (const char *at = text; *at != '\0'; at++)
                        fuzz_require(isalnum((unsigned char)*at) || *at == '-' || *at == '.',
                            "a domain has letters, digits, hyphens and dots", text);
        free(text);
        return 0;
}
