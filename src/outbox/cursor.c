#include "outbox/cursor.h"

#include "base/alloc.h"
#include "pg/array_literal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct frame *frame_create(const char *snapshot, int64_t floor, uint64_t xid)
{
        size_t length = strlen(snapshot);
        struct frame *frame = xcalloc(1, sizeof *frame + length + 1);

        frame->n_references = 1;
        frame->floor = floor;
        frame->xid = xid;
        memcpy(frame->snapshot, snapshot, length + 1);
        return frame;
}

struct frame *frame_ref(struct frame *frame)
{
        if (frame != NULL)
                frame->n_references++;
        return frame;
}

void frame_unref(struct frame *frame)
{
        if (frame == NULL)
                return;
        assert(frame->n_references > 0);
        if (--frame->n_references == 0)
                free(frame);
}

void cursor_assign(struct cursor *to, const struct cursor *from)
{
        struct cursor old = *to;

        to->from = frame_ref(from->from);
        to->until = frame_ref(from->until);
        to->last_id = from->last_id;
        cursor_deinit(&old);
}

void cursor_deinit(struct cursor *cursor)
{
        frame_unref(cursor->from);
        frame_unref(cursor->until);
        *cursor = (struct cursor){0};
}

bool cursor_is_complete(const struct cursor *cursor)
{
        return cursor->from->xid != 0 && (cursor->until == NULL || cursor->until->xid != 0);
}

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

#define APART_IDS 32768

void frame_marks_note(struct frame_marks *marks, const struct frame *frame)
{
        size_t n = marks->n_marks;

        /* Frames of lanes that are behind come between: those ahead say more than they. */
        if (n > 0 && (frame->floor < marks->marks[n - 1].floor + APART_IDS ||
                         frame->xid <= marks->marks[n - 1].xid))
                return;
        if (n == FRAME_MARKS) {
                memmove(marks->marks, marks->marks + n / 2, n / 2 * sizeof *marks->marks);
                n /= 2;
        }
        marks->marks[n].floor = frame->floor;
        marks->marks[n].xid = frame->xid;
        marks->n_marks = n + 1;
}

int64_t frame_marks_floor(const struct frame_marks *marks, uint64_t xid)
{
        for (size_t n = marks->n_marks; n > 0; n--)
                if (marks->marks[n - 1].xid <= xid)
                        return marks->marks[n - 1].floor;
        return 0;
}
