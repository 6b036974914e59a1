/* The whole program with a call of libpq or of the system failing. */
#include "torture/rig.h"

#include <criterion/criterion.h>

TORTURE(calls, libpq_fails, RUN_UNTIL_THERE, "libpq", "")
TORTURE(calls, receiving_finds_a_reset, RUN_UNTIL_THERE, "receive-reset", "")
TORTURE(calls, receiving_goes_byte_by_byte, RUN_UNTIL_THERE, "receive-less", "+")
TORTURE(calls, sending_finds_a_broken_pipe, RUN_UNTIL_THERE, "send-pipe", "")
TORTURE(calls, sending_goes_byte_by_byte, RUN_UNTIL_THERE, "send-less", "+")
TORTURE(calls, sending_finds_a_full_socket, RUN_UNTIL_THERE, "send-again", "")
TORTURE(calls, connecting_is_refused, RUN_UNTIL_THERE, "connect-refused", "")
TORTURE(calls, connecting_finds_a_full_queue, RUN_UNTIL_THERE, "connect-again", "")
TORTURE(calls, a_socket_cannot_be_watched, RUN_UNTIL_THERE, "watch-memory", "")
TORTURE(calls, descriptors_are_out, RUN_UNTIL_THERE, "descriptor-limit", "")
TORTURE(calls, the_disk_is_full, RUN_UNTIL_THERE, "write-full", "")

Test(calls, end_with_75_when_no_thread_can_be_started)
{
        struct torture_rig rig;

        torture_rig_begin(&rig);
        cr_expect_eq(torture_rig_round(&rig, RUN_ONCE, "thread-limit:1+"), 75);
        cr_expect_eq(torture_rig_round(&rig, RUN_ONCE, "thread-limit:3+"), 75);
        torture_rig_judge(&rig);
        torture_rig_end(&rig);
}

/* From fewer than a loop needs up to more than all connections need. */
Test(calls, work_or_fail_cleanly_with_any_number_of_descriptors)
{
        struct torture_rig rig;

        torture_rig_begin(&rig);
        for (rig.n_files = 6; rig.n_files < 30; rig.n_files += rig.n_files < 14 ? 4 : 2)
                torture_rig_round(&rig, RUN_SHORTLY, NULL);
        rig.n_files = 0;
        torture_rig_judge(&rig);
        torture_rig_end(&rig);
}
