#include "sinks/email/email_address.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ADDRESS_BYTES    254
#define MAX_LOCAL_PART_BYTES 64
#define MAX_DOMAIN_BYTES     253
#define MAX_LABEL_BYTES      63
#define MAX_NAME_BYTES       256

#define LETTERS_AND_DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#define ATOM_CHARACTERS    LETTERS_AND_DIGITS "!#$%&'*+-/=?^_`{|}~"

/* The control characters of ASCII and of Latin-1, and U+2028 and U+2029. An encoded
 * word carries them all, but some readers take them for line ends once it is decoded. */
static bool is_control(const char *at)
{
        const unsigned char *byte = (const unsigned char *)at;

        if (byte[0] == 0xc2)
                return byte[1] >= 0x80 && byte[1] <= 0x9f;
        if (byte[0] == 0xe2 && byte[1] == 0x80)
                return byte[2] == 0xa8 || byte[2] == 0xa9;
        return byte[0] < ' ' || byte[0] == 0x7f;
}

const char *header_text_problem(const char *text)
{
        for (const char *at = text; *at != '\0'; at++)
                if (is_control(at))
                        return "control characters and line ends are not allowed";
        return utf8_is_valid(text) ? NULL : "it is not valid UTF-8";
}

/* Runs of `allowed` between single dots. */
static bool is_dotted(const char *text, size_t length, const char *allowed, size_t max_run)
{
        size_t at = 0;

        for (;;) {
                size_t run = strspn(text + at, allowed);
                if (run > length - at)
                        run = length - at;
                if (run == 0 || run > max_run)
                        return false;
                at += run;
                if (at == length)
                        return true;
                if (text[at++] != '.')
                        return false;
        }
}

bool domain_is_valid(const char *text)
{
        size_t length = strlen(text);

        if (length > MAX_DOMAIN_BYTES ||
            !is_dotted(text, length, LETTERS_AND_DIGITS "-", MAX_LABEL_BYTES))
                return false;
        return text[0] != '-' && text[length - 1] != '-' && strstr(text, "-.") == NULL &&
               strstr(text, ".-") == NULL;
}

static const char *address_problem(const char *address)
{
        const char *at = strchr(address, '@');

        for (const char *byte = address; *byte != '\0'; byte++)
                if ((unsigned char)*byte > 0x7e)
                        return "an address is ASCII (write an international domain as xn--...)";
        if (at == NULL || strchr(at + 1, '@') != NULL)
                return "expected one address, name@domain or Name <name@domain>";
        if (strlen(address) > MAX_ADDRESS_BYTES)
                return "an address is at most 254 bytes long";
        if (at - address > MAX_LOCAL_PART_BYTES)
                return "the part before the @ is at most 64 bytes long";
        if (!is_dotted(address, (size_t)(at - address), ATOM_CHARACTERS, MAX_LOCAL_PART_BYTES))
                return "the part before the @ has a character that is not allowed, or a misplaced "
                       "dot";
        if (!domain_is_valid(at + 1))
                return "the domain after the @ is not a host name";
        return NULL;
}

/* "Doe, Jo" in quotes becomes Doe, Jo; a name without quotes stays as it is. NULL if it is
 * neither. */
static char *read_name(const char *text, size_t length)
{
        char *name = xcalloc(length + 1, 1);
        size_t n = 0;

        if (length < 2 || text[0] != '"' || text[length - 1] != '"') {
                memcpy(name, text, length);
                /* An @ here is most likely a second address: sending to one of two would be worse
                 * than refusing. */
                if (strpbrk(name, "\"<>@") == NULL)
                        return name;
                free(name);
                return NULL;
        }
        for (size_t i = 1; i < length - 1; i++) {
                if (text[i] == '"' || (text[i] == '\\' && ++i == length - 1)) {
                        free(name);
                        return NULL;
                }
                name[n++] = text[i];
        }
        return name;
}

const char *mailbox_parse(const char *text, struct mailbox *out_mailbox)
{
        struct mailbox mailbox = {0};
        size_t length = strlen(text);
        const char *open = strrchr(text, '<');
        const char *problem = header_text_problem(text);

        if (problem != NULL)
                return problem;
        if (open == NULL) {
                problem = address_problem(text);
                if (problem == NULL)
                        *out_mailbox = (struct mailbox){.address = xstrdup(text)};
                return problem;
        }
        if (text[length - 1] != '>')
                return "expected one address, name@domain or Name <name@domain>";

        mailbox.address = xstrndup(open + 1, (size_t)(text + length - 1 - (open + 1)));
        problem = address_problem(mailbox.address);
        while (*text == ' ')
                text++;
        while (open > text && open[-1] == ' ')
                open--;
        if (problem == NULL && open - text > MAX_NAME_BYTES)
                problem = "the name before the address is at most 256 bytes long";
        if (problem == NULL && open > text) {
                mailbox.name = read_name(text, (size_t)(open - text));
                if (mailbox.name == NULL)
                        problem = "the name before the address has <, >, @ or a stray quote";
        }
        if (problem != NULL)
                mailbox_deinit(&mailbox);
        else
                *out_mailbox = mailbox;
        return problem;
}

void mailbox_deinit(struct mailbox *mailbox)
{
        free(mailbox->name);
        free(mailbox->address);
        *mailbox = (struct mailbox){0};
}
