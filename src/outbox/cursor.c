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

/* Those below are PostgreSQL's own, and write no events. */
#define FIRST_NORMAL_XID 3

/* Returns its xmax, and its list. */
static uint64_t read_snapshot(const struct frame *frame, const char **out_list)
{
        char *at;
        uint64_t xmax;

        (void)strtoull(frame->snapshot, &at, 10); /* xmin:xmax:xip,... */
        xmax = strtoull(at + 1, &at, 10);
        *out_list = at + 1;
        return xmax < FIRST_NORMAL_XID ? FIRST_NORMAL_XID : xmax;
}

static size_t count_listed(const char *list)
{
        size_t n = *list != '\0';

        for (; *list != '\0'; list++)
                n += *list == ',';
        return n;
}

bool frame_is_older(const struct frame *frame, const struct frame *than)
{
        const char *list, *list_than;
        uint64_t xmax, xmax_than;

        if (frame == than)
                return false;
        xmax = read_snapshot(frame, &list);
        xmax_than = read_snapshot(than, &list_than);
        return xmax < xmax_than ||
               (xmax == xmax_than && count_listed(list) > count_listed(list_than));
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

/* A look at one costs the database two microseconds or so. */
#define MAX_HIDDEN 64

static void add_listed(struct array_literal *ids, const char *list, uint64_t end)
{
        char *at;

        for (; *list != '\0'; list = *at == ',' ? at + 1 : at) {
                uint64_t xid = strtoull(list, &at, 10);
                if (xid < end)
                        array_add_int(ids, (int64_t)xid);
        }
}

bool stragglers_list(const struct frame *frame, uint64_t end, struct array_literal *ids)
{
        const char *list;
        uint64_t xmax = read_snapshot(frame, &list);

        add_listed(ids, list, end);
        if (end > frame->xid)
                end = frame->xid;
        if (end > xmax + MAX_HIDDEN)
                return false;
        for (uint64_t xid = xmax; xid < end; xid++)
                array_add_int(ids, (int64_t)xid);
        return true;
}

bool stragglers_are_any(const struct frame *frame)
{
        const char *list;
        uint64_t xmax = read_snapshot(frame, &list);

        return *list != '\0' || xmax < frame->xid;
}

uint64_t stragglers_oldest(const struct frame *frame)
{
        return strtoull(frame->snapshot, NULL, 10); /* xmin:xmax:xip,... */
}

#define FAR_APART_IDS  32768
#define NEAR_APART_IDS 16

/* To look at so many rows costs no more than to look for the rows of one transaction. */
#define NEAR_IDS 1024

static void note(struct frame_mark_list *list, const struct frame *frame, int64_t apart)
{
        size_t n = list->n_marks;

        /* Frames of lanes that are behind come between: those ahead say more than they. */
        if (n > 0 && (frame->floor < list->marks[n - 1].floor + apart ||
                         frame->xid <= list->marks[n - 1].xid))
                return;
        if (n == FRAME_MARKS) {
                memmove(list->marks, list->marks + n / 2, n / 2 * sizeof *list->marks);
                n /= 2;
        }
        list->marks[n] = (struct frame_mark){.floor = frame->floor, .xid = frame->xid};
        list->n_marks = n + 1;
}

void frame_marks_note(struct frame_marks *marks, const struct frame *frame)
{
        note(&marks->far, frame, FAR_APART_IDS);
        note(&marks->near, frame, NEAR_APART_IDS);
}

static struct frame_mark below(const struct frame_mark_list *list, uint64_t xid)
{
        for (size_t n = list->n_marks; n > 0; n--)
                if (list->marks[n - 1].xid <= xid)
                        return list->marks[n - 1];
        return (struct frame_mark){0};
}

struct frame_mark frame_marks_below(const struct frame_marks *marks, uint64_t xid)
{
        struct frame_mark far = below(&marks->far, xid), near = below(&marks->near, xid);

        return near.floor > far.floor ? near : far;
}

struct frame_mark frame_marks_near(const struct frame_marks *marks, const struct frame *frame)
{
        struct frame_mark mark = {.floor = frame->floor, .xid = frame->xid};
        uint64_t oldest = stragglers_oldest(frame);

        /* Then its oldest is its xid. */
        if (!stragglers_are_any(frame))
                return mark;
        for (size_t n = marks->near.n_marks; n > 0 && mark.xid > oldest; n--) {
                const struct frame_mark *next = &marks->near.marks[n - 1];
                if (next->floor < frame->floor - NEAR_IDS)
                        break;
                if (next->floor <= mark.floor && next->xid <= mark.xid)
                        mark = *next;
        }
        return mark;
}
