/* Schedules that cannot tick, or whose last run was given up. */
#include "admin/findings/findings.h"
#include "admin/findings/findings_internal.h"

#include <stdio.h>
#include <string.h>

/* Of the runs that have ended, the newest: "delivered", "dead", or "" if there is none. */
static const char *last_end(const json_t *schedule)
{
        const json_t *run;
        size_t i;

        json_array_foreach(status_get(schedule, "runs"), i, run)
        {
                const char *state = status_text(run, "state");
                if (strcmp(state, "open") != 0)
                        return state;
        }
        return "";
}

static void add_schedule(
    struct findings *findings, const json_t *schedule, const char *what, const char *why)
{
        char kind[280] = "";
        struct finding finding = finding_of(ATTENTION_WARNING, kind, NULL);
        const char *name = status_text(schedule, "name");

        snprintf(kind, sizeof kind, "schedule:%.255s", name);
        bytes_printf(&finding.title, "Schedule %s %s", name, what);
        sentence_append(&finding.why, "%s", why);
        if (json_is_string(status_get(schedule, "last_success_at"))) {
                finding.lasts_s = seconds_since(findings, status_text(schedule, "last_success_at"));
                sentence_append(&finding.remedy,
                    "Its last success was %s. Remove the cause; then run it by hand, or wait for "
                    "its next tick",
                    status_text(schedule, "last_success_at"));
        } else {
                sentence_append(&finding.remedy,
                    "Remove the cause; then run it by hand, or wait for its next tick");
        }
        command_append(findings, &finding.command, "schedule", "show", name, NULL);
        findings_add(findings, &finding);
}

void findings_add_schedules(struct findings *findings)
{
        const json_t *schedule;
        size_t i;

        json_array_foreach(
            status_get(status_get(findings->status, "schedules"), "first"), i, schedule)
        {
                const char *error = status_text(schedule, "error");
                if (*error != '\0')
                        add_schedule(findings, schedule, "cannot tick", error);
                else if (strcmp(last_end(schedule), "dead") == 0)
                        add_schedule(findings, schedule, "has failed",
                            "The event of its last run is a dead letter");
        }
}
