/* What may be wrong with one sink. */
#include "admin/findings/findings.h"
#include "admin/findings/findings_internal.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LATE_S           300 /* an event that waits for so long is late */
#define KEY_BYTES        64  /* of a key that are told */
#define WORD_BYTES       200 /* of what a peer said */
#define DIFFERENCE_BYTES 400
#define MOST_RELAYS      4 /* that are told by name */

static bool is_state(const json_t *sink, const char *state)
{
        return strcmp(status_text(sink, "state"), state) == 0;
}

/* What the database says of it. While a sink runs the relay knows better than the last look. */
static const json_t *find_pause(const json_t *sink, const char *by)
{
        const json_t *pause;
        size_t i;

        if (is_state(sink, "running"))
                return NULL;
        json_array_foreach(status_get(sink, "pauses"), i, pause)
        {
                if (strcmp(status_text(pause, "by"), by) == 0)
                        return pause;
        }
        return NULL;
}

/* Why the sink is as it is; or else what went wrong last. */
static const char *reason_of(const json_t *sink)
{
        const char *reason = status_text(sink, "state_reason");

        return *reason != '\0' ? reason : status_text(status_get(sink, "last_error"), "words");
}

static struct finding of_state(
    struct findings *findings, enum findings_level level, const char *state, const json_t *sink)
{
        struct finding finding = finding_of(level, state, status_text(sink, "name"));

        if (is_state(sink, state))
                finding.lasts_s = seconds_since(findings, status_text(sink, "state_since"));
        return finding;
}

static void add_unowned(struct findings *findings, const json_t *sink)
{
        struct finding finding = of_state(findings, ATTENTION_ERROR, "unowned", sink);

        bytes_printf(&finding.title, "No relay delivers %s", finding.sink);
        waiting_append(&finding.why, sink);
        sentence_append(&finding.remedy, "Start a relay whose configuration names this sink");
        command_append(findings, &finding.command, "run", NULL);
        findings_add(findings, &finding);
}

static void add_paused(
    struct findings *findings, const json_t *sink, const json_t *pause, const json_t *refused)
{
        struct finding finding = of_state(findings, ATTENTION_WARNING, "paused", sink);
        const char *reason = status_text(pause, "reason");

        if (pause != NULL)
                finding.lasts_s = seconds_since(findings, status_text(pause, "since"));
        if (*reason == '\0')
                reason = status_text(sink, "state_reason");
        bytes_printf(&finding.title, "%s is paused", finding.sink);
        if (*reason != '\0')
                sentence_append(&finding.why, "By an operator: %s", reason);
        else
                sentence_append(&finding.why, "By an operator, who gave no reason");
        if (refused != NULL)
                sentence_append(
                    &finding.why, "The relay paused it, too: %s", status_text(refused, "reason"));
        waiting_append(&finding.why, sink);
        sentence_append(&finding.remedy, "Resume it when it may go on");
        command_append(findings, &finding.command, "resume", finding.sink, NULL);
        finding.action = ACTION_RESUME;
        findings_add(findings, &finding);
}

/* As filter_queue.c says it when it gives a filter up. */
static bool is_about_filter(const char *reason)
{
        static const char words[] = "its filter takes too long";

        return strncmp(reason, words, sizeof words - 1) == 0;
}

static void add_refused(struct findings *findings, const json_t *sink, const json_t *pause)
{
        struct finding finding = of_state(findings, ATTENTION_ERROR, "refused", sink);
        const char *reason = status_text(pause, "reason");

        if (pause != NULL)
                finding.lasts_s = seconds_since(findings, status_text(pause, "since"));
        if (*reason == '\0')
                reason = reason_of(sink);
        bytes_printf(&finding.title, is_about_filter(reason) ? "%s stands still" : "%s refuses us",
            finding.sink);
        sentence_append(&finding.why, "%s", reason);
        waiting_append(&finding.why, sink);
        sentence_append(&finding.remedy,
            is_about_filter(reason) ? "Nothing is read for it any more. Change the filter in the "
                                      "configuration and reload; or resume it as it is, if only "
                                      "some events were the cause"
                                    : "Change its settings or ours (a login, an address, a "
                                      "certificate), then resume it; the relay also tries now and "
                                      "then");
        command_append(findings, &finding.command, "resume", finding.sink, NULL);
        finding.action = ACTION_RESUME;
        findings_add(findings, &finding);
}

/* What helps depends on whether it is there at all. The doctor asks a Redis whether it would
 * take events, and each server for its certificate; of others it sees only whether they can be
 * reached. */
static const struct help {
        const char *fault; /* as in the status document; NULL: any other */
        const char *remedy;
        bool is_for_doctor;
} helps[] = {
    {"refused", "Bring the destination back", true},
    {"dns", "Bring the destination back, or correct its name", true},
    {"timeout", "Bring the destination back", true},
    {"lost", "Bring the destination back", true},
    {"tls", "Correct the certificate, or the authorities that are trusted", true},
    {"redis", "It answers, but refuses events for the reason above: correct that", true},
    {NULL, "It refuses events for the reason above: correct that", false},
};

static const struct help *help_for(const char *fault)
{
        const struct help *help = helps;

        while (help->fault != NULL && strcmp(help->fault, fault) != 0)
                help++;
        return help;
}

static void add_down(struct findings *findings, const json_t *sink)
{
        const struct help *help = help_for(status_text(status_get(sink, "last_error"), "fault"));
        struct finding finding = of_state(findings, ATTENTION_ERROR, "down", sink);

        bytes_printf(&finding.title, "%s is down", finding.sink);
        sentence_append(&finding.why, "%s", reason_of(sink));
        waiting_append(&finding.why, sink);
        sentence_append(&finding.remedy, "%s", help->remedy);
        sentence_append(&finding.remedy,
            "The relay tries it every few seconds and then goes on by itself; nothing is lost and "
            "no attempt is counted");
        if (help->is_for_doctor)
                command_append(findings, &finding.command, "doctor", NULL);
        else
                command_append(findings, &finding.command, "tail", "--sink", finding.sink, NULL);
        findings_add(findings, &finding);
}

static void add_stalled(struct findings *findings, const json_t *sink)
{
        struct finding finding = of_state(findings, ATTENTION_ERROR, "stalled", sink);
        const char *said = status_text(status_get(sink, "last_error"), "words");
        bool is_blocked = status_number(sink, "blocked") > 0;

        bytes_printf(&finding.title, "%s stands still", finding.sink);
        sentence_append(&finding.why, "Nothing was delivered although it is not paused");
        if (*said != '\0')
                sentence_append(&finding.why, "The last error: %s", said);
        waiting_append(&finding.why, sink);
        sentence_append(&finding.remedy,
            is_blocked ? "Look at the keys that are blocked: what they wait behind fails again and "
                         "again"
                       : "See what the doctor says of the connection, the locks and the "
                         "destination");
        command_append(findings, &finding.command, "doctor", NULL);
        finding.action = is_blocked ? ACTION_BLOCKED : ACTION_NONE;
        findings_add(findings, &finding);
}

/* At the present rate, while more arrives: the difference is not known, so this is a lower
 * bound. */
static void add_behind(struct findings *findings, const json_t *sink)
{
        struct finding finding = finding_of(ATTENTION_WARNING, "behind", status_text(sink, "name"));
        double n = status_number(status_get(sink, "backlog"), "events");
        double rate = status_number(sink, "rate");
        char left[48];

        bytes_printf(&finding.title, "%s is behind", finding.sink);
        waiting_append(&finding.why, sink);
        if (rate > 0) {
                findings_duration(left, sizeof left, n / rate);
                sentence_append(
                    &finding.remedy, "At the present rate that is at least %s of work", left);
        }
        findings_add(findings, &finding);
}

static void add_state(struct findings *findings, const json_t *sink)
{
        const json_t *operators = find_pause(sink, "operator");
        const json_t *relays = find_pause(sink, "relay");
        const json_t *backlog = status_get(sink, "backlog");

        if (is_state(sink, "unowned"))
                add_unowned(findings, sink);
        if (is_state(sink, "paused") || operators != NULL)
                add_paused(findings, sink, operators, relays);
        else if (is_state(sink, "refused") || relays != NULL)
                add_refused(findings, sink, relays);
        else if (is_state(sink, "down"))
                add_down(findings, sink);
        else if (is_state(sink, "stalled"))
                add_stalled(findings, sink);
        else if (is_state(sink, "running") && status_number(backlog, "overdue_age") >= LATE_S)
                add_behind(findings, sink);
}

/* "acme, initech and 5 more": the list has the first of them. */
static void append_names(struct bytes *text, const json_t *names, double n)
{
        const json_t *name;
        size_t i;

        json_array_foreach(names, i, name)
            bytes_printf(text, "%s%s", i > 0 ? ", " : "", json_string_value(name));
        if (text->length > 0 && n > (double)json_array_size(names))
                bytes_printf(text, " and %.0f more", n - (double)json_array_size(names));
}

static void add_receivers(struct findings *findings, const json_t *sink)
{
        const json_t *receivers = status_get(sink, "receivers");
        double n_failing = status_number(receivers, "failing");
        double n_disabled = status_number(receivers, "disabled");
        double n_others = status_number(receivers, "total") - n_failing - n_disabled -
                          status_number(receivers, "paused");
        struct bytes who = {0};
        struct finding finding;

        if (n_failing + n_disabled == 0)
                return;
        finding = finding_of(ATTENTION_WARNING, "receivers", status_text(sink, "name"));
        append_names(&who, status_get(receivers, "troubled"), n_failing + n_disabled);
        bytes_printf(&finding.title, "Receivers of %s: ", finding.sink);
        if (n_failing > 0)
                bytes_printf(
                    &finding.title, "%.0f failing%s", n_failing, n_disabled > 0 ? ", " : "");
        if (n_disabled > 0)
                bytes_printf(&finding.title, "%.0f disabled", n_disabled);
        sentence_append(&finding.why, "%s", who.length > 0 ? who.data : "");
        bytes_deinit(&who);
        if (n_others > 0)
                sentence_append(&finding.why, "%s served all the same",
                    words_counted(n_others, "other is", "others are").text);
        sentence_append(&finding.remedy, "The list says since when and why");
        if (n_failing > 0)
                sentence_append(&finding.remedy,
                    "A receiver that fails gets its events when it works again, without a command");
        if (n_disabled > 0)
                sentence_append(
                    &finding.remedy, "One that is disabled needs `pgcourier receiver resume` then");
        command_append(
            findings, &finding.command, "receiver", "list", "--sink", finding.sink, NULL);
        findings_add(findings, &finding);
}

static void add_slow_filters(struct findings *findings, const json_t *sink)
{
        const json_t *slow = status_get(sink, "slow_filters");
        struct finding finding =
            finding_of(ATTENTION_NOTE, "slow_filter", status_text(sink, "name"));
        const char *receiver = status_text(slow, "receiver");
        double n = status_number(slow, "count");

        if (n > 1)
                bytes_printf(&finding.title, "%.0f filters of %s are slow", n, finding.sink);
        else
                bytes_printf(&finding.title, "The filter of %s%s%s is slow", finding.sink,
                    *receiver != '\0' ? "/" : "", receiver);
        if (n > 1 && *receiver != '\0')
                sentence_append(&finding.why, "%s and %.0f more", receiver, n - 1);
        sentence_append(&finding.why, "A slow filter is evaluated separately and less often; only "
                                      "the events that it decides on wait for it");
        sentence_append(&finding.remedy,
            "Simplify it. If it takes too long for three events in a row, it is given up");
        if (*receiver != '\0')
                command_append(findings, &finding.command, "receiver", "show", receiver, "--sink",
                    finding.sink, NULL);
        findings_add(findings, &finding);
}

/* The count stops somewhere. */
static const char *at_least(const json_t *sink)
{
        return json_is_false(status_get(sink, "counts_are_exact")) ? "At least " : "";
}

static void add_dead(struct findings *findings, const json_t *sink)
{
        struct finding finding = finding_of(ATTENTION_WARNING, "dead", status_text(sink, "name"));

        bytes_printf(&finding.title, "%s%s of %s", at_least(sink),
            words_counted(status_number(sink, "dead"), "dead letter", "dead letters").text,
            finding.sink);
        sentence_append(&finding.why, "Given up: refused for good, or failed too often");
        sentence_append(
            &finding.remedy, "Remove the cause, then redrive them; or drop what is not needed");
        command_append(findings, &finding.command, "dead", "list", "--sink", finding.sink, NULL);
        finding.action = ACTION_DEAD;
        findings_add(findings, &finding);
}

static void add_retrying(struct findings *findings, const json_t *sink)
{
        struct finding finding = finding_of(ATTENTION_NOTE, "retrying", status_text(sink, "name"));
        double n = status_number(sink, "retrying");
        double due_s = seconds_until(findings, status_text(sink, "next_retry_at"));
        const char *said = status_text(sink, "next_retry_error");
        char due[48], id[32];

        bytes_printf(&finding.title, "%s%s of %s failed", at_least(sink),
            words_counted(n, "delivery", "deliveries").text, finding.sink);
        findings_duration(due, sizeof due, due_s > 0 ? due_s : 0);
        snprintf(id, sizeof id, "%.0f", status_number(sink, "next_retry_id"));
        sentence_append(&finding.why,
            n == 1 ? "Event %s is tried again %s%s"
                   : "They are tried again, the next one, event %s, %s%s",
            id, due_s > 0 ? "in " : "now", due_s > 0 ? due : "");
        sentence_append(&finding.why, "%.*s", text_up_to(said, WORD_BYTES), said);
        if (is_state(sink, "running"))
                sentence_append(&finding.why, "Other keys go on");
        if (n == 1)
                command_append(findings, &finding.command, "trace", id, NULL);
        else
                command_append(
                    findings, &finding.command, "parked", "list", "--sink", finding.sink, NULL);
        findings_add(findings, &finding);
}

/* Of a relay that delivers it the settings are its own; of a database alone it is not known
 * whose they are. */
static void add_settings(struct findings *findings, const json_t *sink)
{
        const char *differences = status_text(sink, "settings_differ");
        struct finding finding;

        if (*differences == '\0' || !json_is_object(status_get(sink, "owner")) ||
            (!is_state(sink, "standby") && json_is_true(status_get(findings->status, "is_live"))))
                return;
        finding = finding_of(ATTENTION_WARNING, "settings", status_text(sink, "name"));
        bytes_printf(
            &finding.title, "The relay that delivers %s has other settings for it", finding.sink);
        sentence_append(
            &finding.why, "%.*s", text_up_to(differences, DIFFERENCE_BYTES), differences);
        sentence_append(&finding.remedy, "If the settings here are newer, reload that relay; "
                                         "otherwise correct this configuration before it is used");
        command_append(findings, &finding.command, "config", "show", NULL);
        findings_add(findings, &finding);
}

/* Relays give their shards back when what they have under way is settled. */
static void add_change_of_shards(struct findings *findings, const json_t *sink)
{
        const json_t *shards = status_get(sink, "shards");
        struct finding finding = finding_of(ATTENTION_NOTE, "shards", status_text(sink, "name"));
        struct bytes owners = {0};

        findings_append_owners(&owners, shards);
        bytes_printf(&finding.title, "%s is to have %s instead of %.0f", finding.sink,
            words_counted(status_number(shards, "wanted"), "shard", "shards").text,
            status_number(shards, "total"));
        if (owners.length > 0) {
                sentence_append(&finding.why, "These relays still have shards: %s", owners.data);
                sentence_append(&finding.remedy,
                    "They give them back by themselves. One that does not has an older version, or "
                    "hangs: stop it");
        } else {
                sentence_append(&finding.why, "No relay has a shard of it any more");
                sentence_append(&finding.remedy,
                    "The next relay that starts or looks for shards divides it anew");
        }
        bytes_deinit(&owners);
        findings_add(findings, &finding);
}

static void add_other_numbers(struct findings *findings, const json_t *sink)
{
        const json_t *shards = status_get(sink, "shards");
        const json_t *otherwise = status_get(shards, "otherwise"), *one;
        struct finding finding = finding_of(ATTENTION_WARNING, "shards", status_text(sink, "name"));
        size_t i;

        bytes_printf(&finding.title, "%s has another number of shards for %s",
            json_array_size(otherwise) > 1
                ? words_counted((double)json_array_size(otherwise), "relay", "relays").text
                : "A relay",
            finding.sink);
        json_array_foreach(otherwise, i, one)
        {
                if (i == MOST_RELAYS)
                        break;
                sentence_append(&finding.why,
                    "Relay %s has shards: %.0f in its configuration, %.0f are in force",
                    status_text(one, "relay"), status_number(one, "shards"),
                    status_number(shards, "total"));
        }
        sentence_append(&finding.remedy, "Give it the newer file and reload it; until then it gets "
                                         "no shard of this sink");
        findings_add(findings, &finding);
}

static void add_unowned_shards(struct findings *findings, const json_t *sink)
{
        const json_t *shards = status_get(sink, "shards");
        const json_t *unowned = status_get(shards, "unowned");
        struct finding finding =
            finding_of(ATTENTION_WARNING, "unowned_shards", status_text(sink, "name"));

        bytes_printf(
            &finding.title, "No relay delivers shard%s ", json_array_size(unowned) > 1 ? "s" : "");
        findings_append_numbers(&finding.title, unowned);
        bytes_printf(&finding.title, " of %s", finding.sink);
        sentence_append(&finding.why, "It has %s",
            words_counted(status_number(shards, "total"), "shard", "shards").text);
        waiting_append(&finding.why, sink);
        sentence_append(&finding.remedy,
            "A relay that begins or ends hands shards over for a moment. If it lasts, look into "
            "the relays' logs");
        findings_add(findings, &finding);
}

static void add_shards(struct findings *findings, const json_t *sink)
{
        const json_t *shards = status_get(sink, "shards");

        if (json_is_integer(status_get(shards, "wanted")))
                add_change_of_shards(findings, sink);
        else if (json_array_size(status_get(shards, "otherwise")) > 0)
                add_other_numbers(findings, sink);
        if (json_array_size(status_get(shards, "unowned")) > 0 &&
            json_array_size(status_get(shards, "owners")) > 0)
                add_unowned_shards(findings, sink);
}

void findings_add_sinks(struct findings *findings)
{
        const json_t *sink;
        size_t i;

        json_array_foreach(status_get(findings->status, "sinks"), i, sink)
        {
                add_state(findings, sink);
                add_settings(findings, sink);
                add_shards(findings, sink);
                add_receivers(findings, sink);
                if (json_is_object(status_get(sink, "slow_filters")))
                        add_slow_filters(findings, sink);
                if (status_number(sink, "dead") > 0)
                        add_dead(findings, sink);
                if (status_number(sink, "retrying") > 0)
                        add_retrying(findings, sink);
        }
}

static void add_key(struct findings *findings, const json_t *key, unsigned n_keys)
{
        struct finding finding = finding_of(ATTENTION_WARNING, "blocked", status_text(key, "sink"));
        const char *name = status_text(key, "key");
        const char *said = status_text(key, "error");
        double n = status_number(key, "waiting");
        char id[32];

        snprintf(id, sizeof id, "%" JSON_INTEGER_FORMAT,
            json_integer_value(status_get(key, "behind_id")));
        finding.lasts_s = seconds_since(findings, status_text(key, "since"));
        if (n_keys > 1)
                bytes_printf(&finding.title, "%u keys of %s are blocked", n_keys, finding.sink);
        else
                bytes_printf(&finding.title, "Key %.*s of %s is blocked",
                    text_up_to(name, KEY_BYTES), name, finding.sink);
        sentence_append(&finding.why, "%s of key %.*s wait%s behind event %s, which fails",
            words_counted(n, "event", "events").text, text_up_to(name, KEY_BYTES), name,
            n == 1 ? "s" : "", id);
        sentence_append(&finding.why, "%.*s", text_up_to(said, WORD_BYTES), said);
        sentence_append(&finding.remedy, "It goes on when that event is delivered: remove the "
                                         "cause and try it at once, or skip it "
                                         "(it becomes a dead letter)");
        command_append(
            findings, &finding.command, "parked", "retry", "--sink", finding.sink, id, NULL);
        finding.action = ACTION_BLOCKED;
        findings_add(findings, &finding);
}

/* What such a key waits behind is not under way just now. */
static bool is_blocked(const json_t *key, const char *sink)
{
        return json_is_integer(status_get(key, "behind_id")) &&
               (sink == NULL || strcmp(status_text(key, "sink"), sink) == 0);
}

/* One finding for each sink, about the key that most wait for; made where the first one stands. */
void findings_add_keys(struct findings *findings)
{
        const json_t *keys = status_get(findings->status, "blocked_keys");
        const json_t *key, *other;
        size_t i, j;

        json_array_foreach(keys, i, key)
        {
                const char *sink = status_text(key, "sink");
                const json_t *worst = key;
                bool is_first = is_blocked(key, NULL);
                unsigned n_keys = 0;

                json_array_foreach(keys, j, other)
                {
                        if (!is_blocked(other, sink))
                                continue;
                        is_first = is_first && (n_keys > 0 || i == j);
                        n_keys++;
                        if (status_number(other, "waiting") > status_number(worst, "waiting"))
                                worst = other;
                }
                if (is_first)
                        add_key(findings, worst, n_keys);
        }
}
