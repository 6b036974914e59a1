#include "outbox/frame_marks.h"

#include <string.h>

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
