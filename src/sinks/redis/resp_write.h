/*
 * Words of commands in the wire protocol (RESP). It carries lengths, so every
 * value passes as it is: no byte needs escaping. These run several times for
 * each event, so they go without printf, and without redisFormatCommandArgv(),
 * which allocates each command.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct bytes;

/* "*3\r\n" begins a command of three words, "$3\r\n" a word of three bytes. */
void redis_append_count(struct bytes *out, char type, uint64_t count);

void redis_append_word(struct bytes *out, const void *data, size_t length);
void redis_append_text(struct bytes *out, const char *text);
void redis_append_number(struct bytes *out, uint64_t number);

/* The same behind bytes that are protocol already. */
void redis_append_behind(
    struct bytes *out, const char *before, size_t n_before, const void *data, size_t length);

/* A word that is known here: its length is part of the program. */
#define REDIS_WORD(length, word) "$" #length "\r\n" word "\r\n"
#define REDIS_ASSERT_LENGTH(length, word)                                                          \
        _Static_assert(sizeof(word) - 1 == (length), "the length of " word)

#define REDIS_APPEND_WORD(out, length, word)                                                       \
        do {                                                                                       \
                REDIS_ASSERT_LENGTH(length, word);                                                 \
                bytes_append(                                                                      \
                    (out), REDIS_WORD(length, word), sizeof(REDIS_WORD(length, word)) - 1);        \
        } while (0)

/* Likewise, and the word behind it. */
#define REDIS_APPEND_FIELD(out, length, name, value, n_value)                                      \
        do {                                                                                       \
                REDIS_ASSERT_LENGTH(length, name);                                                 \
                redis_append_behind((out), REDIS_WORD(length, name),                               \
                    sizeof(REDIS_WORD(length, name)) - 1, (value), (n_value));                     \
        } while (0)
