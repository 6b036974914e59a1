/* Taps that do not do what they were made for: one finding for each kind of trouble. What they
 * say is the catalogs' (courier.tap_states); whether a tap compiles is not asked here. */
#include "admin/findings/findings.h"
#include "admin/findings/findings_internal.h"

#include <string.h>

#define NAMED 8 /* of the others that have the same */

static const struct trouble {
        const char *state; /* courier.tap_states.state */
        const char *kind;
        enum findings_level level;
        const char *one, *many; /* for the title: "Tap NAME …", "3 taps …" */
        const char *why, *remedy;
} troubles[] = {
    {"disabled", "tap_disabled", ATTENTION_ERROR, "is disabled", "are disabled",
        "Rows that are written now do not become events",
        "Enable its trigger, as the owner of the table. What was written meanwhile is not "
        "published by that"},
    {"trigger_missing", "tap_trigger_missing", ATTENTION_ERROR, "has no trigger", "have no trigger",
        "Rows that are written now do not become events",
        "Make it anew, as the owner of the table, or detach it. What was written meanwhile is not "
        "published by that"},
    {"now_a_partition", "tap_silent", ATTENTION_ERROR, "is silent", "are silent",
        "Rows that are written by way of the parent do not become events",
        "Make it anew, as the owner of the table, or attach the parent in its place. What was "
        "written meanwhile is not published by that"},
    {"edited", "tap_edited", ATTENTION_WARNING, "was edited", "were edited",
        "pgcourier does not know what it publishes now",
        "Look at it (courier.tap_source); as the owner of the table, make it anew from what it was "
        "given"},
    {"table_gone", "tap_table_gone", ATTENTION_WARNING, "has no table any more",
        "have no table any more", "Its functions and its row in courier.attachment are left",
        "Detach it"},
};

static void add_trouble(
    struct findings *findings, const struct trouble *trouble, const json_t *taps)
{
        struct finding finding = finding_of(trouble->level, trouble->kind, NULL);
        const json_t *tap, *first = NULL;
        double n = status_number(status_get(taps, "states"), trouble->state);
        struct bytes others = {0};
        size_t n_named = 0;
        size_t i;

        json_array_foreach(status_get(taps, "first"), i, tap)
        {
                if (strcmp(status_text(tap, "state"), trouble->state) != 0)
                        continue;
                if (first == NULL)
                        first = tap;
                else if (++n_named <= NAMED)
                        bytes_printf(
                            &others, "%s%s", n_named > 1 ? ", " : "", status_text(tap, "name"));
        }
        if (first == NULL)
                return;
        if (n > 1)
                bytes_printf(&finding.title, "%.0f taps %s", n, trouble->many);
        else
                bytes_printf(&finding.title, "Tap %s %s", status_text(first, "name"), trouble->one);
        sentence_append(
            &finding.why, "%s: %s", status_text(first, "name"), status_text(first, "detail"));
        if (others.length > 0)
                sentence_append(
                    &finding.why, "Also %s%s", others.data, n - 1 > NAMED ? " and more" : "");
        sentence_append(&finding.why, "%s", trouble->why);
        sentence_append(&finding.remedy, "%s", trouble->remedy);
        psql_append(findings, &finding.command, status_text(first, "remedy"));
        findings_add(findings, &finding);
        bytes_deinit(&others);
}

void findings_add_taps(struct findings *findings)
{
        const json_t *taps = status_get(findings->status, "taps");

        for (size_t i = 0; i < sizeof troubles / sizeof *troubles; i++)
                add_trouble(findings, &troubles[i], taps);
}
