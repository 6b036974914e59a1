#include "outbox/event_row.h"

#include <endian.h>
#include <string.h>

/* 2000-01-01, the epoch of PostgreSQL's timestamps, in microseconds since 1970-01-01. */
#define POSTGRES_EPOCH_US INT64_C(946684800000000)

int64_t event_row_int64(const PGresult *result, int row, int column)
{
        uint64_t big_endian;

        memcpy(&big_endian, PQgetvalue(result, row, column), sizeof big_endian);
        return (int64_t)be64toh(big_endian);
}

int32_t event_row_int32(const PGresult *result, int row, int column)
{
        uint32_t big_endian;

        memcpy(&big_endian, PQgetvalue(result, row, column), sizeof big_endian);
        return (int32_t)be32toh(big_endian);
}

bool event_row_bool(const PGresult *result, int row, int column)
{
        return !PQgetisnull(result, row, column) && *PQgetvalue(result, row, column) != 0;
}

const char *event_row_text(const PGresult *result, int row, int column)
{
        return PQgetisnull(result, row, column) ? NULL : PQgetvalue(result, row, column);
}

static void read_uuid(const PGresult *result, int row, char text[37])
{
        static const char digits[] = "0123456789abcdef";
        const unsigned char *bytes =
            (const unsigned char *)PQgetvalue(result, row, COLUMN_EVENT_ID);

        for (int i = 0; i < 16; i++) {
                *text++ = digits[bytes[i] >> 4];
                *text++ = digits[bytes[i] & 15];
                if (i == 3 || i == 5 || i == 7 || i == 9)
                        *text++ = '-';
        }
        *text = '\0';
}

void event_row_read(
    const PGresult *result, int row, struct event_headers *headers, struct event *event)
{
        int payload;

        event->id = event_row_int64(result, row, COLUMN_ID);
        read_uuid(result, row, event->event_id);
        event->topic = event_row_text(result, row, COLUMN_TOPIC);
        event->key = event_row_text(result, row, COLUMN_KEY);
        event->type = event_row_text(result, row, COLUMN_TYPE);
        event->is_json = !PQgetisnull(result, row, COLUMN_PAYLOAD);
        payload = event->is_json ? COLUMN_PAYLOAD : COLUMN_DATA;
        event->payload = PQgetvalue(result, row, payload);
        event->payload_bytes = (size_t)PQgetlength(result, row, payload);
        event->created_us = event_row_int64(result, row, COLUMN_CREATED_AT) + POSTGRES_EPOCH_US;
        if (!PQgetisnull(result, row, COLUMN_HEADERS))
                event_headers_read(headers, PQgetvalue(result, row, COLUMN_HEADERS),
                    (size_t)PQgetlength(result, row, COLUMN_HEADERS), event);
}
