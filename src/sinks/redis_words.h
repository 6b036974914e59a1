/*
 * Words of commands in the wire protocol (RESP). It carries lengths, so every
 * value passes as it is: no byte needs escaping. These run several times for
 * each event, so they go without printf.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct bytes;

/* "*3\r\n" begins a command of three words, "$3\r\n" a word of three bytes. */
void redis_append_count(struct bytes *out, char mark, uint64_t count);

void redis_append_word(struct bytes *out, const void *data, size_t length);
void redis_append_text(struct bytes *out, const char *text);
void redis_append_number(struct bytes *out, uint64_t number);

/* A word that is known here: its length is part of the program. */
#define REDIS_APPEND_WORD(out, length, word)                                                       \
        do {                                                                                       \
                _Static_assert(sizeof(word) - 1 == (length), "the length of " word);               \
                bytes_append((out), "$" #length "\r\n" word "\r\n",                                \
                    sizeof("$" #length "\r\n" word "\r\n") - 1);                                   \
        } while (0)
