/* `pgcourier dead redrive` and `drop`: exactly those that were meant, each once, unchanged. */
#include "base/alloc.h"
#include "failures_rig.h"
#include "support/terminal.h"

#include <stdio.h>
#include <stdlib.h>

static struct failures_rig rig;

static void start(void)
{
        failures_rig_start(&rig);
}

static void stop(void)
{
        failures_rig_stop(&rig);
}

TestSuite(dead_redrive, .init = start, .fini = stop);

#define DEAD(...) program_run(NULL, "dead", __VA_ARGS__, "--dsn", rig.dsn, NULL)

#define REDRIVEN "; waiting events of the same key are delivered first\n"

static int64_t count(const char *from)
{
        char *sql = xasprintf("SELECT count(*) FROM courier.%s", from);
        int64_t n = database_integer(rig.owner, sql);

        free(sql);
        return n;
}

static void insert_many(int n)
{
        char *sql =
            xasprintf("INSERT INTO courier.dead_letter"
                      " (sink, lane, outbox_id, reason, attempts, error, event_id, topic, payload, "
                      "created_at)"
                      "SELECT 'mail', 0, i, 'age', 1, 'no', gen_random_uuid(), 't', '{}', now()"
                      " FROM generate_series(1, %d) AS i",
                n);

        database_exec(rig.owner, sql);
        free(sql);
}

/* The relay removes what is parked for a receiver that is gone: the event would be lost. */
Test(dead_redrive, keeps_what_its_removed_receiver_cannot_take)
{
        struct program_run run;

        insert_receiver(&rig, 3, "web", "acme");
        insert_dead_letter(&rig, "sink = 'web', lane = 4");
        insert_dead_letter(&rig, "sink = 'web', lane = 3");
        insert_dead_letter(&rig, "sink = 'mail', lane = 3");
        run = DEAD("redrive", "--all", "--yes");
        cr_expect_eq(run.code, 8);
        cr_expect_str_eq(run.out, "1 dead letter redriven" REDRIVEN);
        cr_expect_not_null(
            strstr(run.err, "kept, because their receiver was removed: 1, 3; they"), "%s", run.err);
        program_run_free(&run);
        cr_expect_eq(count("dead_letter"), 2);
        cr_expect_eq(count("parked WHERE sink = 'web' AND lane = 3"), 1);
        cr_expect_eq(count("parked"), 1);
}

Test(dead_redrive, parks_the_same_event_as_new)
{
        PGconn *listener = listen_to_control(&rig);

        insert_receiver(&rig, 3, "web", "acme");
        insert_dead_letter(&rig,
            "sink = 'web', lane = 3, outbox_id = 41, attempts = 7, reason = 'age',"
            " error = 'second', first_error = 'first', died_at = '2026-01-02 00:00+00',"
            " first_failed_at = '2026-01-01 00:00+00',"
            " event_id = '00000000-0000-0000-0000-000000000001', topic = 'o', key = '17',"
            " type = 'y', payload = E'{\"b\": 1.50,\\r\\n\\t\"b\":  2}', headers = '{\"h\": "
            "\"1\"}',"
            " created_at = '2025-12-31 00:00+00', source = 5, source_key = 'row 7'");
        insert_dead_letter(&rig, "payload = NULL, data = '\\x00ff0a', error = 'only'");
        expect_output(DEAD("redrive", "1", "2"), "2 dead letters redriven" REDRIVEN);
        cr_expect_eq(count("dead_letter"), 0);
        cr_expect_eq(count("parked WHERE sink = 'web' AND lane = 3 AND outbox_id = 41"
                           " AND state = 'delayed' AND due_at BETWEEN now() - interval '1 min' AND"
                           " now() AND attempts = 0 AND retried_for = '0' AND is_redriven"
                           " AND NOT skip AND first_error = 'first' AND last_error = 'second'"
                           " AND first_failed_at = '2026-01-01 00:00+00'"
                           " AND last_failed_at = '2026-01-02 00:00+00'"
                           " AND event_id = '00000000-0000-0000-0000-000000000001'"
                           " AND topic = 'o' AND key = '17' AND type = 'y' AND data IS NULL"
                           " AND payload::text = E'{\"b\": 1.50,\\r\\n\\t\"b\":  2}'"
                           " AND headers = '{\"h\": \"1\"}'"
                           " AND source = 5 AND source_key = 'row 7'"
                           " AND created_at = '2025-12-31 00:00+00'"),
            1);
        cr_expect_eq(count("parked WHERE data = '\\x00ff0a' AND payload IS NULL"
                           " AND first_error = 'only' AND last_error = 'only'"),
            1);
        cr_expect_geq(count_notifications(listener), 1);
        PQfinish(listener);
}

Test(dead_redrive, keeps_the_order_in_which_they_died)
{
        char *order;

        insert_dead_letter(&rig, "outbox_id = 30");
        insert_dead_letter(&rig, "outbox_id = 20");
        insert_dead_letter(&rig, "outbox_id = 10");
        expect_output(DEAD("redrive", "3", "1", "2"), "3 dead letters redriven" REDRIVEN);
        order = database_value(rig.owner, "SELECT string_agg(outbox_id::text, ' ' ORDER BY due_at, "
                                          "position) FROM courier.parked");
        cr_expect_str_eq(order, "30 20 10");
        free(order);
}

Test(dead_redrive, keeps_a_dead_letter_whose_event_is_parked_already)
{
        struct program_run run;

        insert_dead_letter(&rig, "outbox_id = 41");
        insert_dead_letter(&rig, NULL);
        insert_parked(&rig, "outbox_id = 41, last_error = 'own'");
        run = DEAD("redrive", "--all", "--yes");
        cr_expect_eq(run.code, 75);
        cr_expect_str_eq(run.out, "1 dead letter redriven" REDRIVEN);
        cr_expect_not_null(strstr(run.err, "kept, because that event is still parked for that "
                                           "sink: 1; redrive"),
            "%s", run.err);
        program_run_free(&run);
        cr_expect_eq(count("dead_letter WHERE id = 1"), 1);
        cr_expect_eq(count("parked WHERE outbox_id = 41 AND last_error = 'own'"), 1);
        cr_expect_eq(count("parked"), 2);
}

Test(dead_redrive, moves_one_of_two_dead_letters_of_a_delivery)
{
        struct program_run run;

        insert_dead_letter(&rig, "outbox_id = 41, error = 'first'");
        insert_dead_letter(&rig, "outbox_id = 41, error = 'second'");
        run = DEAD("redrive", "--all", "--yes");
        cr_expect_eq(run.code, 75);
        program_run_free(&run);
        cr_expect_eq(count("dead_letter WHERE error = 'second'"), 1);
        cr_expect_eq(count("parked WHERE last_error = 'first'"), 1);
        cr_expect_eq(count("dead_letter") + count("parked"), 2);
}

Test(dead_redrive, takes_those_that_the_filters_let_through)
{
        insert_dead_letter(&rig, "sink = 'web', key = '17'");
        insert_dead_letter(&rig, "sink = 'web', key = '18'");
        insert_dead_letter(&rig, "sink = 'log', key = '17'");
        expect_output(DEAD("redrive", "--sink", "web", "--key", "17", "-y"),
            "1 dead letter redriven" REDRIVEN);
        cr_expect_eq(count("dead_letter WHERE id IN (2, 3)"), 2);
        expect_output(
            DEAD("redrive", "--all", "--yes", "--limit", "1"), "1 dead letter redriven" REDRIVEN);
        cr_expect_eq(count("dead_letter WHERE id = 3"), 1);
        expect_output(DEAD("redrive", "--all", "--yes", "--json"),
            "{\"matched\":1,\"redriven\":1,\"dry_run\":false}\n");
        expect_output(DEAD("redrive", "--all", "--yes", "--json"),
            "{\"matched\":0,\"redriven\":0,\"dry_run\":false}\n");
}

Test(dead_redrive, says_which_ids_do_not_exist)
{
        struct program_run run;

        insert_dead_letter(&rig, NULL);
        run = DEAD("redrive", "9", "1", "8");
        cr_expect_eq(run.code, 8);
        cr_expect_str_eq(run.out, "1 dead letter redriven" REDRIVEN);
        cr_expect_str_eq(run.err, "pgcourier: no dead letter has the ID 8, 9\n");
        program_run_free(&run);
        expect_refusal(DEAD("drop", "1"), 8, "no dead letter has the ID 1\n");
        expect_refusal(
            DEAD("drop", "--sink", "x", "--yes", "--fail-empty"), 8, "no dead letter matches\n");
        expect_refusal(
            DEAD("drop", "1", "--sink", "x"), 8, "no dead letter that the filters let through has");
}

Test(dead_redrive, a_dry_run_counts_and_changes_nothing)
{
        PGconn *listener = listen_to_control(&rig);

        insert_dead_letter(&rig, "sink = 'web'");
        insert_dead_letter(&rig, "sink = 'web'");
        insert_dead_letter(&rig, NULL);
        expect_output(
            DEAD("redrive", "--sink", "web", "--dry-run"), "2 dead letters would be redriven\n");
        expect_output(DEAD("drop", "--all", "--dry-run"), "3 dead letters would be dropped\n");
        expect_output(DEAD("drop", "3", "--dry-run", "--yes"), "1 dead letter would be dropped\n");
        expect_output(DEAD("drop", "--all", "--dry-run", "--json"),
            "{\"matched\":3,\"dropped\":0,\"dry_run\":true}\n");
        cr_expect_eq(count("dead_letter"), 3);
        cr_expect_eq(count("parked"), 0);
        cr_expect_eq(count_notifications(listener), 0);
        PQfinish(listener);
}

Test(dead_redrive, many_at_once_need_a_confirmation)
{
        insert_dead_letter(&rig, NULL);
        insert_dead_letter(&rig, NULL);
        expect_refusal(DEAD("redrive", "--all"), 2,
            "dead redrive: that would redrive 2 dead letters; add --yes, or --dry-run");
        expect_refusal(DEAD("drop", "--sink", "mail", "--limit", "1"), 2,
            "dead drop: that would drop 1 dead letter; add --yes");
        cr_expect_eq(count("dead_letter"), 2);
}

Test(dead_redrive, asks_at_a_terminal)
{
        static const char *const noes[] = {"n\n", "\n", "yesterday\n", "\x04"};
        struct program_run run;

        insert_dead_letter(&rig, NULL);
        insert_dead_letter(&rig, NULL);
        for (size_t i = 0; i < sizeof noes / sizeof *noes; i++) {
                run = terminal_run(
                    "[y/N] ", noes[i], "dead", "drop", "--all", "--dsn", rig.dsn, NULL);
                cr_expect_eq(run.code, 1, "%s", run.out);
                cr_expect_not_null(strstr(run.out, "drop 2 dead letters? [y/N] "), "%s", run.out);
                cr_expect_not_null(strstr(run.out, "nothing was changed"), "%s", run.out);
                cr_expect_eq(count("dead_letter"), 2);
                program_run_free(&run);
        }
        run = terminal_run(
            "? [y/N] ", "y\n", "dead", "drop", "--all", "--limit", "1", "--dsn", rig.dsn, NULL);
        cr_expect_eq(run.code, 0, "%s", run.out);
        cr_expect_eq(count("dead_letter"), 1);
        program_run_free(&run);
        run = terminal_run("? [y/N] ", "YES\n", "dead", "redrive", "--all", "--dsn", rig.dsn, NULL);
        cr_expect_eq(run.code, 0, "%s", run.out);
        cr_expect_eq(count("parked"), 1);
        program_run_free(&run);
}

Test(dead_redrive, drops_only_the_chosen_dead_letters)
{
        insert_dead_letter(&rig, NULL);
        insert_dead_letter(&rig, "sink = 'web'");
        insert_dead_letter(&rig, NULL);
        expect_output(DEAD("drop", "3"), "1 dead letter dropped\n");
        expect_output(DEAD("drop", "--sink", "web", "--yes"), "1 dead letter dropped\n");
        cr_expect_eq(count("dead_letter WHERE id = 1"), 1);
        cr_expect_eq(count("dead_letter"), 1);
        cr_expect_eq(count("parked"), 0);
}

Test(dead_redrive, goes_on_over_more_than_a_batch)
{
        insert_many(2500);
        expect_output(DEAD("redrive", "--all", "--yes", "--limit", "1200"),
            "1200 dead letters redriven" REDRIVEN);
        cr_expect_eq(count("parked WHERE outbox_id <= 1200"), 1200);
        expect_output(DEAD("drop", "--all", "--yes"), "1300 dead letters dropped\n");
        cr_expect_eq(count("dead_letter"), 0);
        cr_expect_eq(count("parked"), 1200);
}

/* While it works others take some of what it counted, and a relay gives up more. */
Test(dead_redrive, takes_no_dead_letter_written_after_it_began)
{
        struct process process;
        PGconn *holder;

        insert_many(1500);
        holder = database_connect(rig.dsn);
        database_exec(holder, "BEGIN; SELECT FROM courier.dead_letter WHERE id = 1 FOR UPDATE");
        process_start(&process,
            (const char *const[]){
                getenv("PGCOURIER"), "dead", "redrive", "--all", "--yes", "--dsn", rig.dsn, NULL},
            NULL, false);
        wait_until_locked_out(&rig, 1);
        database_exec(holder, "DELETE FROM courier.dead_letter WHERE id BETWEEN 2 AND 500");
        insert_many(100);
        database_exec(rig.owner,
            "UPDATE courier.dead_letter SET outbox_id = id, error = 'late' WHERE id > 1500");
        database_exec(holder, "COMMIT");
        cr_expect_eq(process_wait(&process, 60000), 0);
        cr_expect_eq(count("parked"), 1001);
        cr_expect_eq(count("dead_letter WHERE error = 'late'"), 100);
        cr_expect_eq(count("dead_letter"), 100);
        PQfinish(holder);
}

static int64_t number_in(const char *path)
{
        char *text = read_file(path);
        int64_t n = strtoll(text, NULL, 10);

        free(text);
        return n;
}

Test(dead_redrive, two_at_once_move_each_row_once)
{
        char *folder = temp_folder();
        PGconn *holder;
        struct process processes[2];
        char *outputs[2];

        insert_many(3000);
        holder = database_connect(rig.dsn);
        database_exec(
            holder, "BEGIN; SELECT FROM courier.dead_letter WHERE id IN (1, 1500) FOR UPDATE");
        for (int i = 0; i < 2; i++) {
                outputs[i] = xasprintf("%s/out%d", folder, i);
                process_start(&processes[i],
                    (const char *const[]){getenv("PGCOURIER"), "dead", "redrive", "--all", "--yes",
                        "--dsn", rig.dsn, NULL},
                    outputs[i], false);
        }
        wait_until_locked_out(&rig, 2);
        database_exec(holder, "COMMIT");
        for (int i = 0; i < 2; i++)
                cr_expect_eq(process_wait(&processes[i], 60000), 0);
        cr_expect_eq(number_in(outputs[0]) + number_in(outputs[1]), 3000);
        cr_expect_eq(count("dead_letter"), 0);
        cr_expect_eq(count("parked"), 3000);
        for (int i = 0; i < 2; i++)
                free(outputs[i]);
        PQfinish(holder);
        free(folder);
}
