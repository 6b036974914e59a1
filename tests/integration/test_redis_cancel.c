/* The redis sink: cancelled and closed in every state. */
#include "redis_rig.h"

#include "sinks/sink.h"

#include <criterion/criterion.h>

Test(redis_cancel, cancels_what_waits_for_a_connection)
{
        struct redis_server server;
        struct rig rig;

        redis_server_start(&server, NULL);
        rig_init(&rig, &server, 11);
        rig_open(&rig);
        redis_server_pause(&server);
        rig_deliver(&rig, 10);
        sink_cancel(rig.sink);
        cr_expect(rig.n_finished == 0, "finished from inside cancel()");
        rig_run_until_finished(&rig, 10);
        redis_server_resume(&server);
        rig_deliver_all(&rig, 1);

        cr_expect(rig_count(&rig, OUTCOME_CANCELLED) == 10);
        expect_outcome(&rig.deliveries[10], OUTCOME_DELIVERED, "");
        cr_expect(redis_server_count(&server, "XLEN events") == 1);
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

Test(redis_cancel, cancels_what_is_in_flight_and_stays_usable)
{
        struct redis_server server;
        struct rig rig;

        redis_server_start(&server, NULL);
        rig_init(&rig, &server, 12);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        redis_server_pause(&server);
        rig_deliver(&rig, 10);
        sink_cancel(rig.sink);
        rig_run_until_finished(&rig, 11);
        redis_server_resume(&server);
        rig_deliver_all(&rig, 1);

        cr_expect(rig_count(&rig, OUTCOME_CANCELLED) == 10);
        expect_outcome(&rig.deliveries[11], OUTCOME_DELIVERED, "");
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

Test(redis_cancel, allows_cancelling_while_an_attempt_finishes)
{
        struct redis_server server;
        struct rig rig;

        redis_server_start(&server, NULL);
        rig_init(&rig, &server, 101);
        rig_open(&rig);
        rig.cancels_on_finish = true;
        rig_deliver_all(&rig, 100);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig.deliveries[0], OUTCOME_DELIVERED, "");
        cr_expect(rig_count(&rig, OUTCOME_CANCELLED) == 99);
        expect_outcome(&rig.deliveries[100], OUTCOME_DELIVERED, "");
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

static void close_on_finished(struct attempt *attempt, const struct outcome *outcome)
{
        struct delivery *delivery = (struct delivery *)attempt;

        delivery->outcome = *outcome;
        sink_close(delivery->rig->sink, rig_on_closed, delivery->rig);
}

/* What the last attempt came to; the sink is closed inside its finish. */
static struct outcome close_inside_finish(const struct redis_server *server)
{
        struct rig rig;
        struct outcome outcome;

        rig_init(&rig, server, 1);
        rig.deliveries[0].attempt.on_finished = close_on_finished;
        rig_open(&rig);
        rig_deliver(&rig, 1);
        while (!rig.is_closed)
                uv_run(&rig.loop, UV_RUN_ONCE);
        outcome = rig.deliveries[0].outcome;
        rig_destroy(&rig);
        return outcome;
}

Test(redis_cancel, allows_closing_while_the_last_attempt_finishes)
{
        struct redis_server server;

        redis_server_start(&server, NULL);
        cr_expect(close_inside_finish(&server).kind == OUTCOME_DELIVERED);
        redis_server_stop(&server);
        cr_expect(close_inside_finish(&server).kind == OUTCOME_SINK_DOWN);
        redis_server_destroy(&server);
}

Test(redis_cancel, closes_without_ever_having_connected_and_while_it_connects)
{
        struct redis_server server;
        struct rig never;
        struct rig connecting;

        redis_server_start(&server, NULL);
        rig_init(&never, &server, 1);
        rig_open(&never);
        rig_destroy(&never);
        rig_init(&connecting, &server, 1);
        rig_open(&connecting);
        rig_deliver(&connecting, 1);
        sink_cancel(connecting.sink);
        rig_run_until_finished(&connecting, 1);
        rig_destroy(&connecting);
        redis_server_destroy(&server);
}
