#include "sinks/redis/resp_read.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As it stands in memory of just this size, so that the sanitizer sees each byte too far. */
static size_t read_from(const char *text, size_t size, redisReply *reply, char **out_data)
{
        *out_data = malloc(size > 0 ? size : 1);
        memcpy(*out_data, text, size);
        return resp_fast_read(*out_data, size, reply);
}

static void expect_read(const char *text, int type, const char *expected)
{
        size_t size = strlen(text);
        redisReply reply;
        char *data;

        cr_expect(read_from(text, size, &reply, &data) == size, "%s", text);
        cr_expect(reply.type == type);
        cr_expect(reply.len == strlen(expected) && strcmp(reply.str, expected) == 0, "%s", text);
        free(data);
}

static void expect_left(const char *text, size_t size)
{
        redisReply reply;
        char *data;

        cr_expect(read_from(text, size, &reply, &data) == 0, "%.*s", (int)size, text);
        cr_expect(memcmp(data, text, size) == 0, "it was changed");
        free(data);
}

Test(resp_fast, reads_strings_statuses_and_integers)
{
        redisReply reply;
        char *data;

        expect_read("$15\r\n1795271089679-0\r\n", REDIS_REPLY_STRING, "1795271089679-0");
        expect_read("$0\r\n\r\n", REDIS_REPLY_STRING, "");
        expect_read("$4\r\na\r\nb\r\n", REDIS_REPLY_STRING, "a\r\nb");
        expect_read("+QUEUED\r\n", REDIS_REPLY_STATUS, "QUEUED");
        expect_read("+\r\n", REDIS_REPLY_STATUS, "");
        cr_expect(read_from(":123456789012345678\r\n", 21, &reply, &data) == 21);
        cr_expect(reply.type == REDIS_REPLY_INTEGER && reply.integer == 123456789012345678);
        free(data);
        cr_expect(read_from(":0\r\n+OK\r\n", 9, &reply, &data) == 4);
        cr_expect(reply.type == REDIS_REPLY_INTEGER && reply.integer == 0);
        free(data);
}

Test(resp_fast, leaves_incomplete_replies)
{
        static const char *const whole[] = {
            "$15\r\n1795271089679-0\r\n", "+QUEUED\r\n", ":12\r\n", "$0\r\n\r\n"};

        for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
                for (size_t size = 0; size < strlen(whole[i]); size++)
                        expect_left(whole[i], size);
}

Test(resp_fast, leaves_other_kinds_and_malformed_replies)
{
        static const char *const others[] = {"-ERR no\r\n", "*1\r\n$1\r\na\r\n", "$-1\r\n",
            ":-1\r\n", "$1\r\nab\r\n", "$01\r\na\r\n", "$a\r\n", "$\r\n", "$1a\r\nb\r\n",
            ":12345678901234567890\r\n", "$9223372036854775807\r\na\r\n",
            "$99999999999999999999\r\na\r\n", "+a\rb\r\n", "_\r\n", "\r\n"};

        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
                expect_left(others[i], strlen(others[i]));
}
