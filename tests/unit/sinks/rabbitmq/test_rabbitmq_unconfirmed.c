/* Which messages a confirm is for. */
#include "sinks/rabbitmq/rabbitmq_unconfirmed.h"

#include "pgcourier/sink.h"
#include "sinks/rabbitmq/rabbitmq_frames.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { N = 1000 };

static struct rabbitmq_unconfirmed ring;
static struct event events[N + 1];
static struct attempt attempts[N + 1]; /* by tag */
static char answers[N * 4 + 1];        /* "3 5r " */

static void add(unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                uint64_t tag = ring.next_tag;
                snprintf(events[tag].event_id, sizeof events[tag].event_id, "id-%u", (unsigned)tag);
                attempts[tag] = (struct attempt){.event = &events[tag]};
                rabbitmq_unconfirmed_add(&ring, &attempts[tag], tag);
        }
}

static void begin(unsigned n)
{
        rabbitmq_unconfirmed_init(&ring);
        add(n);
}

static void end(void)
{
        while (rabbitmq_unconfirmed_take(&ring, UINT64_MAX) != NULL)
                ;
        rabbitmq_unconfirmed_deinit(&ring);
}

static void on_answered(void *owner, struct attempt *attempt, bool is_returned)
{
        size_t length = strlen(answers);

        (void)owner;
        snprintf(answers + length, sizeof answers - length, "%d%s ", (int)(attempt - attempts),
            is_returned ? "r" : "");
}

static bool answer(uint64_t tag, bool is_multiple)
{
        answers[0] = '\0';
        return rabbitmq_unconfirmed_answer(&ring, tag, is_multiple, on_answered, NULL);
}

static void expect_answer(uint64_t tag, bool is_multiple, const char *expected)
{
        cr_expect(answer(tag, is_multiple));
        cr_expect_str_eq(answers, expected);
}

Test(rabbitmq_unconfirmed, takes_confirms_in_any_order)
{
        begin(6);
        expect_answer(3, false, "3 ");
        expect_answer(1, false, "1 ");
        expect_answer(4, true, "2 4 ");
        expect_answer(6, false, "6 ");
        expect_answer(0, true, "5 ");
        cr_expect(rabbitmq_unconfirmed_count(&ring) == 0);
        add(1);
        expect_answer(7, false, "7 ");
        end();
}

Test(rabbitmq_unconfirmed, knows_which_tags_it_waits_for)
{
        begin(3);
        cr_expect(answer(2, false));
        cr_expect_not(answer(2, false));
        cr_expect_not(answer(4, false));
        cr_expect_not(answer(4, true));
        cr_expect_not(answer(0, false));
        cr_expect_not(answer(UINT64_MAX, true));
        expect_answer(3, true, "1 3 ");
        cr_expect_not(answer(3, true));
        cr_expect_not(answer(0, true));
        end();
}

Test(rabbitmq_unconfirmed, remembers_what_came_back_until_it_is_confirmed)
{
        begin(4);
        rabbitmq_unconfirmed_return(&ring, (struct amqp_span){"id-3", 4});
        rabbitmq_unconfirmed_return(&ring, (struct amqp_span){"id-", 3});
        rabbitmq_unconfirmed_return(&ring, (struct amqp_span){"", 0});
        expect_answer(4, true, "1 2 3r 4 ");
        end();
}

/* What was given up is not answered, but its confirm is not refused either. */
Test(rabbitmq_unconfirmed, gives_up_the_oldest)
{
        begin(5);
        cr_expect(answer(2, false));
        cr_expect(rabbitmq_unconfirmed_oldest_ms(&ring) == 1);
        cr_expect(rabbitmq_unconfirmed_take(&ring, 3) == &attempts[1]);
        cr_expect(rabbitmq_unconfirmed_take(&ring, 3) == &attempts[3]);
        cr_expect(rabbitmq_unconfirmed_take(&ring, 3) == NULL);
        cr_expect(ring.n_attempts == 2);
        cr_expect(rabbitmq_unconfirmed_count(&ring) == 5);
        rabbitmq_unconfirmed_return(&ring, (struct amqp_span){"id-3", 4});
        expect_answer(3, false, "");
        expect_answer(5, true, "4 5 ");
        cr_expect(rabbitmq_unconfirmed_take(&ring, UINT64_MAX) == NULL);
        end();
}

Test(rabbitmq_unconfirmed, grows_from_any_place)
{
        begin(200);
        cr_expect(answer(150, true));
        add(700);
        cr_expect(rabbitmq_unconfirmed_count(&ring) == 750);
        expect_answer(153, true, "151 152 153 ");
        expect_answer(900, false, "900 ");
        end();
}
