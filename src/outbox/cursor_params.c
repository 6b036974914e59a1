#include "outbox/cursor_params.h"

#include "outbox/session.h"

#include <inttypes.h>
#include <stdio.h>

/* Of its snapshot, floor and xid; two numbers. */
static void set_frame(const char **values, char (*numbers)[24], const struct frame *frame)
{
        if (frame == NULL)
                return;
        snprintf(numbers[0], sizeof numbers[0], "%" PRId64, frame->floor);
        snprintf(numbers[1], sizeof numbers[1], "%" PRIu64, frame->xid);
        values[0] = frame->snapshot;
        values[1] = numbers[0];
        values[2] = numbers[1];
}

void cursor_params_init(
    struct cursor_params *params, const struct lane_store *store, const struct cursor *cursor)
{
        *params = (struct cursor_params){.values = {[CURSOR_SINK] = store->sink,
                                             [CURSOR_LANE] = store->lane,
                                             [CURSOR_EPOCH] = store->epoch,
                                             [CURSOR_LAST_ID] = params->numbers[4],
                                             [CURSOR_PLACE] = store->place}};
        set_frame(&params->values[CURSOR_FROM_SNAPSHOT], &params->numbers[0], cursor->from);
        set_frame(&params->values[CURSOR_UNTIL_SNAPSHOT], &params->numbers[2], cursor->until);
        snprintf(params->numbers[4], sizeof params->numbers[4], "%" PRId64, cursor->last_id);
}
