#include "support/history.h"
#include "support/redis_server.h"

#include <stdio.h>
#include <string.h>

#define PAGE_ENTRIES 2000

static void note_entry(struct history *history, const redisReply *entry)
{
        const redisReply *fields = entry->element[1];

        snprintf(history->last_read, sizeof history->last_read, "%s", entry->element[0]->str);
        for (size_t i = 0; i + 1 < fields->elements; i += 2)
                if (strcmp(fields->element[i]->str, "payload") == 0)
                        history_note(history, fields->element[i + 1]->str);
}

void history_read_stream(struct history *history, struct redis_server *server, const char *stream)
{
        size_t n_entries;

        do {
                const char *begin = history->last_read[0] != '\0' ? history->last_read : "0-0";
                redisReply *reply = redis_server_run(
                    server, "XRANGE %s (%s + COUNT %d", stream, begin, PAGE_ENTRIES);
                n_entries = reply->elements;
                for (size_t i = 0; i < n_entries; i++)
                        note_entry(history, reply->element[i]);
                freeReplyObject(reply);
        } while (n_entries == PAGE_ENTRIES);
}
