/* Which attempts share a pack, and that the log has a bound. */
#include "outbox/attempt_log.h"

#include <criterion/criterion.h>
#include <string.h>

static struct attempt_log *log_;
static struct attempt_pack *open_;
static const char *values[N_PACK_COLUMNS];

static struct attempt_record a_record(int64_t id)
{
        return (struct attempt_record){.sink = "hooks",
            .lane = 7,
            .outbox_id = id,
            .number = 1,
            .began_us = 1000000 + id,
            .took_us = 250,
            .keep_ms = 86400000,
            .outcome = "retry",
            .status = 500,
            .answer = "busy"};
}

static void add(struct attempt_record record)
{
        cr_assert(attempt_log_add(log_, &open_, &record));
}

static void begin(void)
{
        log_ = attempt_log_create();
        open_ = NULL;
}

static void end(void)
{
        attempt_log_destroy(log_);
}

TestSuite(attempt_log, .init = begin, .fini = end);

Test(attempt_log, packs_attempts_that_ended_alike)
{
        add(a_record(2));
        add(a_record(1));
        add(a_record(3));
        attempt_log_take(log_, values);
        cr_expect_str_eq(values[PACK_LANE], "{7}");
        cr_expect_str_eq(values[PACK_FIRST_ID], "{1}");
        cr_expect_str_eq(values[PACK_LAST_ID], "{3}");
        cr_expect_str_eq(values[PACK_IDS], "{\"{2,1,3}\"}");
        cr_expect_str_eq(values[PACK_AFTER_US], "{\"{0,-1,1}\"}");
        cr_expect_str_eq(values[PACK_TOOK_US], "{\"{250,250,250}\"}");
}

/* Who reads them asks for a receiver, or for 0. */
Test(attempt_log, does_not_tell_the_shards_of_a_sink_apart)
{
        struct attempt_record record = a_record(1);

        record.lane = -3;
        add(record);
        attempt_log_take(log_, values);
        cr_expect_str_eq(values[PACK_LANE], "{0}");
}

Test(attempt_log, begins_a_pack_for_whatever_ended_otherwise)
{
        struct attempt_record record = a_record(1);

        add(record);
        record.outcome = "sink_down";
        add(record);
        record.status = 503;
        add(record);
        record.answer = "later";
        add(record);
        record.number = 2;
        add(record);
        attempt_log_take(log_, values);
        cr_expect_str_eq(values[PACK_OUTCOME],
            "{\"retry\",\"sink_down\",\"sink_down\",\"sink_down\",\"sink_down\"}");
        cr_expect_str_eq(values[PACK_IDS], "{\"{1}\",\"{1}\",\"{1}\",\"{1}\",\"{1}\"}");
}

/* courier.trace() looks no further than this behind the last id of a pack. */
Test(attempt_log, keeps_the_ids_of_a_pack_close_together)
{
        add(a_record(20000));
        add(a_record(29999));
        add(a_record(30000));
        add(a_record(20001));
        add(a_record(20000));
        attempt_log_take(log_, values);
        cr_expect_str_eq(values[PACK_FIRST_ID], "{20000,20001,20000}");
        cr_expect_str_eq(values[PACK_LAST_ID], "{29999,30000,20000}");
}

Test(attempt_log, takes_no_more_than_its_bound_until_it_is_written)
{
        struct attempt_record record = a_record(1);
        int n = 0;

        while (n < 1000000 && attempt_log_add(log_, &open_, &record))
                n++;
        cr_expect_eq(n, 20000);
        cr_expect(attempt_log_is_full(log_));
        attempt_log_take(log_, values);
        attempt_log_clear(log_);
        cr_expect_null(open_);
        cr_expect_not(attempt_log_is_full(log_));
        add(record);
}

/* A lane that goes leaves its pack to be written; the next lane does not write into it. */
Test(attempt_log, outlives_the_lanes)
{
        add(a_record(1));
        attempt_log_leave(&open_);
        cr_expect_null(open_);
        add(a_record(2));
        attempt_log_take(log_, values);
        cr_expect_str_eq(values[PACK_IDS], "{\"{1}\",\"{2}\"}");
}
