#include "outbox/stragglers.h"

#include "pg/array_literal.h"

#include <stdlib.h>

/* A look at one costs the database two microseconds or so. */
#define MAX_HIDDEN 64

/* Those below are PostgreSQL's own, and write no events. */
#define FIRST_NORMAL_XID 3

static void add_listed(struct array_literal *ids, const char *list)
{
        char *end;

        for (; *list != '\0'; list = *end == ',' ? end + 1 : end)
                array_add_int(ids, (int64_t)strtoull(list, &end, 10));
}

bool stragglers_list(const struct frame *frame, struct array_literal *ids)
{
        char *at;
        uint64_t xmax;

        (void)strtoull(frame->snapshot, &at, 10); /* xmin:xmax:xip,... */
        xmax = strtoull(at + 1, &at, 10);
        add_listed(ids, at + 1);
        if (xmax < FIRST_NORMAL_XID)
                xmax = FIRST_NORMAL_XID;
        if (frame->xid > xmax + MAX_HIDDEN)
                return false;
        for (uint64_t xid = xmax; xid < frame->xid; xid++)
                array_add_int(ids, (int64_t)xid);
        return true;
}

uint64_t stragglers_oldest(const struct frame *frame)
{
        return strtoull(frame->snapshot, NULL, 10); /* xmin:xmax:xip,... */
}
