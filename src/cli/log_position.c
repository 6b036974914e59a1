#include "cli/log_position.h"

#include "cli/connect.h"
#include "config/units.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#define MAX_AGO_MS (INT64_C(36500) * 24 * 60 * 60 * 1000)

bool log_position_parse(
    struct log_position *out_position, const char *option, const char *word, struct error *error)
{
        uint64_t id;

        *out_position = (struct log_position){.ago_ms = -1};
        if (word == NULL)
                return true;
        if (strcmp(word, "beginning") == 0) {
                out_position->id = 1;
                return true;
        }
        if (units_parse_integer(word, &id) && id > 0 && id <= INT64_MAX) {
                out_position->id = (int64_t)id;
                return true;
        }
        if (units_parse_duration(word, &out_position->ago_ms) && out_position->ago_ms <= MAX_AGO_MS)
                return true;
        out_position->ago_ms = -1;
        out_position->time = word;
        /* The server knows times; but what it would take besides (now, infinity) is none here. */
        return isdigit((unsigned char)*word) ||
               error_set(error, ERROR_USAGE,
                   "--%s: \"%.64s\" is not an ID, a time (2026-11-21T08:00Z), how long ago (2h) or "
                   "\"beginning\"",
                   option, word);
}

void log_position_refused(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        if (strncmp(blocking_conn_sqlstate(conn), "2200", 4) == 0)
                error_set(error, ERROR_USAGE, "%s; write it as 2026-11-21T08:00Z",
                    blocking_conn_message(conn));
        else
                command_refused(conn, arguments, error);
}
