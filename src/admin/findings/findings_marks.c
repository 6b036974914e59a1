/* What keeps the rows of attached tables from being marked. */
#include "admin/findings/findings.h"
#include "admin/findings/findings_internal.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LATE_S     300 /* a mark that waits for so long is late */
#define IDLE_S     60 /* by then the marker has read an event that lanes have passed, if one runs */
#define WORD_BYTES 300 /* of what PostgreSQL said */

static void add_failing(struct findings *findings, const json_t *one)
{
        char kind[80] = ""; /* written below */
        struct finding finding = finding_of(ATTENTION_WARNING, kind, NULL);
        const char *error = status_text(one, "error");

        snprintf(kind, sizeof kind, "marks_fail:%.60s", status_text(one, "attachment"));
        finding.lasts_s = seconds_since(findings, status_text(one, "since"));
        bytes_printf(&finding.title, "Rows of %s cannot be marked", status_text(one, "table"));
        sentence_append(&finding.why, "%.*s", text_up_to(error, WORD_BYTES), error);
        sentence_append(&finding.why, "%s",
            words_counted(status_number(one, "rows"), "row waits", "rows wait").text);
        sentence_append(&finding.remedy,
            "Deliveries go on. Correct what the table refuses, or end what locks it; the relay "
            "tries each row up to 20 times in half a day, and makes a dead letter of its mark "
            "then");
        psql_append(findings, &finding.command,
            "SELECT outbox_id, source_key, attempts, due_at, last_error FROM courier.unmarked "
            "WHERE attempts > 0 ORDER BY outbox_id LIMIT 20");
        findings_add(findings, &finding);
}

static void add_waiting(struct findings *findings, const json_t *one, double lasts_s)
{
        char kind[160] = "";
        const char *receiver = status_text(one, "receiver");
        const char *sink = status_text(one, "sink");
        struct finding finding = finding_of(ATTENTION_WARNING, kind, NULL);

        snprintf(kind, sizeof kind, "marks_wait:%.64s%s%.80s", sink, *receiver != '\0' ? "/" : "",
            receiver);
        finding.lasts_s = lasts_s;
        bytes_printf(
            &finding.title, "Marks wait for %s%s%s", sink, *receiver != '\0' ? "/" : "", receiver);
        sentence_append(&finding.why,
            "Rows of attached tables are marked when all sinks that take their events have passed "
            "them. %s",
            words_counted(status_number(one, "events"), "event waits", "events wait").text);
        if (json_is_false(status_get(one, "is_there"))) {
                sentence_append(&finding.remedy,
                    "An attachment names %s in done_after, and no relay has run a sink of that "
                    "name: start one, or attach the table again without it",
                    sink);
        } else if (*receiver != '\0') {
                sentence_append(&finding.remedy,
                    "Find out why the receiver does not take its events; resume or remove it. Or "
                    "name the sinks that count in done_after of the attachment");
                command_append(findings, &finding.command, "receiver", "show", receiver, NULL);
        } else {
                sentence_append(&finding.remedy,
                    "Find out why %s does not take its events. Or name the sinks that count in "
                    "done_after of the attachment",
                    sink);
                command_append(findings, &finding.command, "status", NULL);
        }
        findings_add(findings, &finding);
}

static void add_dead(struct findings *findings, double n_dead)
{
        struct finding finding = finding_of(ATTENTION_WARNING, "marks_dead", NULL);

        bytes_printf(
            &finding.title, "%s given up", words_counted(n_dead, "mark was", "marks were").text);
        sentence_append(&finding.why,
            "The events were delivered, but their rows are not marked: the tables refused it each "
            "time");
        sentence_append(&finding.remedy,
            "`pgcourier dead list --sink courier.marks` tells why. Correct that and redrive them, "
            "or drop them");
        command_append(
            findings, &finding.command, "dead", "redrive", "--sink", "courier.marks", NULL);
        findings_add(findings, &finding);
}

static void add_idle(struct findings *findings, double unread_s)
{
        struct finding finding = finding_of(ATTENTION_WARNING, "marks_idle", NULL);

        finding.lasts_s = unread_s;
        bytes_printf(&finding.title, "No relay marks the rows of attached tables");
        sentence_append(&finding.why,
            "The oldest event that has not been looked at is older than a minute, although lanes "
            "have gone on. The outbox keeps these events");
        sentence_append(&finding.remedy,
            "Run a relay whose configuration does not say `marks: {enabled: false}`; its log says "
            "marks_failing if it cannot");
        command_append(findings, &finding.command, "check", NULL);
        findings_add(findings, &finding);
}

void findings_add_marks(struct findings *findings)
{
        const json_t *marks = status_get(findings->status, "marks"), *one;
        size_t i;

        if (!json_is_object(marks))
                return;
        json_array_foreach(status_get(marks, "failing"), i, one) add_failing(findings, one);
        json_array_foreach(status_get(marks, "waits_for"), i, one)
        {
                double lasts_s = seconds_since(findings, status_text(one, "since"));

                if (lasts_s >= LATE_S || json_is_false(status_get(one, "is_there")))
                        add_waiting(findings, one, lasts_s);
        }
        if (status_number(marks, "dead") > 0)
                add_dead(findings, status_number(marks, "dead"));
        if (json_is_true(status_get(marks, "is_behind_lanes")) &&
            status_number(marks, "unread_age") >= IDLE_S)
                add_idle(findings, status_number(marks, "unread_age"));
}
