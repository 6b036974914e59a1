/* What needs an operator's attention (src/admin/findings/findings.h), out of a status document
 * alone. */
#include "admin/findings/findings.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text is a status document with ' for ". */
static json_t *parse(const char *text)
{
        char *document = strdup(text);
        json_error_t fault;
        json_t *status;

        for (char *at = document; *at != '\0'; at++)
                if (*at == '\'')
                        *at = '"';
        status = json_loads(document, 0, &fault);
        cr_assert_not_null(status, "%s in %s", fault.text, document);
        free(document);
        return status;
}

static const char *text_of(const json_t *finding, const char *name)
{
        const char *text = json_string_value(json_object_get(finding, name));

        return text != NULL ? text : "-";
}

/* Of each finding "level id lasts: title | why | remedy | command | action", a line each. */
static const char *find(const char *text)
{
        static char lines[8192];
        json_t *status = parse(text);
        json_t *findings = findings_find(status);
        const json_t *finding;
        size_t i;

        lines[0] = '\0';
        json_array_foreach(findings, i, finding)
        {
                const json_t *lasts = json_object_get(finding, "lasts");
                const json_t *action = json_object_get(finding, "action");
                size_t length = strlen(lines);

                snprintf(lines + length, sizeof lines - length,
                    "%s %s %.0f: %s | %s | %s | %s | %s\n", text_of(finding, "level"),
                    text_of(finding, "id"), json_is_number(lasts) ? json_number_value(lasts) : -1,
                    text_of(finding, "title"), text_of(finding, "why"), text_of(finding, "remedy"),
                    text_of(finding, "command"), text_of(action, "kind"));
        }
        json_decref(findings);
        json_decref(status);
        return lines;
}

/* The findings of this document have these parts, in that order; up to the NULL. */
static void expect(const char *text, ...) __attribute__((sentinel));
static void expect(const char *text, ...)
{
        const char *lines = find(text);
        const char *at = lines;
        const char *part;
        va_list parts;

        va_start(parts, text);
        while ((part = va_arg(parts, const char *)) != NULL && at != NULL) {
                at = strstr(at, part);
                cr_expect_not_null(at, "there is no \"%s\" (or not there) in\n%s", part, lines);
        }
        va_end(parts);
}

static void expect_lines(const char *text, unsigned n)
{
        const char *lines = find(text);
        unsigned n_found = 0;

        for (const char *at = lines; *at != '\0'; at++)
                n_found += *at == '\n';
        cr_expect_eq(n_found, n, "%u lines instead of %u:\n%s", n_found, n, lines);
}

#define NOW       "'now': '2026-11-21T08:10:00.500Z'"
#define FILE_PART "'config': {'file': '/etc/p.yaml', 'last_reload_ok': true}"
#define BACKLOG(events, age)                                                                       \
        "'backlog': {'events': " events ", 'is_exact': true, 'oldest_age': " age                   \
        ", 'overdue_age': " age "}"
#define SINK(members) "{" NOW ", " FILE_PART ", 'sinks': [{'name': 'a', " members "}]}"
#define SINCE         "'state_since': '2026-11-21T08:00:00.500Z'"

Test(attention, has_nothing_to_say_when_all_is_well)
{
        cr_expect_str_empty(find("{}"));
        cr_expect_str_empty(
            find("{'source': null, 'sinks': [{'name': 'a', 'state': 'starting', 'backlog': null}],"
                 " 'blocked_keys': null, 'orphans': null, 'config': null}"));
        cr_expect_str_empty(find(
            "{" NOW ", " FILE_PART ", 'ready': true, 'not_ready': [], 'look_error': null, 'source':"
            " {'up': true, 'notify_queue_usage': 0.049, 'oldest_xmin':"
            " {'age_xids': 100000, 'age': 299, 'pid': 9, 'what': 'active'}}, 'sinks': [{"
            "'name': 'a', 'state': 'running', " BACKLOG("3",
                "299") ", 'pauses': [], 'dead': "
                       "0, 'retrying': 0, 'receivers': {'total': 5, 'failing': 0, 'disabled': 0}}],"
                       " 'blocked_keys': [], 'orphans': []}"));
}

Test(attention, gives_each_finding_the_same_members)
{
        static const char *const members[] = {
            "id", "level", "sink", "title", "lasts", "why", "remedy", "command", "action"};
        json_t *status = parse("{'sinks': [{'name': 'a', 'state': 'running', " BACKLOG(
            "3", "300") "}, {'name': 'b', 'state': 'paused'}], 'source': {'up': false}}");
        json_t *findings = findings_find(status);
        const json_t *finding;
        size_t i;

        cr_expect_eq(json_array_size(findings), 3);
        json_array_foreach(findings, i, finding)
        {
                for (size_t j = 0; j < sizeof members / sizeof *members; j++)
                        cr_expect_not_null(json_object_get(finding, members[j]), "%s", members[j]);
                cr_expect_eq(json_object_size(finding), sizeof members / sizeof *members);
        }
        finding = json_object_get(json_array_get(findings, 2), "action");
        cr_expect_str_eq(text_of(finding, "kind"), "resume");
        cr_expect_str_eq(text_of(finding, "sink"), "b");
        json_decref(findings);
        json_decref(status);
}

Test(attention, says_why_a_sink_stands_still_since_when_and_what_helps)
{
        cr_expect_str_eq(
            find(SINK("'state': 'down', " SINCE ", 'state_reason': 'refused', 'last_error': "
                      "{'fault': 'refused'}, 'pauses': [], " BACKLOG("1500", "65"))),
            "error down:a 600: a is down | refused. 1,500 events wait, the oldest for 1 min 5 s. | "
            "Bring the destination back. The relay tries it every few seconds and then goes on by "
            "itself; nothing is lost and no attempt is counted. | pgcourier doctor -c /etc/p.yaml "
            "| -\n");
        expect(SINK("'state': 'down', 'state_reason': null, 'last_error': {'words': 'no route'}"),
            "down:a -1: a is down | no route. Its events wait. |", NULL);
        expect(SINK("'state': 'down', 'last_error': {'fault': 'redis', 'words': 'OOM'}"),
            "| It answers, but refuses events for the reason above: correct that. The relay",
            "| pgcourier doctor -c /etc/p.yaml |", NULL);
        expect(SINK("'state': 'down', 'last_error': {'fault': 'http_5xx', 'words': '503'}"),
            "| It refuses events for the reason above",
            "| pgcourier tail --sink a -c /etc/p.yaml |", NULL);
        expect(SINK("'state': 'refused', " SINCE
                    ", 'state_reason': 'HTTP 401', " BACKLOG("20", "9000")),
            "error refused:a 600: a refuses us | HTTP 401. 20 events wait, the oldest for 2 h 30 "
            "min. | ",
            "| pgcourier resume a -c /etc/p.yaml | resume", NULL);
        expect(SINK("'state': 'refused', 'state_reason': 'its filter takes too long: 400 ms'"),
            "a stands still | its filter takes too long: 400 ms.",
            "| Nothing is read for it any more. Change",
            "| pgcourier resume a -c /etc/p.yaml | resume", NULL);
        expect(SINK("'state': 'stalled', 'last_error': {'words': '500'}, " BACKLOG("2", "200000")),
            "error stalled:a -1: a stands still | Nothing was delivered although it is not paused. "
            "The last error: 500. 2 events wait, the oldest for 2 d 7 h. | See what the doctor",
            "| pgcourier doctor -c /etc/p.yaml | -", NULL);
        expect(SINK("'state': 'stalled', 'blocked': 2"), "Look at the keys", "| blocked\n", NULL);
        expect(SINK("'state': 'unowned', " BACKLOG("1", "3600")),
            "error unowned:a -1: No relay delivers a | 1 event waits, the oldest for 1 h. | Start "
            "a",
            "| pgcourier run -c /etc/p.yaml | -", NULL);
}

Test(attention, tells_who_paused_a_sink)
{
        expect(SINK("'state': 'paused', 'state_reason': 'tea', " SINCE ", " BACKLOG("0", "0")),
            "warning paused:a 600: a is paused | By an operator: tea. Nothing waits. | Resume it",
            "| pgcourier resume a -c /etc/p.yaml | resume", NULL);
        expect(SINK("'state': 'paused'"), "| By an operator, who gave no reason. Its", NULL);
        expect(SINK("'state': 'paused', " SINCE ", 'pauses': [{'by': 'operator', 'reason': 'tea',"
                    " 'since': '2026-11-21T08:10:00Z'}]"),
            "paused:a 0: a is paused | By an operator: tea.", NULL);
        expect(SINK("'state': 'paused', 'pauses': [{'by': 'operator'}, {'by': 'relay', 'reason':"
                    " 'no'}]"),
            "who gave no reason. The relay paused it, too: no.", NULL);
}

/* A pause does not hide that no relay is there to obey it. The relay that runs a sink knows better
 * than the last look at the database. */
Test(attention, names_the_pause_and_the_missing_relay_of_a_sink)
{
        expect(SINK("'state': 'unowned', 'pauses': [{'by': 'relay', 'reason': 'no', 'since':"
                    " '2026-11-21T08:09:50.500Z'}]"),
            "error unowned:a -1", "error refused:a 10: a refuses us | no. Its events wait.", NULL);
        cr_expect_str_empty(find(SINK("'state': 'running', 'pauses': [{'by': 'operator'}]")));
}

Test(attention, tells_how_far_a_sink_is_behind)
{
        expect(SINK("'state': 'running', 'rate': 100, 'backlog': {'events': 24500, 'is_exact':"
                    " false, 'oldest_age': 400, 'overdue_age': 300}"),
            "warning behind:a -1: a is behind | About 24,500 events wait, the oldest for 6 min 40 "
            "s. | "
            "At the present rate that is at least 4 min 5 s of work. | - | -",
            NULL);
        expect(SINK("'state': 'running', 'rate': 0, " BACKLOG("9", "300")), "5 min. |  | -", NULL);
        expect(SINK("'state': 'unowned', 'retrying': 1, 'unfinished': 1, 'blocked': 1, " BACKLOG(
                   "1", "10")),
            "| 1 event and 3 parked deliveries wait, the oldest for 10 s.", NULL);
}

Test(attention, counts_dead_letters_and_parked_events)
{
        const char *status =
            SINK("'state': 'running', 'dead': 1, 'retrying': 2, 'counts_are_exact': false,"
                 " 'next_retry_at': '2026-11-21T08:10:12.500Z', 'next_retry_id': 7,"
                 " 'next_retry_error': '503 Service Unavailable',"
                 " 'receivers': {'total': 5, 'failing': 2, 'disabled': 1}");

        expect_lines(status, 3);
        expect(status,
            "warning receivers:a -1: Receivers of a: 2 failing, 1 disabled | 2 others are served "
            "all the same. | The list",
            "| pgcourier receiver list --sink a -c /etc/p.yaml | -",
            "warning dead:a -1: At least 1 dead letter of a | Given up",
            "| pgcourier dead list --sink a -c /etc/p.yaml | dead",
            "note retrying:a -1: At least 2 deliveries of a failed | They are tried again, the "
            "next one, event 7, in 12 s. 503 Service Unavailable. Other keys go on. |",
            "| pgcourier parked list --sink a -c /etc/p.yaml | -", NULL);
        expect(SINK("'state': 'down', 'retrying': 1, 'next_retry_at': '2026-11-21T08:10:01.500Z',"
                    " 'next_retry_id': 12345678901, 'next_retry_error': '404'"),
            ": 1 delivery of a failed | Event 12345678901 is tried again in 1.0 s. 404. |",
            "| pgcourier trace 12345678901 -c /etc/p.yaml | -", NULL);
        expect(SINK("'state': 'running', 'retrying': 1, 'next_retry_id': 1"),
            "| Event 1 is tried again now. Other keys go on. |", NULL);
        expect(SINK("'state': 'running', 'dead': 2, 'counts_are_exact': true, 'receivers':"
                    " {'total': 1, 'failing': 0, 'disabled': 1}"),
            "Receivers of a: 1 disabled |", ": 2 dead letters of a |", NULL);
}

#define KEY(sink, key, waiting, behind)                                                            \
        "{'sink': '" sink "', 'key': '" key "', 'waiting': " waiting ", 'behind_id': " behind      \
        ", 'since': '2026-11-21T08:09:30.500Z', 'error': 'HTTP 500'}"

Test(attention, names_the_blocked_key_that_holds_up_most_events)
{
        const char *several = "{" NOW ", 'blocked_keys': [" KEY("a", "k", "3", "17") "," KEY(
            "b", "m", "1", "20") "," KEY("a", "l", "2000", "18") "]}";

        cr_expect_str_eq(find("{" NOW ", " FILE_PART ", 'blocked_keys': [" KEY(
                             "a", "k", "3", "17") "," KEY("a", "l", "9", "null") "]}"),
            "warning blocked:a 30: Key k of a is blocked | 3 events of key k wait behind event 17, "
            "which fails. HTTP 500. | It goes on when that event is delivered: remove the cause "
            "and try it at once, or skip it (it becomes a dead letter). | pgcourier parked retry "
            "--sink a 17 -c /etc/p.yaml | blocked\n");
        expect_lines(several, 2);
        expect(several,
            "blocked:a 30: 2 keys of a are blocked | 2,000 events of key l wait behind "
            "event 18,",
            "blocked:b 30: Key m of b is blocked | 1 event of key m waits behind", NULL);
        cr_expect_str_empty(find("{'blocked_keys': [" KEY("a", "l", "1", "null") "]}"));
}

/* Cut between two bytes of a letter it would be no JSON, and no finding. */
Test(attention, cuts_long_words_between_letters)
{
        expect("{'blocked_keys': [{'sink': 'a', 'waiting': 1, 'behind_id': 2, 'key':"
               " 'xääääääääääääääääääääääääääääääääääääääääääääääääää'}]}",
            "Key xäääääääääääääääääääääääääääääää of a is", NULL);
        for (int n = 490; n < 530; n++) {
                char *text;

                cr_assert(
                    asprintf(&text, "{'source': {'up': false, 'error': '%0*dää'}}", n, 1) > 0);
                expect_lines(text, 1);
                free(text);
        }
}

Test(attention, names_problems_of_the_server)
{
        expect("{" FILE_PART ", 'look_error': 'no', 'source': {'up': false, 'error': 'no route',"
               " 'notify_queue_usage': 0.05}}",
            "error source -1: PostgreSQL cannot be reached | no route. | Nothing is delivered "
            "until",
            "| pgcourier doctor -c /etc/p.yaml | -",
            "error queue -1: The notification queue is 5 % full | ",
            "| pgcourier doctor -c /etc/p.yaml | -", NULL);
        expect_lines("{'look_error': 'no', 'source': {'up': false}}", 1);
        expect("{'look_error': 'too many connections', 'source': {'up': true}}",
            "warning look -1: The status could not be read from the database | too many "
            "connections. | "
            "Deliveries go on",
            NULL);
}

Test(attention, tells_who_holds_a_snapshot)
{
        expect("{'source': {'oldest_xmin': {'age_xids': 1200, 'age': 300, 'pid': 77,"
               " 'what': 'idle in transaction, user app'}}}",
            "warning xmin 300: A snapshot is held by process 77 | idle in transaction, user app. "
            "Delivery goes on",
            "(1,200 transactions so far)", "| psql -c 'SELECT pg_terminate_backend(77)' | -", NULL);
        expect(
            "{'source': {'database': 'my shop', 'address': '10.0.0.7', 'port': 5433, 'oldest_xmin':"
            " {'age_xids': 1, 'age': 300, 'pid': 77, 'what': 'x'}}}",
            "| psql -h 10.0.0.7 -p 5433 -d 'my shop' -c 'SELECT pg_terminate_backend(77)' |", NULL);
        expect("{'source': {'oldest_xmin': {'age_xids': 100000, 'age': null, 'pid':"
               " null, 'what': 'replication slot s'}}}",
            "warning xmin -1: A snapshot is held | replication slot s.",
            "or drop what holds it. | - | -", NULL);
        cr_expect_str_empty(find("{'source': {'oldest_xmin': {'age_xids': 99999, 'age': null}}}"));
}

Test(attention, tells_that_filters_cannot_be_asked)
{
        expect("{" NOW ", 'source': {'up': true, 'filters': {'error': 'too many connections',"
               " 'since': '2026-11-21T08:09:30.500Z'}}}",
            "error filters 30: Filters cannot be evaluated | too many connections. Sinks and "
            "receivers",
            "| pgcourier doctor |", NULL);
}

Test(attention, tells_of_schedules_that_fail)
{
        static const char schedules[] =
            "{'now': '2026-11-28T10:00:10Z', 'schedules': {'first': ["
            "{'name': 'a', 'error': 'no such type', 'runs': []},"
            "{'name': 'b', 'error': null, 'last_success_at': '2026-11-28T10:00:00Z',"
            " 'runs': [{'state': 'open'}, {'state': 'dead'}, {'state': 'delivered'}]},"
            "{'name': 'c', 'error': null, 'runs': [{'state': 'delivered'}, {'state': 'dead'}]},"
            "{'name': 'd', 'error': null, 'runs': [{'state': 'open'}]}]}}";

        expect_lines(schedules, 2);
        expect(schedules, "warning schedule:a -1: Schedule a cannot tick | no such type. |",
            "warning schedule:b 10: Schedule b has failed | The event of its last run is a dead "
            "letter. | Its last success was 2026-11-28T10:00:00Z. Remove",
            "schedule show b", NULL);
        cr_expect_str_empty(find("{'schedules': null}"));
}

Test(attention, tells_of_taps_that_do_not_publish)
{
        expect(
            "{'source': {'database': 'shop'}, 'taps': {'states': {'ok': 4, 'disabled': 1}, 'first':"
            " [{'name': 'orders', 'state': 'disabled', 'detail': 'on public.o this trigger does not"
            " fire: t', 'remedy': 'ALTER TABLE public.o ENABLE TRIGGER t'}, {'name': 'a', 'state':"
            " 'ok', 'detail': null, 'remedy': null}]}}",
            "error tap_disabled -1: Tap orders is disabled | orders: on public.o this trigger does "
            "not fire: t. Rows that are written now do not become events. | Enable its trigger",
            "| psql -d shop -c 'ALTER TABLE public.o ENABLE TRIGGER t' | -", NULL);
        expect_lines("{'taps': {'states': {'ok': 1}, 'first': [{'name': 'a', 'state': 'ok'}]}}", 0);
        cr_expect_str_empty(find("{'taps': null}"));
}

Test(attention, tells_of_taps_in_one_finding_for_each_kind_of_trouble)
{
        static const char taps[] =
            "{'taps': {'states': {'table_gone': 1, 'edited': 1, 'now_a_partition': 11,"
            " 'trigger_missing': 2}, 'first': [{'name': 'g', 'state': 'table_gone', 'detail': "
            "'D4'},"
            " {'name': 'e', 'state': 'edited', 'detail': 'D3'},"
            " {'name': 'm1', 'state': 'trigger_missing', 'detail': 'D1'},"
            " {'name': 'm2', 'state': 'trigger_missing', 'detail': 'D1'},"
            " {'name': 'p0', 'state': 'now_a_partition', 'detail': 'D2'},"
            " {'name': 'p1', 'state': 'now_a_partition'},"
            " {'name': 'p2', 'state': 'now_a_partition'},"
            " {'name': 'p3', 'state': 'now_a_partition'},"
            " {'name': 'p4', 'state': 'now_a_partition'},"
            " {'name': 'p5', 'state': 'now_a_partition'},"
            " {'name': 'p6', 'state': 'now_a_partition'},"
            " {'name': 'p7', 'state': 'now_a_partition'},"
            " {'name': 'p8', 'state': 'now_a_partition'},"
            " {'name': 'p9', 'state': 'now_a_partition'}]}}";

        expect_lines(taps, 4);
        expect(taps, "error tap_trigger_missing -1: 2 taps have no trigger | m1: D1. Also m2. Rows",
            "error tap_silent -1: 11 taps are silent | p0: D2. Also p1, p2, p3, p4, p5, p6, p7, p8 "
            "and more. Rows that are written by way of the parent",
            "warning tap_edited -1: Tap e was edited | e: D3.",
            "warning tap_table_gone -1: Tap g has no table any more | g: D4.", NULL);
}

Test(attention, tells_of_cursors_and_configurations)
{
        expect("{" NOW ", " FILE_PART
               ", 'orphans': [{'sink': 'old one', 'lanes': 1, 'behind': 4000,"
               " 'settled_at': '2026-11-19T04:10:00Z'}]}",
            "warning orphan:old one -1: The cursor of old one holds the log | ",
            "its cursor is 4,000 ids behind. It has not moved for 2 d 4 h. |",
            "| pgcourier cursor drop 'old one' -c /etc/p.yaml | -", NULL);
        expect("{'config': {'file': 'f', 'last_reload_ok': false, 'last_reload_error': 'typo'}}",
            "warning config -1: The last reload failed | typo. | The configuration before it stays",
            "| pgcourier check -c f | reload", NULL);
}

Test(attention, writes_commands_that_survive_a_shell)
{
        expect("{'config': {'file': '/a b/$(c).yaml'}, 'orphans': [{'sink': 'x'}]}",
            "| pgcourier cursor drop x -c '/a b/$(c).yaml' |", NULL);
        expect("{'sinks': [{'name': 'a', 'state': 'unowned'}, {'name': 'b', 'state': 'paused'}]}",
            "| pgcourier run |", "| pgcourier resume b |", NULL);
}

Test(attention, finds_nothing_wrong_with_a_standby)
{
        json_t *status = parse("{'sinks': [{'name': 'a', 'state': 'standby', 'owner': {'pid': 7,"
                               " 'client': '10.0.0.4'}}]}");
        json_t *findings = findings_find(status);

        cr_expect_eq(findings_count(findings), 0);
        json_decref(findings);
        json_decref(status);
        expect("{'sinks': [{'name': 'a', 'state': 'standby', 'owner': {'pid': 7, 'client':"
               " '10.0.0.4'}}]}",
            "note standby -1: This relay stands by | Another one delivers (process 7 of the "
            "database, from 10.0.0.4).",
            NULL);
        expect("{'sinks': [{'name': 'a', 'state': 'standby'}, {'name': 'b', 'state': 'running'}]}",
            "This relay stands by for a | Another one delivers. |", NULL);
}

Test(attention, reports_a_relay_that_is_not_ready_unless_another_finding_explains_it)
{
        expect("{'ready': false, 'not_ready': ['relay: the schema is too old', 'more']}",
            "error ready:0 -1: The relay is not ready | relay: the schema is too old. |",
            "error ready:1", NULL);
        expect_lines(
            "{'ready': false, 'not_ready': ['no connection'], 'source': {'up': false}}", 1);
        expect_lines("{'ready': null, 'not_ready': null}", 0);
}

Test(attention, puts_the_worst_first)
{
        expect(
            "{'source': {'up': false}, 'sinks': [{'name': 'a', 'state': 'running', 'retrying': 1,"
            " 'dead': 1}, {'name': 'b', 'state': 'down'}]}",
            "error source", "error down:b", "warning dead:a", "note retrying:a", NULL);
}

Test(attention, names_the_sinks_that_hold_partitions)
{
        cr_expect_str_empty(find("{'source': {'retention': {'held_partitions': 1, 'held_bytes': 9,"
                                 " 'held_for': 299, 'held_by': ['a'], 'holders': 1,"
                                 " 'lost_events': 0, 'default_bytes': 0}}}"));
        expect("{'source': {'retention': {'held_partitions': 1, 'held_bytes': 2500000,"
               " 'held_for': 7200, 'held_by': ['a', 'hooks/7'], 'holders': 12}}}",
            "warning held 7200: The outbox keeps expired events",
            "1 partition (2.5 MB), needed by a, hooks/7 and 10 more.", "find out what stops them.",
            "| pgcourier doctor |", NULL);
        expect("{'source': {'retention': {'held_partitions': 2, 'held_for': 300,"
               " 'held_by': ['a', 'old'], 'holders': 2}}, 'orphans': [{'sink': 'old'}]}",
            "2 partitions (0.0 MB), needed by a, old.", "| pgcourier cursor drop old |", NULL);
        expect(
            "{'sinks': [{'name': 'a', 'state': 'paused', 'pauses': [{'by': 'operator'}]}],"
            " 'source': {'retention': {'held_partitions': 1, 'held_for': 300, 'held_by': ['a']}}}",
            "Resume a when it may go on. | pgcourier resume a |", NULL);
        expect("{'source': {'retention': {'held_partitions': 1, 'held_for': 300,"
               " 'held_by': ['hooks/7', 'a']}}}",
            "needed by hooks/7, a.", "| pgcourier receiver list --sink hooks |", NULL);
        expect("{'source': {'retention': {'held_partitions': 1, 'held_for': 300,"
               " 'held_by': ['a transaction that has not ended']}}}",
            "needed by a transaction that has not ended.", "| psql -c 'SELECT pid, xact_start",
            NULL);
        expect("{'source': {'retention': {'lost_events': 1, 'default_bytes': 8192}}}",
            "error lost -1: 1 event lost", "| psql -c 'SELECT * FROM courier.outbox_loss",
            "warning default -1: Events are in the outbox's default partition",
            "| pgcourier maintain |", NULL);
}

Test(attention, counts_what_needs_an_operator)
{
        json_t *findings = json_pack(
            "[{s:s}, {s:s}, {s:s}]", "level", "error", "level", "warning", "level", "note");

        cr_expect_eq(findings_count(findings), 2);
        json_decref(findings);
}

/* A relay that delivers has its own settings; of others it is known while they own the lane. */
Test(attention, warns_of_a_takeover_that_would_go_elsewhere)
{
#define DIFFERS "'owner': {'pid': 7}, 'settings_differ': 'destination: A there, B here'"
        expect("{'is_live': true, 'sinks': [{'name': 'a', 'state': 'standby', " DIFFERS "}]}",
            "warning settings:a -1: The relay that delivers a has other settings for it | "
            "destination: A there, B here. | If the settings here",
            NULL);
        expect("{'is_live': false, 'sinks': [{'name': 'a', 'state': 'running', " DIFFERS "}]}",
            "warning settings:a", NULL);
        cr_expect_str_empty(
            find("{'is_live': true, 'sinks': [{'name': 'a', 'state': 'running', " DIFFERS "}]}"));
        cr_expect_str_empty(find("{'is_live': false, 'sinks': [{'name': 'a', 'state': 'running',"
                                 " 'owner': null, 'settings_differ': 'x'}]}"));
}

Test(attention, names_a_filter_that_is_slow)
{
        expect(SINK("'state': 'running', 'slow_filters': {'count': 1, 'receiver': 'acme'}"),
            "note slow_filter:a -1: The filter of a/acme is slow | A slow filter is",
            "| pgcourier receiver show acme --sink a -c /etc/p.yaml |", NULL);
        expect(SINK("'state': 'running', 'slow_filters': {'count': 3, 'receiver': 'acme'}"),
            "note slow_filter:a -1: 3 filters of a are slow | acme and 2 more. A slow filter is",
            NULL);
        expect(SINK("'state': 'running', 'slow_filters': {'count': 1, 'receiver': null}"),
            "note slow_filter:a -1: The filter of a is slow | A slow filter is", "| - | -", NULL);
}

Test(attention, names_receivers_in_trouble_and_those_that_no_relay_serves)
{
        expect(SINK("'state': 'running', 'receivers': {'total': 9, 'failing': 5, 'disabled': 1,"
                    " 'troubled': ['acme', 'b', 'c', 'd']}"),
            "Receivers of a: 5 failing, 1 disabled | acme, b, c, d and 2 more. 3 others are "
            "served all the same.",
            NULL);
        expect("{'unserved': [{'sink': 'hoks', 'receivers': 1, 'first': 'acme'}]}",
            "warning unserved:hoks -1: 1 receiver of hoks gets nothing | No relay serves",
            "first of them is acme. |", "| pgcourier receiver list --sink hoks |", NULL);
}

Test(attention, reminds_of_drained_relays)
{
        expect("{'relays': [{'name': 'web1', 'is_drained': false}, {'name': 'web/2', 'is_drained': "
               "true}]}",
            "note drained:web/2 -1: Relay web/2 is drained | It takes no shards",
            "| pgcourier relay undrain web/2 |", NULL);
        expect("{'relays': [{'name': 'web1', 'is_drained': false, 'is_leaving': true}]}", NULL);
}

#define MARKS(members)                                                                             \
        "{'now': '2026-11-21T08:10:00.000Z', 'marks': {'dead': 0, 'waits_for': [], 'failing': []," \
        " 'is_behind_lanes': false, 'unread_age': 0" members "}}"

Test(attention, says_for_whom_marks_wait)
{
        expect_lines(MARKS(", 'waits_for': [{'sink': 'hook', 'receiver': null, 'events': 2,"
                           " 'is_there': true, 'since': '2026-11-21T08:09:00.000Z'}]"),
            0); /* not for long */
        expect(MARKS(", 'waits_for': [{'sink': 'hook', 'receiver': null, 'events': 2,"
                     " 'is_there': true, 'since': '2026-11-21T08:00:00.000Z'}]"),
            "warning marks_wait:hook 600: Marks wait for hook", "2 events wait.",
            "Find out why hook does not take its events", NULL);
        expect(MARKS(", 'waits_for': [{'sink': 'hooks', 'receiver': 'acme', 'events': 1,"
                     " 'is_there': true, 'since': '2026-11-21T08:00:00.000Z'}]"),
            "marks_wait:hooks/acme", "resume or remove it", "receiver show acme", NULL);
        expect(MARKS(", 'waits_for': [{'sink': 'none', 'receiver': null, 'events': 1,"
                     " 'is_there': false, 'since': '2026-11-21T08:10:00.000Z'}]"),
            "marks_wait:none", "An attachment names none in done_after", NULL);
}

Test(attention, says_why_rows_are_not_marked)
{
        expect_lines("{'marks': null}", 0);
        expect_lines(MARKS(""), 0);
        expect(MARKS(", 'failing': [{'attachment': 'orders', 'table': 'shop.orders', 'rows': 3,"
                     " 'since': '2026-11-21T08:00:00.000Z', 'error': 'violates check'}]"),
            "warning marks_fail:orders 600: Rows of shop.orders cannot be marked", "violates check",
            "3 rows wait.", "Deliveries go on", NULL);
        expect(MARKS(", 'dead': 3"), "warning marks_dead", "3 marks were given up",
            "dead redrive --sink courier.marks", NULL);
        expect(MARKS(", 'is_behind_lanes': true, 'unread_age': 61"), "warning marks_idle 61",
            "No relay marks", NULL);
        expect_lines(MARKS(", 'is_behind_lanes': true, 'unread_age': 59"), 0);
}

#define SHARDS(members)                                                                            \
        "{'sinks': [{'name': 'a', 'state': 'running', 'shards': {'total': 4, " members "}}]}"

Test(attention, tells_who_still_has_shards_while_their_number_changes)
{
        expect(SHARDS("'wanted': 6, 'unowned': [1], 'otherwise': [{'relay': 'b', 'shards': 6}],"
                      " 'owners': [{'relay': 'b', 'pid': 7, 'shards': [0]}, {'relay': null,"
                      " 'pid': 8, 'shards': [2, 3]}]"),
            "warning unowned_shards:a -1: No relay delivers shard 1 of a | It has 4 shards. ",
            "note shards:a -1: a is to have 6 shards instead of 4 | These relays still have"
            " shards: b: 0; process 8 of the database: 2, 3. | ",
            NULL);
        expect(SHARDS("'wanted': 6, 'unowned': [0, 1, 2, 3], 'otherwise': [], 'owners': []"),
            "note shards:a -1: a is to have 6 shards instead of 4 | No relay has a shard", NULL);
        expect_lines(
            SHARDS("'wanted': 6, 'unowned': [0, 1, 2, 3], 'otherwise': [], 'owners': []"), 1);
}

Test(attention, tells_which_relay_has_another_number_of_shards)
{
        expect(SHARDS("'wanted': null, 'unowned': [], 'owners': [{'relay': 'b', 'pid': 7,"
                      " 'shards': [0, 1, 2, 3]}], 'otherwise': [{'relay': 'c', 'shards': 2}]"),
            "warning shards:a -1: A relay has another number of shards for a | Relay c has"
            " shards: 2 in its configuration, 4 are in force. | Give it the newer file and"
            " reload it",
            NULL);
        expect_lines(SHARDS("'wanted': null, 'unowned': [], 'otherwise': [], 'owners':"
                            " [{'relay': 'b', 'pid': 7, 'shards': [0, 1, 2, 3]}]"),
            0);
}

static void expect_numbers(const char *numbers, const char *expected)
{
        json_t *list = json_loads(numbers, 0, NULL);
        struct bytes text = {0};

        findings_append_numbers(&text, list);
        cr_expect_str_eq(text.data, expected, "%s", text.data);
        bytes_deinit(&text);
        json_decref(list);
}

Test(attention, names_runs_of_shards_by_their_ends)
{
        expect_numbers("[3]", "3");
        expect_numbers("[0, 1]", "0, 1");
        expect_numbers("[0, 1, 2, 5, 7, 8, 9]", "0 to 2, 5, 7 to 9");
}
