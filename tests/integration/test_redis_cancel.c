/* The redis sink: cancelled and closed in every state. */
#include "redis_rig.h"

#include "sinks/sink_contract.h"

#include <criterion/criterion.h>

Test(redis_cancel, cancels_attempts_that_wait_for_a_connection)
{
        struct rig rig;

        rig_start(&rig, 11);
        rig_open(&rig);
        redis_server_pause(&rig.server);
        rig_deliver(&rig, 10);
        sink_cancel(rig.driver.sink);
        cr_expect(rig.driver.n_finished == 0, "finished from inside cancel()");
        sink_driver_finish(&rig.driver);
        redis_server_resume(&rig.server);
        rig_deliver_all(&rig, 1);

        cr_expect(rig_count(&rig, OUTCOME_CANCELLED) == 10);
        expect_outcome(&rig, 10, OUTCOME_DELIVERED, "");
        cr_expect(redis_server_count(&rig.server, "XLEN events") == 1);
        rig_stop(&rig);
}

Test(redis_cancel, cancels_attempts_in_flight_and_stays_usable)
{
        struct rig rig;

        rig_start(&rig, 12);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        redis_server_pause(&rig.server);
        rig_deliver(&rig, 10);
        sink_cancel(rig.driver.sink);
        sink_driver_finish(&rig.driver);
        redis_server_resume(&rig.server);
        rig_deliver_all(&rig, 1);

        cr_expect(rig_count(&rig, OUTCOME_CANCELLED) == 10);
        expect_outcome(&rig, 11, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

static void cancel_once(struct sink_driver *driver)
{
        driver->on_finished = NULL;
        sink_cancel(driver->sink);
}

Test(redis_cancel, allows_cancelling_while_an_attempt_finishes)
{
        struct rig rig;

        rig_start(&rig, 101);
        rig_open(&rig);
        rig.driver.on_finished = cancel_once;
        rig_deliver_all(&rig, 100);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        cr_expect(rig_count(&rig, OUTCOME_CANCELLED) == 99);
        expect_outcome(&rig, 100, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

/* What the last attempt came to; the sink is closed inside its finish. */
static struct outcome close_inside_finish(const struct redis_server *server)
{
        struct rig rig;
        struct outcome outcome;

        rig_init(&rig, server, 1);
        rig_open(&rig);
        rig.driver.on_finished = sink_driver_start_close;
        outcome = sink_driver_deliver(&rig.driver, &rig.events[0]);
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
        sink_cancel(connecting.driver.sink);
        sink_driver_finish(&connecting.driver);
        rig_destroy(&connecting);
        redis_server_destroy(&server);
}
