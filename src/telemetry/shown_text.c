#include "telemetry/shown_text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* How many bytes the character has that begins here, or 0: it is none. (RFC 3629) */
static size_t character_bytes(const unsigned char *at)
{
        size_t n = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;

        if (at[0] > 0xf4)
                return 0;
        for (size_t i = 1; i < n; i++)
                if ((at[i] & 0xc0) != 0x80) /* so does the end of the text */
                        return 0;
        if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
            (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
                return 0;
        return n;
}

/* U+0080 to U+009F, which some terminals obey as well. */
static int is_high_control(const unsigned char *at)
{
        return at[0] == 0xc2 && at[1] < 0xa0;
}

/* One character as it is shown; returns how many bytes of the text that was. */
static size_t show(const unsigned char *at, char shown[8])
{
        size_t n = character_bytes(at);

        memset(shown, 0, 8);
        if (n == 0)
                strcpy(shown, "?");
        else if (*at == '\n')
                strcpy(shown, "\\n");
        else if (*at == '\t')
                strcpy(shown, "\\t");
        else if (*at < ' ' || *at == 0x7f)
                snprintf(shown, 8, "\\x%02x", *at);
        else if (is_high_control(at))
                snprintf(shown, 8, "\\x%02x", at[1]);
        else
                memcpy(shown, at, n);
        return n > 0 ? n : 1;
}

void shown_text(char *out, size_t size, const char *text)
{
        const unsigned char *at = (const unsigned char *)(text != NULL ? text : "");
        size_t length = 0;

        while (*at != '\0') {
                char shown[8];
                at += show(at, shown);
                if (length + strlen(shown) >= size)
                        break;
                strcpy(out + length, shown);
                length += strlen(shown);
        }
        out[length] = '\0';
}
