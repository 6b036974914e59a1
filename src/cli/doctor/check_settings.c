/* `pgcourier check --connect` and `doctor`: between two relays, whether this one would do what the other one
 * does. */
#include "base/bytes.h"
#include "cli/doctor/check_findings.h"
#include "config/config.h"
#include "operator/doctor_queries.h"
#include "outbox/sink_settings.h"

#include <stdlib.h>
#include <string.h>

void check_settings(struct blocking_conn *conn, const struct config *config, struct report *report)
{
        struct error error;
        struct rows *rows = health_ask_settings(conn, &error);
        bool is_any = false, differs = false;

        if (rows == NULL) {
                report_fail(report, error.kind, "settings", NULL, "%s", error.text);
                return;
        }
        for (unsigned i = 0; i < config->n_sinks; i++) {
                const struct sink_config *sink = &config->sinks[i];
                for (int row = 0; row < rows_count(rows); row++) {
                        struct bytes words = {0};
                        char *ours;
                        if (strcmp(rows_text(rows, row, 0), sink->name) != 0)
                                continue;
                        ours = sink_settings(sink);
                        sink_settings_compare(&words, ours, rows_text(rows, row, 1));
                        if (words.data != NULL)
                                report_warn(report, "settings",
                                    "If these here are the new ones, they are in force after a "
                                    "reload of that relay, or when another one takes over; else "
                                    "correct this configuration before that one ends",
                                    "the relay that delivers %s has other settings for it: %s",
                                    sink->name, words.data);
                        is_any = true;
                        differs |= words.data != NULL;
                        bytes_deinit(&words);
                        free(ours);
                }
        }
        if (is_any && !differs)
                report_ok(report, "settings", "the relays that deliver have the same");
        rows_free(rows);
}
