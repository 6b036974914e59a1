#include "support/lane_rig.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <string.h>

const struct lane_policy lane_rig_policy = {.by_key = true,
    .max_in_flight = 20,
    .max_in_flight_bytes = 1 << 20,
    .max_parked = 1000,
    .park_after_ms = 1000,
    .settle_delay_ms = 20,
    .settle_idle_ms = 1000,
    .retry = {.backoff = {.first_ms = 100, .factor = 2, .max_ms = 10000}, .max_attempts = 5}};

void lane_rig_open(struct lane_rig *rig, const struct lane_policy *policy)
{
        *rig = (struct lane_rig){.now_ms = 1000000, .xid = 700};
        pages_init(&rig->pages);
        lane_init(&rig->lane, policy);
        lane_rig_own(rig, 0);
        cr_assert_eq(lane_rig_read_parked(rig), 0);
}

void lane_rig_close(struct lane_rig *rig)
{
        lane_deinit(&rig->lane);
        pages_deinit(&rig->pages);
}

static bool is_same_key(const char *a, const char *b)
{
        return a[0] != '\0' && strcmp(a, b) == 0;
}

/* What courier.parked has of each key when the lane is taken. */
static void list_keys(const struct lane_rig *rig, struct parked_keys *keys)
{
        for (size_t i = 0; i < rig->n_rows; i++) {
                const struct rig_row *row = &rig->rows[i];
                size_t k = 0;
                if (row->state == PARKED_DELAYED)
                        continue;
                keys->n_rows++;
                if (row->key[0] == '\0')
                        continue;
                while (k < keys->n_keys && strcmp(keys->keys[k].key, row->key) != 0)
                        k++;
                if (k == keys->n_keys)
                        keys->keys[keys->n_keys++] = (struct parked_key){
                            .key = row->key, .is_waiting = row->state == PARKED_RETRY};
                keys->keys[k].n_rows++;
                keys->keys[k].n_blocked += row->state == PARKED_BLOCKED;
        }
}

void lane_rig_own(struct lane_rig *rig, int64_t floor)
{
        struct cursor cursor = {.from = frame_create("1:1:", floor, 1)};
        struct parked_key found[64];
        struct parked_keys keys = {.keys = found};

        list_keys(rig, &keys);
        lane_own(&rig->lane, &cursor, &keys);
        cursor_deinit(&cursor);
        rig->last_id = floor;
}

/* NULL if no bit is set. */
static bool *take_marks(uint64_t *bits, size_t n_events)
{
        bool *marks = *bits != 0 ? xcalloc(n_events, sizeof *marks) : NULL;

        for (size_t i = 0; marks != NULL && i < n_events; i++)
                marks[i] = (*bits >> i & 1) != 0;
        *bits = 0;
        return marks;
}

void lane_rig_take_page(struct lane_rig *rig, const char *keys, size_t payload_bytes)
{
        struct page_request request;
        struct cursor start;
        struct page *page;
        int64_t id = rig->last_id;
        char key[16];
        int length;

        cr_assert(lane_wants_page(&rig->lane, &request));
        cr_assert_null(request.start.until, "the difference before has ended");
        for (const char *at = keys; sscanf(at, "%15s%n", key, &length) == 1; at += length)
                rig->last_id++;
        cr_assert_leq(rig->last_id - id, request.max_events);

        start = request.start;
        start.until = rig->last_id == start.from->floor
                          ? frame_ref(start.from) /* nothing is new */
                          : frame_create("2:2:", rig->last_id, ++rig->xid);
        page = pages_make(&rig->pages, &start);
        frame_unref(start.until);
        for (const char *at = keys; sscanf(at, "%15s%n", key, &length) == 1; at += length)
                page_add_event(page, ++id, strcmp(key, "-") == 0 ? NULL : key, payload_bytes);
        page->is_delayed = take_marks(&rig->delayed, page->n_events);
        page->is_unjudged = take_marks(&rig->unjudged, page->n_events);
        lane_take_page(&rig->lane, page, rig->now_ms);
}

void lane_rig_read(struct lane_rig *rig, const char *keys)
{
        lane_ring(&rig->lane);
        lane_rig_take_page(rig, keys, 10);
}

int64_t lane_rig_start(struct lane_rig *rig)
{
        const struct delivery *delivery = lane_start_next(&rig->lane, rig->now_ms);

        return delivery != NULL ? delivery->attempt.event->id : 0;
}

/* A batch may keep one that has gone back to its row, and was read again with another batch. */
static struct delivery *find_in(const struct list *batches, int64_t id)
{
        struct delivery *found = NULL;

        list_for_each (link, batches) {
                struct batch *batch = list_owner(link, struct batch, link);
                for (size_t i = 0; i < batch->n_deliveries; i++)
                        if (batch->deliveries[i].event->id == id &&
                            (found == NULL || found->state == DELIVERY_DECIDED))
                                found = &batch->deliveries[i];
        }
        return found;
}

struct delivery *lane_rig_delivery(struct lane_rig *rig, int64_t id)
{
        struct delivery *delivery = find_in(&rig->lane.parked.batches, id);

        if (delivery == NULL)
                delivery = find_in(&rig->lane.window.batches, id);
        if (delivery == NULL)
                delivery = find_in(&rig->lane.window.held, id);
        if (delivery == NULL)
                cr_assert_fail("event %lld is not in memory", (long long)id);
        return delivery;
}

struct lane_result lane_rig_end(struct lane_rig *rig, int64_t id, const struct outcome *outcome)
{
        return lane_finish(
            &rig->lane, lane_rig_delivery(rig, id), outcome, rig->now_ms, UINT32_MAX);
}

int64_t lane_rig_finish_delayed(
    struct lane_rig *rig, int64_t id, enum outcome_kind kind, int64_t delay_ms)
{
        const struct outcome outcome = {.kind = kind,
            .delay_ms = delay_ms,
            .concerns_all = kind == OUTCOME_SINK_DOWN,
            .reason = "no"};

        return lane_rig_end(rig, id, &outcome).retry_ms;
}

int64_t lane_rig_finish(struct lane_rig *rig, int64_t id, enum outcome_kind kind)
{
        return lane_rig_finish_delayed(rig, id, kind, OUTCOME_NO_DELAY);
}

static void take_row(struct lane_rig *rig, int64_t id, struct rig_row *out_row)
{
        size_t at = 0;

        while (at < rig->n_rows && rig->rows[at].id != id)
                at++;
        cr_assert_lt(at, rig->n_rows, "event %lld is not parked", (long long)id);
        *out_row = rig->rows[at];
        rig->n_rows--;
        memmove(&rig->rows[at], &rig->rows[at + 1], (rig->n_rows - at) * sizeof rig->rows[0]);
}

static struct rig_row *find_row(struct lane_rig *rig, int64_t id)
{
        for (size_t i = 0; i < rig->n_rows; i++)
                if (rig->rows[i].id == id)
                        return &rig->rows[i];
        cr_assert_fail("event %lld is not parked", (long long)id);
        return NULL;
}

static struct rig_row *row_to_park(struct lane_rig *rig, const struct verdict *verdict)
{
        struct rig_row row = {.id = verdict->event->id};

        if (verdict->event->key != NULL)
                snprintf(row.key, sizeof row.key, "%s", verdict->event->key);
        if (verdict->is_parked && !verdict->goes_last)
                return find_row(rig, row.id);
        if (verdict->is_parked)
                take_row(rig, row.id, &row);
        rig->rows[rig->n_rows] = row;
        return &rig->rows[rig->n_rows++];
}

static void apply(struct lane_rig *rig, const struct settlement *settlement)
{
        struct rig_row gone;

        list_for_each (link, settlement->verdicts) {
                const struct verdict *verdict = list_owner(link, struct verdict, link);
                struct rig_row *row;
                switch (verdict->kind) {
                case VERDICT_PARK:
                        row = row_to_park(rig, verdict);
                        row->state = verdict->state;
                        row->due_ms = verdict->due_ms;
                        row->n_attempts = verdict->n_attempts;
                        row->retried_ms = verdict->retried_ms;
                        break;
                case VERDICT_DELIVERED:
                        take_row(rig, verdict->event->id, &gone);
                        break;
                case VERDICT_DEAD:
                        if (verdict->is_parked)
                                take_row(rig, verdict->event->id, &gone);
                        rig->dead[rig->n_dead].id = verdict->event->id;
                        rig->dead[rig->n_dead].reason = verdict->reason;
                        rig->dead[rig->n_dead].n_attempts = verdict->n_attempts;
                        snprintf(rig->dead[rig->n_dead].words, sizeof rig->dead[0].words, "%.95s",
                            verdict->words);
                        rig->n_dead++;
                        break;
                }
        }
}

int64_t lane_rig_wants_settle(struct lane_rig *rig)
{
        struct settlement settlement;

        if (!lane_wants_settle(&rig->lane, rig->now_ms, &settlement))
                return -1;
        apply(rig, &settlement);
        rig->settled = settlement.cursor.until != NULL ? settlement.cursor.last_id
                                                       : settlement.cursor.from->floor;
        return rig->settled;
}

void lane_rig_answer_settle(struct lane_rig *rig)
{
        lane_settled(&rig->lane, rig->room, rig->now_ms);
}

void lane_rig_settle(struct lane_rig *rig)
{
        if (lane_rig_wants_settle(rig) < 0) {
                rig->now_ms += 20;
                cr_assert_geq(lane_rig_wants_settle(rig), 0, "there is nothing to settle");
        }
        lane_rig_answer_settle(rig);
}

static bool is_claimed(const struct parked_request *request, int64_t id)
{
        for (size_t i = 0; i < request->n_claimed; i++)
                if (request->claimed[i] == id)
                        return true;
        return false;
}

static void add_row(struct parked_batch *batch, const struct rig_row *row)
{
        struct parked_row added = {.event = {.id = row->id,
                                       .topic = "orders",
                                       .key = row->key[0] != '\0' ? row->key : NULL,
                                       .payload = "",
                                       .payload_bytes = 10},
            .state = row->state,
            .n_attempts = row->n_attempts,
            .retried_ms = row->retried_ms,
            .is_skipped = row->is_skipped};

        for (size_t i = 0; i < batch->n_rows; i++)
                if (batch->rows[i].event.id == row->id)
                        return;
        parked_add_row(batch, &added);
}

static void add_key(const struct lane_rig *rig, const struct parked_request *request,
    const char *key, struct parked_batch *batch)
{
        uint32_t limit = request->max_rows / (uint32_t)request->n_keys;
        uint32_t n = 0;

        for (size_t i = 0; i < rig->n_rows && n < (limit > 0 ? limit : 1); i++) {
                const struct rig_row *row = &rig->rows[i];
                if (!is_same_key(row->key, key) || row->state == PARKED_DELAYED ||
                    is_claimed(request, row->id))
                        continue;
                add_row(batch, row);
                n++;
        }
}

int lane_rig_read_parked(struct lane_rig *rig)
{
        struct parked_request request;
        struct parked_batch *batch;
        uint32_t n_due = 0;
        int n_rows;

        if (!lane_wants_parked(&rig->lane, rig->now_ms, &request))
                return -1;
        batch = pages_make_parked(&rig->pages);
        for (size_t k = 0; k < request.n_keys; k++)
                add_key(rig, &request, request.keys[k], batch);
        for (size_t i = 0; i < rig->n_rows; i++) {
                const struct rig_row *row = &rig->rows[i];
                if ((row->state == PARKED_BLOCKED && !row->is_skipped) ||
                    is_claimed(&request, row->id))
                        continue;
                if (row->due_ms > rig->now_ms && !row->is_skipped) {
                        if (batch->next_due_ms < 0 ||
                            row->due_ms - rig->now_ms < batch->next_due_ms)
                                batch->next_due_ms = row->due_ms - rig->now_ms;
                } else if (n_due++ < request.max_rows) {
                        add_row(batch, row);
                } else {
                        batch->next_due_ms = 0;
                }
        }
        n_rows = (int)batch->n_rows;
        lane_take_parked(&rig->lane, batch, rig->now_ms);
        return n_rows;
}

const char *lane_rig_rows(const struct lane_rig *rig)
{
        static char text[256];
        size_t length = 0;

        text[0] = '\0';
        for (size_t i = 0; i < rig->n_rows; i++)
                length += (size_t)snprintf(text + length, sizeof text - length, "%s%lld:%s",
                    i > 0 ? " " : "", (long long)rig->rows[i].id,
                    parked_state_name(rig->rows[i].state));
        return text;
}

bool lane_rig_wants_page(struct lane_rig *rig)
{
        struct page_request request;

        return lane_wants_page(&rig->lane, &request);
}
