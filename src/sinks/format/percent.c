#include "sinks/format/percent.h"

#include "base/bytes.h"

#include <stddef.h>

static void append_byte(struct bytes *out, unsigned char byte)
{
        static const char digits[] = "0123456789ABCDEF";
        const char encoded[] = {'%', digits[byte >> 4], digits[byte & 15]};

        bytes_append(out, encoded, sizeof encoded);
}

void percent_append(struct bytes *out, const char *text, bool is_strict)
{
        const char *plain = text; /* from here on nothing has needed a change */
        const char *at;

        for (at = text; *at != '\0'; at++) {
                if (*at > ' ' && *at <= '~' && *at != '%' && (*at != '"' || !is_strict))
                        continue;
                bytes_append(out, plain, (size_t)(at - plain));
                append_byte(out, (unsigned char)*at);
                plain = at + 1;
        }
        bytes_append(out, plain, (size_t)(at - plain));
}
