/* The order of keys alone: who may start, and who is called out when one leaves. */
#include "lane/key_order.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_MANY 1000

struct rig {
        struct key_order order;
        struct event events[N_MANY];
        struct delivery deliveries[N_MANY];
        struct batch *batch; /* what they came with; it is empty */
        struct ready_queue ready;
        char resumed[64]; /* the indexes of those that were resumed, as text */
};

/* One delivery for each word of `keys`, "-" having none. */
static struct rig *open_rig(bool sink_keeps_order, char *keys)
{
        struct rig *rig = calloc(1, sizeof *rig);
        size_t n = 0;

        rig->batch = calloc(1, sizeof *rig->batch);
        ready_queue_init(&rig->ready);
        key_order_init(&rig->order, sink_keeps_order);
        for (char *key = strtok(keys, " "); key != NULL; key = strtok(NULL, " "), n++) {
                rig->events[n].key = strcmp(key, "-") == 0 ? NULL : key;
                rig->deliveries[n].event = &rig->events[n];
                rig->deliveries[n].batch = rig->batch;
                rig->deliveries[n].sequence = n;
                list_init(&rig->deliveries[n].link);
                list_init(&rig->deliveries[n].chain_link);
                key_order_join(&rig->order, &rig->deliveries[n]);
        }
        return rig;
}

static void close_rig(struct rig *rig)
{
        key_order_deinit(&rig->order);
        free(rig->batch);
        free(rig);
}

static bool may_start(const struct rig *rig, size_t index)
{
        return key_order_may_start(&rig->order, &rig->deliveries[index]);
}

static const char *take_resumed(struct rig *rig)
{
        const struct delivery *delivery;
        size_t length = 0;

        rig->resumed[0] = '\0';
        while ((delivery = ready_queue_take_next(&rig->ready)) != NULL)
                length += (size_t)snprintf(rig->resumed + length, sizeof rig->resumed - length,
                    "%d ", (int)(delivery - rig->deliveries));
        return rig->resumed;
}

/* Which deliveries it resumes. */
static const char *start(struct rig *rig, size_t index)
{
        rig->deliveries[index].state = DELIVERY_IN_FLIGHT;
        key_order_note_started(&rig->order, &rig->deliveries[index], &rig->ready);
        return take_resumed(rig);
}

static void block(struct rig *rig, size_t index)
{
        key_order_block(&rig->deliveries[index]);
}

static void fail(struct rig *rig, size_t index)
{
        key_order_note_failed(&rig->deliveries[index]);
}

/* Which deliveries it resumes. */
static const char *leave(struct rig *rig, size_t index)
{
        rig->deliveries[index].state = DELIVERY_DECIDED;
        key_order_leave(&rig->order, &rig->deliveries[index], &rig->ready);
        return take_resumed(rig);
}

Test(key_order, lets_only_the_first_of_a_key_start)
{
        char keys[] = "a b a";
        struct rig *rig = open_rig(false, keys);

        cr_expect(may_start(rig, 0));
        cr_expect(may_start(rig, 1));
        cr_expect_not(may_start(rig, 2));
        close_rig(rig);
}

Test(key_order, leaves_deliveries_without_a_key_alone)
{
        char keys[] = "- a - -";
        struct rig *rig = open_rig(false, keys);

        fail(rig, 0);
        fail(rig, 1);
        cr_expect(may_start(rig, 2));
        cr_expect_str_eq(leave(rig, 2), "");
        cr_expect(may_start(rig, 3));
        close_rig(rig);
}

Test(key_order, releases_one_delivery_at_a_time)
{
        char keys[] = "a a a b";
        struct rig *rig = open_rig(false, keys);

        block(rig, 1);
        block(rig, 2);
        cr_expect_str_eq(leave(rig, 0), "1 ");
        cr_expect_not(may_start(rig, 2));
        cr_expect_str_eq(leave(rig, 1), "2 ");
        cr_expect_str_eq(leave(rig, 2), "");
        close_rig(rig);
}

Test(key_order, lets_all_of_a_key_start_one_after_the_other_where_the_sink_keeps_order)
{
        char keys[] = "a a a";
        struct rig *rig = open_rig(true, keys);

        cr_expect(may_start(rig, 0));
        cr_expect_not(may_start(rig, 1), "nothing may overtake on its way to the sink");
        block(rig, 2);
        cr_expect_str_eq(start(rig, 0), "");
        cr_expect(may_start(rig, 1));
        cr_expect_str_eq(start(rig, 1), "2 ");
        cr_expect(may_start(rig, 2));
        close_rig(rig);
}

Test(key_order, goes_one_by_one_after_a_failure_until_every_failed_delivery_is_delivered)
{
        char keys[] = "a a a a a";
        struct rig *rig = open_rig(true, keys);

        fail(rig, 0);
        fail(rig, 1);
        fail(rig, 1);
        for (size_t i = 1; i < 5; i++) {
                cr_expect_not(may_start(rig, i));
                block(rig, i);
        }

        cr_expect_str_eq(leave(rig, 0), "1 ");
        cr_expect_not(may_start(rig, 2), "the second has failed too, if twice");
        cr_expect_str_eq(leave(rig, 1), "2 ");
        cr_expect_str_eq(start(rig, 2), "3 ");
        cr_expect_str_eq(start(rig, 3), "4 ");
        cr_expect(may_start(rig, 4));
        close_rig(rig);
}

Test(key_order, keeps_failures_to_their_key)
{
        char keys[] = "a b a b";
        struct rig *rig = open_rig(true, keys);

        fail(rig, 0);

        start(rig, 0);
        start(rig, 1);
        cr_expect_not(may_start(rig, 2));
        cr_expect(may_start(rig, 3));
        close_rig(rig);
}

Test(key_order, releases_no_delivery_behind_a_first_that_is_in_flight)
{
        char keys[] = "a a a";
        struct rig *rig = open_rig(true, keys);

        rig->deliveries[0].state = rig->deliveries[1].state = DELIVERY_IN_FLIGHT;
        fail(rig, 1);
        block(rig, 1);
        block(rig, 2);

        cr_expect_str_eq(leave(rig, 0), "1 ");
        rig->deliveries[1].state = DELIVERY_IN_FLIGHT;
        cr_expect_str_eq(leave(rig, 1), "2 ");
        close_rig(rig);
}

/* Their memory is not kept: it fits no other key. */
Test(key_order, keeps_long_keys_apart_and_gives_their_memory_back)
{
        char keys[3 * 100] = "k ";
        size_t length = strlen(keys);
        const struct key_chain *spare;
        struct rig *rig;

        for (int i = 0; i < 3; i++)
                length += (size_t)sprintf(keys + length, "%090d ", i / 2);
        rig = open_rig(false, keys);
        leave(rig, 0);
        spare = rig->order.spare;
        cr_expect_not_null(spare);

        cr_expect(may_start(rig, 1));
        cr_expect_not(may_start(rig, 2), "only the last of its 90 letters tells it from another");
        cr_expect(may_start(rig, 3));
        block(rig, 2);
        cr_expect_str_eq(leave(rig, 1), "2 ");
        leave(rig, 2);
        leave(rig, 3);
        cr_expect_eq(rig->order.n_chains, 0);
        cr_expect_eq(rig->order.spare, spare);
        close_rig(rig);
}

/* Its page, and the key with it, may be gone while others of the key come. */
Test(key_order, does_not_use_the_key_of_a_delivery_that_has_left)
{
        char keys[] = "- -";
        struct rig *rig = open_rig(false, keys);
        char *old = strdup("a"), later[] = "a";

        rig->events[0].key = old;
        rig->events[1].key = later;
        key_order_join(&rig->order, &rig->deliveries[0]);
        key_order_join(&rig->order, &rig->deliveries[1]);
        leave(rig, 0);
        free(old);
        rig->deliveries[2].event = &rig->events[2];
        rig->events[2].key = "a";
        key_order_join(&rig->order, &rig->deliveries[2]);

        cr_expect_not(may_start(rig, 2));
        cr_expect_eq(rig->order.n_chains, 1);
        close_rig(rig);
}

Test(key_order, keeps_many_keys_apart_and_forgets_finished_keys)
{
        static char keys[N_MANY * 8];
        struct rig *rig;

        for (size_t i = 0, length = 0; i < N_MANY; i++)
                length += (size_t)sprintf(keys + length, "k%zu ", i % (N_MANY / 2));
        rig = open_rig(false, keys);

        cr_expect_eq(rig->order.n_chains, N_MANY / 2);
        for (size_t i = 0; i < N_MANY; i++)
                cr_expect_eq(may_start(rig, i), i < N_MANY / 2);
        for (size_t i = 0; i < N_MANY; i++)
                leave(rig, i);
        cr_expect_eq(rig->order.n_chains, 0);
        close_rig(rig);
}
