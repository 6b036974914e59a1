#include "outbox/cursor.h"

#include "base/alloc.h"

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
