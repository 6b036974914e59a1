#include "chaos/arrivals.h"

#include "base/alloc.h"
#include "chaos/events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_ENTRIES 2000

void arrivals_init(struct arrivals *arrivals)
{
        *arrivals = (struct arrivals){.last_id = "0-0"};
        pthread_mutex_init(&arrivals->lock, NULL);
}

void arrivals_deinit(struct arrivals *arrivals)
{
        pthread_mutex_destroy(&arrivals->lock);
        free(arrivals->each);
}

static void append(struct arrivals *arrivals, const struct arrived *arrived)
{
        if (arrivals->n == arrivals->capacity) {
                arrivals->capacity = arrivals->capacity > 0 ? 2 * arrivals->capacity : 1024;
                arrivals->each =
                    xrealloc(arrivals->each, arrivals->capacity * sizeof *arrivals->each);
        }
        arrivals->each[arrivals->n++] = *arrived;
}

void arrivals_note_of(
    struct arrivals *arrivals, unsigned generation, const char *text, int64_t at_us)
{
        struct arrived arrived = {.at_us = at_us};

        if (chaos_is_beacon(text))
                return;
        if (!chaos_event_parse(text, &arrived.writer, &arrived.number, &arrived.due_us))
                test_abort("no event of ours arrived: %.200s", text);
        pthread_mutex_lock(&arrivals->lock);
        if (generation == arrivals->generation)
                append(arrivals, &arrived);
        pthread_mutex_unlock(&arrivals->lock);
}

void arrivals_note(struct arrivals *arrivals, const char *text, int64_t at_us)
{
        arrivals_note_of(arrivals, 0, text, at_us);
}

void arrivals_renew(struct arrivals *arrivals, unsigned generation)
{
        pthread_mutex_lock(&arrivals->lock);
        arrivals->generation = generation;
        arrivals->n = 0;
        pthread_mutex_unlock(&arrivals->lock);
}

/* An entry's id begins with the server's time in whole milliseconds: the last moment of it. */
static void note_entry(struct arrivals *arrivals, const redisReply *entry)
{
        const redisReply *fields = entry->element[1];

        snprintf(arrivals->last_id, sizeof arrivals->last_id, "%s", entry->element[0]->str);
        for (size_t i = 0; i + 1 < fields->elements; i += 2)
                if (strcmp(fields->element[i]->str, "payload") == 0)
                        arrivals_note(arrivals, fields->element[i + 1]->str,
                            strtoll(arrivals->last_id, NULL, 10) * 1000 + 999);
}

void arrivals_read_stream(
    struct arrivals *arrivals, struct redis_server *server, const char *stream)
{
        size_t n_entries;

        do {
                redisReply *reply = redis_server_run(
                    server, "XRANGE %s (%s + COUNT %d", stream, arrivals->last_id, PAGE_ENTRIES);
                n_entries = reply->elements;
                for (size_t i = 0; i < n_entries; i++)
                        note_entry(arrivals, reply->element[i]);
                freeReplyObject(reply);
        } while (n_entries == PAGE_ENTRIES);
}

void arrivals_read_mailbox(struct arrivals *arrivals, const struct smtp_receiver *smtp)
{
        FILE *mailbox = fopen(smtp->mailbox, "r");
        char *line = NULL;
        size_t capacity = 0;
        ssize_t n_bytes;

        if (mailbox == NULL)
                return;
        fseek(mailbox, arrivals->mailbox_offset, SEEK_SET);
        /* A line without its end is still being written. */
        while ((n_bytes = getline(&line, &capacity, mailbox)) > 0 && line[n_bytes - 1] == '\n') {
                static const char mark[] = "\"received_at\": ";
                const char *received_at = strstr(line, mark);
                if (received_at == NULL)
                        test_abort("the mail server wrote a bad line: %.200s", line);
                arrivals_note(arrivals, line,
                    (int64_t)(strtod(received_at + sizeof mark - 1, NULL) * 1000000));
                arrivals->mailbox_offset += n_bytes;
        }
        free(line);
        fclose(mailbox);
}

uint32_t numbering_find(const struct numbering *numbering, unsigned writer, unsigned number)
{
        const uint32_t *first = numbering->first;

        return writer < numbering->n_writers && number < first[writer + 1] - first[writer]
                   ? first[writer] + number
                   : UINT32_MAX;
}

struct chaos_arrival *arrivals_number(
    struct arrivals *arrivals, const struct numbering *numbering, size_t *out_n)
{
        struct chaos_arrival *numbered;

        pthread_mutex_lock(&arrivals->lock);
        *out_n = arrivals->n;
        numbered = xcalloc(arrivals->n + 1, sizeof *numbered);
        for (size_t i = 0; i < arrivals->n; i++) {
                const struct arrived *arrived = &arrivals->each[i];
                numbered[i] = (struct chaos_arrival){.at_us = arrived->at_us,
                    .due_us = arrived->due_us,
                    .event = numbering_find(numbering, arrived->writer, arrived->number)};
        }
        pthread_mutex_unlock(&arrivals->lock);
        return numbered;
}
