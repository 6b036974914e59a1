/* When a bearer token expires, as far as it says so. */
#include "sinks/kafka/kafka_token.h"

#include <criterion/criterion.h>

static const struct {
        const char *token;
        int64_t expires_ms;
} rows[] = {
    {"", 0}, {"opaque", 0}, {"a.b", 0}, {"..", 0},
    {"eyJhbGciOiJub25lIn0.eyJzdWIiOiJyZWxheSIsImV4cCI6NDEwMjQ0NDgwMCwiaWF0IjoxfQ.", 4102444800000},
    {"x.eyJleHAiOjEuNX0.x", 1500}, /* {"exp":1.5} */
    {"x.eyJleHAiOiIxIn0.x", 0},    /* {"exp":"1"} */
    {"x.eyJleHAiOi0xfQ.x", 0},     /* {"exp":-1} */
    {"x.eyJleHAiOjFlMzAwfQ.x", 0}, /* {"exp":1e300} */
    {"x.eyJleHAiOjF9 .x", 0},      /* not base64url */
    {"x.eyJleHAiOjF9==.x", 0},     /* nor this */
    {"x.WzFd.x", 0},               /* [1] */
    {"x.eyJpYXQiOjF9.x", 0},       /* {"iat":1} */
};

Test(kafka_token, says_when_it_expires)
{
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
                cr_expect_eq(
                    kafka_token_expires_ms(rows[i].token), rows[i].expires_ms, "%s", rows[i].token);
}
