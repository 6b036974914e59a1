/* What needs somebody's attention (src/admin/attention.h), out of a status document alone. */
#include "admin/attention.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "level sink: words [command]" of each finding, a line each. The text is a status document with '
 * for ". */
static const char *find(const char *text)
{
        static char lines[4096];
        char *document = strdup(text);
        json_error_t fault;
        json_t *status, *findings, *finding;
        size_t i;

        for (char *at = document; *at != '\0'; at++)
                if (*at == '\'')
                        *at = '"';
        status = json_loads(document, 0, &fault);
        cr_assert_not_null(status, "%s in %s", fault.text, document);
        findings = attention_find(status);
        lines[0] = '\0';
        json_array_foreach(findings, i, finding)
        {
                const char *sink = json_string_value(json_object_get(finding, "sink"));
                const char *command = json_string_value(json_object_get(finding, "command"));

                snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s %s: %s [%s]\n",
                    json_string_value(json_object_get(finding, "level")), sink != NULL ? sink : "-",
                    json_string_value(json_object_get(finding, "words")),
                    command != NULL ? command : "-");
        }
        json_decref(findings);
        json_decref(status);
        free(document);
        return lines;
}

#define BACKLOG(events, age)                                                                       \
        "'backlog': {'events': " events ", 'is_exact': true, 'oldest_age': " age "}"

Test(attention, has_nothing_to_say_when_all_is_well)
{
        cr_expect_str_empty(find("{}"));
        cr_expect_str_empty(
            find("{'source': {'up': true, 'notify_queue_usage': 0.01, 'oldest_xmin':"
                 " {'age_xids': 7, 'age': 2.5, 'pid': 9, 'what': 'active'}}, 'config': "
                 "{'last_reload_ok':"
                 " true}, 'sinks': [{'name': 'a', 'state': 'running', " BACKLOG(
                     "3", "0.2") ","
                                 " 'pauses': [], 'dead': 0, 'retrying': 0, 'endpoints': null}, "
                                 "{'name': 'b', 'state':"
                                 " 'standby'}], 'blocked_keys': [], 'orphans': []}"));
}

Test(attention, says_why_a_sink_stands_still_and_what_helps)
{
        cr_expect_str_eq(find("{'config': {'file': '/etc/p.yaml'}, 'sinks': [{'name': 'a', 'state':"
                              " 'unowned', " BACKLOG("1", "65") "}]}"),
            "error a: no relay runs it: 1 event waits, the oldest for 1 min 5 s"
            " [pgcourier run -c /etc/p.yaml]\n");
        cr_expect_str_eq(
            find("{'sinks': [{'name': 'a', 'state': 'paused', 'state_since': null, " BACKLOG(
                "0", "0") ", 'pauses': [{'by': 'operator', 'reason': 'tea', 'since': 'noon'}]}]}"),
            "warning a: paused by an operator since noon: tea; nothing waits"
            " [pgcourier resume a]\n");
        cr_expect_str_eq(find("{'sinks': [{'name': 'a', 'state': 'refused', 'state_reason':"
                              " 'HTTP 401', " BACKLOG("20", "9000") "}]}"),
            "error a: its destination refuses us until somebody changes its settings or ours: HTTP "
            "401; 20 events wait, the oldest for 2 h 30 min [pgcourier resume a]\n");
        cr_expect_str_eq(find("{'sinks': [{'name': 'a', 'state': 'down', 'state_reason': null,"
                              " 'last_error': {'words': 'refused'}, " BACKLOG("20", "1") "}]}"),
            "error a: its destination is down: refused; 20 events wait, the oldest for 1.0 s; it "
            "goes "
            "on by itself when the destination is back [pgcourier check -c FILE --connect]\n");
        cr_expect_str_eq(
            find("{'sinks': [{'name': 'a', 'state': 'stalled', " BACKLOG("2", "200000") "}]}"),
            "error a: nothing gets delivered although nobody paused it: 2 events wait, the oldest "
            "for 2 d 7 h [pgcourier check -c FILE --connect]\n");
        cr_expect_str_eq(
            find("{'sinks': [{'name': 'a', 'state': 'running', 'backlog': {'events': 9, 'is_exact':"
                 " false, 'oldest_age': 300}}]}"),
            "warning a: it is behind: about 9 events wait, the oldest for 5 min 0 s [-]\n");
        cr_expect_str_eq(find("{'sinks': [{'name': 'a', 'state': 'unowned', 'blocked': 2, " BACKLOG(
                             "1", "10") "}]}"),
            "error a: no relay runs it: 1 event and 2 parked deliveries wait, the oldest for 10 s"
            " [pgcourier run -c FILE]\n");
}

/* A pause does not hide that nobody is there to obey it. */
Test(attention, names_both_when_a_paused_sink_has_no_relay)
{
        cr_expect_str_eq(
            find("{'sinks': [{'name': 'a', 'state': 'unowned', 'pauses': [{'by': 'relay', 'reason':"
                 " 'no', 'since': 'noon'}]}]}"),
            "error a: no relay runs it: its events wait [pgcourier run -c FILE]\n"
            "error a: its destination refuses us until somebody changes its settings or ours: no; "
            "its events wait [pgcourier resume a]\n");
}

Test(attention, tells_what_was_given_up_and_what_waits_for_another_attempt)
{
        cr_expect_str_eq(find("{'sinks': [{'name': 'a', 'state': 'running', 'dead': 1, 'retrying':"
                              " 2, 'next_retry_at': 'T', 'counts_are_exact': false,"
                              " 'endpoints': {'total': 5, 'failing': 2, 'disabled': 1}}]}"),
            "warning a: of its 5 endpoints 2 fail and 1 are disabled [pgcourier endpoint list "
            "--sink "
            "a]\n"
            "warning a: at least 1 dead letter: given up, kept until somebody redrives or drops "
            "them"
            " [pgcourier dead list --sink a]\n"
            "note a: at least 2 deliveries failed and will be tried again, next at T"
            " [pgcourier parked list --sink a]\n");
        cr_expect_str_eq(find("{'blocked_keys': [{'sink': 'a', 'key': 'k', 'waiting': 3, "
                              "'behind_id': 17, 'since':"
                              " 'S', 'next_retry_at': 'N', 'error': 'HTTP 500'},"
                              " {'sink': 'a', 'key': 'l', 'waiting': 1, 'behind_id': null}]}"),
            "warning a: key \"k\": 3 events wait behind 17, which fails since S: HTTP 500; tried "
            "again"
            " at N, and given up by this command [pgcourier parked skip --sink a 17]\n");
}

/* Cut between two bytes of a letter it would be no JSON, and no finding. */
Test(attention, cuts_long_words_between_letters)
{
        cr_expect_not_null(
            strstr(find("{'blocked_keys': [{'sink': 'a', 'waiting': 1, 'behind_id': 2, 'key':"
                        " 'xääääääääääääääääääääääääääääääääääääääääääääääääää'}]}"),
                "key \"xäääääääääääääääääääääääääääääää\":"));
}

Test(attention, tells_what_ails_the_server)
{
        cr_expect_str_eq(
            find("{'source': {'up': false, 'error': 'no route', 'notify_queue_usage': 0.5}}"),
            "error -: PostgreSQL is not reachable: no route; events wait in the outbox [pgcourier "
            "doctor -c FILE]\n"
            "error -: the server's notification queue is 50 % full, because a session listens and "
            "does not end its transaction; when it is full, publishing fails [pgcourier doctor -c "
            "FILE]\n");
        cr_expect_str_eq(find("{'source': {'oldest_xmin': {'age_xids': 12, 'age': 300, 'pid': 77,"
                              " 'what': 'idle in transaction, user app'}}}"),
            "warning -: a snapshot has been held for 5 min 0 s and 12 transactions by pid 77, idle "
            "in "
            "transaction, user app: until it ends vacuum removes no dead rows, and everything here "
            "gets slower [psql -c 'SELECT pg_terminate_backend(77)']\n");
        cr_expect_str_eq(find("{'source': {'oldest_xmin': {'age_xids': 100000, 'age': null, 'pid':"
                              " null, 'what': 'replication slot s'}}}"),
            "warning -: a snapshot has been held for 100000 transactions by replication slot s: "
            "until it ends vacuum removes no dead rows, and everything here gets slower [-]\n");
        cr_expect_str_eq(find("{'orphans': [{'sink': 'old', 'lanes': 1, 'behind': 40, 'settled_at':"
                              " 'May'}]}"),
            "warning old: no relay's configuration has this sink, but its cursor is here, 40 ids "
            "behind, unmoved since May: the outbox keeps all events for it [pgcourier cursor drop "
            "old]\n");
        cr_expect_str_eq(
            find("{'config': {'file': 'f', 'last_reload_ok': false, 'last_reload_error': 'typo'}}"),
            "warning -: the last reload failed, the configuration before it stays in force: typo"
            " [pgcourier check -c f]\n");
}

Test(attention, tells_who_keeps_the_outbox_from_being_cut)
{
        cr_expect_str_empty(find("{'source': {'retention': {'held_partitions': 1, 'held_bytes': 9,"
                                 " 'held_for': 299, 'held_by': ['a'], 'holders': 1,"
                                 " 'lost_events': 0, 'default_bytes': 0}}}"));
        cr_expect_str_eq(
            find("{'source': {'retention': {'held_partitions': 1, 'held_bytes': 2500000,"
                 " 'held_for': 7200, 'held_by': ['a', 'hooks/7'], 'holders': 12}}}"),
            "warning -: 1 partition of the outbox, 2.5 MB, should have gone 2 h 0 min ago, but is "
            "still needed by a, hooks/7 and 10 more: the outbox grows meanwhile"
            " [pgcourier doctor -c FILE]\n");
        cr_expect_not_null(
            strstr(find("{'source': {'retention': {'held_partitions': 2, 'held_for': 300,"
                        " 'held_by': ['a', 'old'], 'holders': 2}}, 'orphans': [{'sink': 'old'}]}"),
                " are still needed by a, old: the outbox grows meanwhile"
                " [pgcourier cursor drop old]\n"));
        cr_expect_str_eq(
            find("{'source': {'retention': {'lost_events': 1, 'default_bytes': 8192}}}"),
            "error -: outbox.retention_max dropped 1 event in the last day before a sink had it"
            " [psql -c 'SELECT * FROM courier.outbox_loss ORDER BY lost_at']\n"
            "warning -: events are in the default partition of the outbox, because no other was "
            "made in time: publishers will have to wait while that is put right"
            " [pgcourier maintain -c FILE]\n");
}

Test(attention, counts_what_somebody_should_do_something_about)
{
        json_t *findings = json_pack(
            "[{s:s}, {s:s}, {s:s}]", "level", "error", "level", "warning", "level", "note");

        cr_expect_eq(attention_count(findings), 2);
        json_decref(findings);
}
