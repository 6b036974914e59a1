/* What keeps the outbox from being cut, and what was cut although a sink needed it. */
#include "admin/findings/findings.h"
#include "admin/findings/findings_internal.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define OVERDUE_S 300 /* a partition that should have gone so long ago */

static bool is_orphan(const struct findings *findings, const char *sink)
{
        const json_t *orphans = status_get(findings->status, "orphans"), *orphan;
        size_t i;

        json_array_foreach(orphans, i, orphan)
        {
                if (strcmp(status_text(orphan, "sink"), sink) == 0)
                        return true;
        }
        return false;
}

static bool is_paused(const struct findings *findings, const char *name)
{
        const json_t *sink;
        size_t i;

        json_array_foreach(status_get(findings->status, "sinks"), i, sink)
        {
                if (strcmp(status_text(sink, "name"), name) == 0)
                        return json_array_size(status_get(sink, "pauses")) > 0;
        }
        return false;
}

/* What lets go of the oldest partition: `holder` is a sink, a receiver as "sink/id", or words
 * that begin as below. */
static void help_with_held(
    struct findings *findings, struct finding *finding, const char *holder, bool is_orphan)
{
        static const char transaction[] = "a transaction that ";
        const char *slash = strchr(holder, '/');
        char sink[128];

        if (strcmp(holder, "courier.marks") == 0) {
                sentence_append(&finding->remedy,
                    "The rows of attached tables are not marked: run a relay with `marks: "
                    "{enabled: true}`; the marks' own finding says what else stops them");
                command_append(findings, &finding->command, "status", NULL);
        } else if (is_orphan) {
                sentence_append(&finding->remedy,
                    "No configuration of a running relay has %s: configure it again, or drop its "
                    "cursor",
                    holder);
                command_append(findings, &finding->command, "cursor", "drop", holder, NULL);
        } else if (strncmp(holder, transaction, strlen(transaction)) == 0) {
                sentence_append(&finding->remedy, "Have its owner commit or roll back, or end it");
                psql_append(findings, &finding->command,
                    "SELECT pid, xact_start, query FROM pg_stat_activity WHERE backend_xid IS NOT "
                    "NULL ORDER BY xact_start");
        } else if (slash != NULL) {
                snprintf(sink, sizeof sink, "%.*s", (int)(slash - holder), holder);
                sentence_append(&finding->remedy,
                    "Resume or remove the receiver; the list says since when and why it waits");
                command_append(
                    findings, &finding->command, "receiver", "list", "--sink", sink, NULL);
        } else if (is_paused(findings, holder)) {
                sentence_append(&finding->remedy, "Resume %s when it may go on", holder);
                command_append(findings, &finding->command, "resume", holder, NULL);
        } else {
                sentence_append(&finding->remedy,
                    "The relay drops it when they have read it: find out what stops them");
                command_append(findings, &finding->command, "doctor", NULL);
        }
}

static void add_held(struct findings *findings, const json_t *retention)
{
        struct finding finding = finding_of(ATTENTION_WARNING, "held", NULL);
        const json_t *holders = status_get(retention, "held_by"), *holder;
        double n_held = status_number(retention, "held_partitions");
        double n_more = status_number(retention, "holders");
        const char *orphan = NULL, *first = "";
        struct bytes who = {0};
        size_t i;

        json_array_foreach(holders, i, holder)
        {
                const char *name = json_string_value(holder);
                bytes_printf(&who, "%s%s", i > 0 ? ", " : "", name);
                if (i == 0)
                        first = name;
                n_more--;
                if (is_orphan(findings, name))
                        orphan = name;
        }
        if (n_more > 0)
                bytes_printf(&who, " and %.0f more", n_more);
        finding.lasts_s = status_number(retention, "held_for");
        bytes_printf(&finding.title, "The outbox keeps expired events");
        sentence_append(&finding.why, "%s (%.1f MB), needed by %s",
            words_counted(n_held, "partition", "partitions").text,
            status_number(retention, "held_bytes") / 1e6, who.data != NULL ? who.data : "a sink");
        help_with_held(findings, &finding, orphan != NULL ? orphan : first, orphan != NULL);
        findings_add(findings, &finding);
        bytes_deinit(&who);
}

static void add_lost(struct findings *findings, double n_lost)
{
        struct finding finding = finding_of(ATTENTION_ERROR, "lost", NULL);

        bytes_printf(&finding.title, "%s lost", words_counted(n_lost, "event", "events").text);
        sentence_append(&finding.why,
            "outbox.retention_max dropped partitions in the last day that some sink had not read");
        sentence_append(&finding.remedy,
            "Publish them again from their source, and find out why that sink was so far behind");
        psql_append(
            findings, &finding.command, "SELECT * FROM courier.outbox_loss ORDER BY lost_at");
        findings_add(findings, &finding);
}

static void add_default(struct findings *findings)
{
        struct finding finding = finding_of(ATTENTION_WARNING, "default", NULL);

        bytes_printf(&finding.title, "Events are in the outbox's default partition");
        sentence_append(&finding.why,
            "No partition was made for them in time; publishers will wait while that is corrected");
        sentence_append(&finding.remedy, "A running relay corrects it; or do it now");
        command_append(findings, &finding.command, "maintain", NULL);
        findings_add(findings, &finding);
}

void findings_add_retention(struct findings *findings)
{
        const json_t *retention = status_get(status_get(findings->status, "source"), "retention");

        if (status_number(retention, "held_partitions") > 0 &&
            status_number(retention, "held_for") >= OVERDUE_S)
                add_held(findings, retention);
        if (status_number(retention, "lost_events") > 0)
                add_lost(findings, status_number(retention, "lost_events"));
        if (status_number(retention, "default_bytes") > 0)
                add_default(findings);
}
