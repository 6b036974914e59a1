#include "sinks/kafka/kafka_token.h"

#include "base/alloc.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SECONDS = 32503680 /* thousands: the year 3000 */ };

static int sextet(char c)
{
        static const char alphabet[] =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        const char *at = strchr(alphabet, c);

        return at != NULL && c != '\0' ? (int)(at - alphabet) : -1;
}

/* base64url without padding, up to `end`. Returns its length, or -1. */
static long decode(const char *text, const char *end, char *out)
{
        unsigned bits = 0;
        int n_bits = 0;
        long length = 0;

        for (; text < end; text++) {
                int value = sextet(*text);
                if (value < 0)
                        return -1;
                bits = bits << 6 | (unsigned)value;
                n_bits += 6;
                if (n_bits >= 8) {
                        n_bits -= 8;
                        out[length++] = (char)(bits >> n_bits & 0xff);
                }
        }
        return length;
}

static int64_t expiry_of(const char *claims, size_t length)
{
        json_t *document = json_loadb(claims, length, 0, NULL);
        double seconds = json_number_value(json_object_get(document, "exp"));

        json_decref(document);
        return seconds > 0 && seconds < MAX_SECONDS * 1000.0 ? (int64_t)(seconds * 1000) : 0;
}

int64_t kafka_token_expires_ms(const char *token)
{
        const char *claims = strchr(token, '.');
        const char *end = claims != NULL ? strchr(claims + 1, '.') : NULL;
        int64_t expires_ms = 0;
        char *decoded;
        long length;

        if (end == NULL)
                return 0;
        decoded = xmalloc((size_t)(end - claims));
        length = decode(claims + 1, end, decoded);
        if (length > 0)
                expires_ms = expiry_of(decoded, (size_t)length);
        free(decoded);
        return expires_ms;
}
