#include "sinks/email/email_attachments.h"

#include "sinks/email/email_address.h"
#include "sinks/email/email_payload.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_NAME_BYTES   255
#define MAX_TYPE_BYTES   127
#define MAX_INLINE_BYTES 128

#define LETTERS_AND_DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#define TOKEN_CHARACTERS   LETTERS_AND_DIGITS "!#$%&'*+-.^_`|~"
#define INLINE_CHARACTERS  LETTERS_AND_DIGITS "._-@"

static const char *name_problem(const char *name)
{
        if (name == NULL || *name == '\0')
                return "required";
        if (strlen(name) > MAX_NAME_BYTES)
                return "at most 255 bytes are allowed";
        if (strpbrk(name, "/\\") != NULL)
                return "a name is not a path: / and \\ are not allowed";
        if (name[0] == ' ' || name[strlen(name) - 1] == ' ')
                return "may not begin or end with a blank";
        return header_text_problem(name);
}

static const char *type_problem(const char *type)
{
        size_t slash;

        if (type == NULL)
                return "required";
        slash = strspn(type, TOKEN_CHARACTERS);
        if (slash == 0 || type[slash] != '/' || type[slash + 1] == '\0' ||
            type[slash + 1 + strspn(type + slash + 1, TOKEN_CHARACTERS)] != '\0' ||
            strlen(type) > MAX_TYPE_BYTES)
                return "expected a type such as application/pdf, without parameters";
        /* RFC 2045, 6.4: these may not be base64. */
        if (strncasecmp(type, "multipart/", 10) == 0 || strncasecmp(type, "message/", 8) == 0)
                return "mails and multipart bodies cannot be attached";
        return NULL;
}

static const char *inline_id_problem(const char *id)
{
        if (id == NULL)
                return NULL;
        if (*id == '\0' || strlen(id) > MAX_INLINE_BYTES ||
            id[strspn(id, INLINE_CHARACTERS)] != '\0')
                return "expected 1 to 128 letters, digits and . _ - @";
        return NULL;
}

/* The six bits that a letter of base64 stands for; -1 if it is none. */
static int base64_bits(char letter)
{
        if (letter >= 'A' && letter <= 'Z')
                return letter - 'A';
        if (letter >= 'a' && letter <= 'z')
                return letter - 'a' + 26;
        if (letter >= '0' && letter <= '9')
                return letter - '0' + 52;
        if (letter == '+')
                return 62;
        return letter == '/' ? 63 : -1;
}

/* Sets how many bytes the base64 text stands for. Padding and the bits that it leaves over are
 * checked, too: two readers must not be able to disagree about a file. */
static const char *data_problem(const char *data, size_t *out_bytes)
{
        size_t n_letters = 0;
        size_t n_padding = 0;
        int last = 0;

        for (; *data != '\0'; data++) {
                int bits = base64_bits(*data);
                if (*data == '\n' || *data == '\r')
                        continue;
                if (*data == '=') {
                        n_padding++;
                        continue;
                }
                if (bits < 0 || n_padding > 0)
                        return "not base64 (standard alphabet, padded)";
                last = bits;
                n_letters++;
        }
        if (n_padding > 2 || (n_letters + n_padding) % 4 != 0 ||
            (n_padding > 0 && last % (n_padding == 2 ? 16 : 4) != 0))
                return "not base64 (standard alphabet, padded): it is cut or badly padded";
        *out_bytes = (n_letters + n_padding) / 4 * 3 - n_padding;
        return NULL;
}

static bool is_id_taken(const struct email_attachments *attachments, const char *id)
{
        for (size_t i = 0; i < attachments->n; i++)
                if (attachments->items[i].inline_id != NULL &&
                    strcmp(attachments->items[i].inline_id, id) == 0)
                        return true;
        return false;
}

struct reading {
        struct email_attachments *attachments;
        size_t index;
        uint64_t n_bytes_left;
        struct outcome *out_rejected;
};

static bool reject(const struct reading *reading, const char *member, const char *problem)
{
        char place[64];

        snprintf(place, sizeof place, "attachments[%zu]%s%s", reading->index,
            *member != '\0' ? "." : "", member);
        return email_payload_reject(reading->out_rejected, place, problem);
}

static bool read_member(
    const struct reading *reading, const char **out_text, const json_t *value, const char *member)
{
        char place[64];

        snprintf(place, sizeof place, "attachments[%zu].%s", reading->index, member);
        return email_payload_read_text(out_text, value, member, place, reading->out_rejected);
}

static bool check_attachment(struct reading *reading, const struct email_attachment *attachment)
{
        const char *problem = name_problem(attachment->name);
        size_t n_bytes = 0;

        if (problem != NULL)
                return reject(reading, "name", problem);
        problem = type_problem(attachment->type);
        if (problem != NULL)
                return reject(reading, "type", problem);
        problem = inline_id_problem(attachment->inline_id);
        if (problem == NULL && attachment->inline_id != NULL &&
            is_id_taken(reading->attachments, attachment->inline_id))
                problem = "another attachment has the same";
        if (problem != NULL)
                return reject(reading, "inline_id", problem);
        problem = attachment->data == NULL ? "required" : data_problem(attachment->data, &n_bytes);
        if (problem != NULL)
                return reject(reading, "data", problem);
        if (n_bytes > reading->n_bytes_left)
                return reject(reading, "data",
                    "the attachments are larger than the sink's max_attachment_bytes");
        reading->n_bytes_left -= n_bytes;
        return true;
}

static bool read_attachment(struct reading *reading, json_t *value)
{
        struct email_attachments *attachments = reading->attachments;
        struct email_attachment attachment = {0};
        char place[64];

        snprintf(place, sizeof place, "attachments[%zu]", reading->index);
        if (!json_is_object(value))
                return reject(reading, "", "expected an object with name, type and data");
        if (!email_payload_has_only(
                value, place, "name, type, data, inline_id", reading->out_rejected) ||
            !read_member(reading, &attachment.name, value, "name") ||
            !read_member(reading, &attachment.type, value, "type") ||
            !read_member(reading, &attachment.data, value, "data") ||
            !read_member(reading, &attachment.inline_id, value, "inline_id") ||
            !check_attachment(reading, &attachment))
                return false;
        attachments->items[attachments->n++] = attachment;
        attachments->n_inline += attachment.inline_id != NULL;
        return true;
}

bool email_attachments_read(struct email_attachments *attachments, const json_t *payload,
    uint64_t max_bytes, struct outcome *out_rejected)
{
        const json_t *list = email_payload_member(payload, "attachments");
        struct reading reading = {
            .attachments = attachments, .n_bytes_left = max_bytes, .out_rejected = out_rejected};

        if (list == NULL)
                return true;
        if (!json_is_array(list))
                return email_payload_reject(
                    out_rejected, "attachments", "expected an array of objects");
        if (json_array_size(list) > EMAIL_MAX_ATTACHMENTS)
                return email_payload_reject(
                    out_rejected, "attachments", "at most 20 attachments are allowed");
        for (; reading.index < json_array_size(list); reading.index++)
                if (!read_attachment(&reading, json_array_get(list, reading.index)))
                        return false;
        return true;
}
