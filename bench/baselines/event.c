#include "event.h"

#include "database.h"

#include <endian.h>
#include <string.h>

#define US_FROM_1970_TO_2000 INT64_C(946684800000000)

enum column { ID, EVENT_ID, TOPIC, KEY, TYPE, PAYLOAD, HEADERS, CREATED_AT };

static int64_t integer_of(const PGresult *rows, int row, enum column column)
{
        uint64_t big_endian;

        memcpy(&big_endian, PQgetvalue(rows, row, (int)column), sizeof big_endian);
        return (int64_t)be64toh(big_endian);
}

static struct text text_of(const PGresult *rows, int row, enum column column)
{
        if (PQgetisnull(rows, row, (int)column))
                return (struct text){0};
        return (struct text){.data = PQgetvalue(rows, row, (int)column),
            .length = (size_t)PQgetlength(rows, row, (int)column)};
}

/* A uuid, or text that is one already. */
static void read_event_id(char event_id[static 36], struct text value)
{
        static const char digits[] = "0123456789abcdef";
        char *at = event_id;

        if (value.length == 36) {
                memcpy(event_id, value.data, 36);
                return;
        }
        for (int i = 0; i < 16; i++) {
                unsigned byte = (unsigned char)value.data[i];

                if (i == 4 || i == 6 || i == 8 || i == 10)
                        *at++ = '-';
                *at++ = digits[byte >> 4];
                *at++ = digits[byte & 15];
        }
}

void event_read(struct event *event, const PGresult *rows, int row)
{
        event->id = integer_of(rows, row, ID);
        read_event_id(event->event_id, text_of(rows, row, EVENT_ID));
        event->topic = text_of(rows, row, TOPIC);
        event->key = text_of(rows, row, KEY);
        event->type = text_of(rows, row, TYPE);
        event->payload = text_of(rows, row, PAYLOAD);
        event->created_us = integer_of(rows, row, CREATED_AT) + US_FROM_1970_TO_2000;
        if (!PQgetisnull(rows, row, HEADERS))
                die("event", "has headers, which the events of this benchmark have not");
}
