#include "admin/findings/findings.h"

#include "admin/findings/findings_internal.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define HELD_S      300    /* a snapshot that is held for so long holds back vacuum */
#define HELD_XIDS   100000 /* or one with so many transactions since, where no time is known */
#define FULL_ENOUGH 0.05   /* of the notification queue, which has 8 GB */

/* About all sinks; the doctor says more. `said` is of PostgreSQL or the relay; it and `why` may
 * be empty. Takes the finding. */
static void add_trouble(struct findings *findings, struct finding finding, const char *title,
    const char *said, const char *why, const char *remedy)
{
        bytes_append_text(&finding.title, title);
        sentence_append(&finding.why, "%s", said);
        sentence_append(&finding.why, "%s", why);
        sentence_append(&finding.remedy, "%s", remedy);
        command_append(findings, &finding.command, "doctor", NULL);
        findings_add(findings, &finding);
}

static void add_source_down(struct findings *findings, const json_t *source)
{
        const char *said = status_text(source, "error");

        add_trouble(findings, finding_of(ATTENTION_ERROR, "source", NULL),
            "PostgreSQL cannot be reached", *said != '\0' ? said : "The connection is lost", "",
            "Nothing is delivered until it is back; then the relay goes on by itself, and nothing "
            "is lost");
}

static void add_login_refused(struct findings *findings, const json_t *source)
{
        struct finding finding = finding_of(ATTENTION_ERROR, "source", NULL);

        finding.lasts_s = seconds_since(findings, status_text(source, "login_refused_since"));
        add_trouble(findings, finding, "PostgreSQL refuses the login", status_text(source, "error"),
            "Nothing is delivered. The files that the configuration names were read again, and "
            "have not changed",
            "Write the right password to the file (password_file, dsn_file), or correct the role "
            "in PostgreSQL: then the relay reconnects by itself within 5 s. A password or dsn in "
            "the configuration itself needs a reload");
}

static void add_sequence(struct findings *findings, const json_t *sequence)
{
        struct finding finding = finding_of(ATTENTION_ERROR, "sequence", NULL);

        sentence_append(&finding.remedy, "%s", status_text(sequence, "remedy"));
        add_trouble(findings, finding, "The sequence of the outbox cannot be relied on",
            status_text(sequence, "trouble"), "",
            "Nothing is delivered until then, and nothing is lost. A relay that runs goes on by "
            "itself afterwards");
}

static void add_filters(struct findings *findings, const json_t *filters)
{
        struct finding finding = finding_of(ATTENTION_ERROR, "filters", NULL);

        finding.lasts_s = seconds_since(findings, status_text(filters, "since"));
        add_trouble(findings, finding, "Filters cannot be evaluated", status_text(filters, "error"),
            "Sinks and receivers that have a filter wait; the others go on",
            "Filters are evaluated on connections of their own: allow the role two more "
            "connections, and check the server's memory. The relay tries again by itself every few "
            "seconds");
}

static void add_look_failed(struct findings *findings)
{
        add_trouble(findings, finding_of(ATTENTION_WARNING, "look", NULL),
            "The status could not be read from the database",
            status_text(findings->status, "look_error"), "",
            "Deliveries go on; backlogs, dead letters and blocked keys are those of the last "
            "successful read");
}

static void add_queue(struct findings *findings, double usage)
{
        char title[64];

        snprintf(title, sizeof title, "The notification queue is %.0f %% full", usage * 100);
        add_trouble(findings, finding_of(ATTENTION_ERROR, "queue", NULL), title, "",
            "A listening session is inside a transaction. When the queue is full, every commit "
            "that notifies fails, so publishing fails",
            "End that session; the doctor names it");
}

static void append_terminate(struct findings *findings, struct bytes *command, long long pid)
{
        char sql[64];

        snprintf(sql, sizeof sql, "SELECT pg_terminate_backend(%lld)", pid);
        psql_append(findings, command, sql);
}

static void add_holder(struct findings *findings, const json_t *holder)
{
        struct finding finding = finding_of(ATTENTION_WARNING, "xmin", NULL);
        bool has_age = json_is_number(status_get(holder, "age"));
        double n_since = status_number(holder, "age_xids");
        long long pid = (long long)status_number(holder, "pid");

        if (has_age ? status_number(holder, "age") < HELD_S : n_since < HELD_XIDS)
                return;
        bytes_printf(&finding.title, "A snapshot is held");
        if (pid > 0)
                bytes_printf(&finding.title, " by process %lld", pid);
        if (has_age)
                finding.lasts_s = status_number(holder, "age");
        sentence_append(&finding.why, "%s", status_text(holder, "what"));
        sentence_append(&finding.why,
            "Delivery goes on, but PostgreSQL cannot remove rows that died since (%s so far), and "
            "tables "
            "grow",
            words_counted(n_since, "transaction", "transactions").text);
        if (pid > 0) {
                sentence_append(&finding.remedy, "Have its owner commit or roll back, or end it");
                append_terminate(findings, &finding.command, pid);
        } else {
                sentence_append(
                    &finding.remedy, "Commit it or roll it back, or drop what holds it");
        }
        findings_add(findings, &finding);
}

/* Advisory locks know no rights: what can be done is to name who has them. */
static void add_foreign_locks(struct findings *findings, const json_t *holder)
{
        const json_t *sinks = status_get(holder, "sinks"), *sink;
        bool keeps_lanes = json_array_size(sinks) > 0;
        bool keeps_maintenance = json_is_true(status_get(holder, "maintenance"));
        long long pid = (long long)status_number(holder, "pid");
        const char *user = status_text(holder, "user");
        struct bytes names = {0};
        char kind[48];
        struct finding finding = finding_of(
            keeps_lanes || keeps_maintenance ? ATTENTION_ERROR : ATTENTION_WARNING, kind, NULL);
        size_t i;

        snprintf(kind, sizeof kind, "foreign:%lld", pid);
        bytes_printf(
            &finding.title, "Process %lld of role %s holds locks of the relays", pid, user);
        if (*status_text(holder, "since") != '\0')
                sentence_append(
                    &finding.why, "It is connected since %s", status_text(holder, "since"));
        if (*status_text(holder, "application_name") != '\0')
                sentence_append(&finding.why, "Its application_name is %s",
                    status_text(holder, "application_name"));
        sentence_append(&finding.why, "%s may not move cursors, so it is no relay", user);
        json_array_foreach(sinks, i, sink)
        {
                bytes_printf(&names, "%s%s", i > 0 ? ", " : "", json_string_value(sink));
        }
        if (keeps_lanes)
                sentence_append(&finding.why, "It keeps every relay from delivering %.*s",
                    text_up_to(names.data, 200), names.data);
        if (keeps_maintenance)
                sentence_append(
                    &finding.why, "It blocks the maintenance of the outbox: no event is removed");
        if (json_is_true(status_get(holder, "doorbell")))
                sentence_append(&finding.why, "It makes every writer notify");
        sentence_append(&finding.remedy,
            "End it as a superuser or a member of pg_signal_backend; if it comes "
            "back, revoke the right to connect from its role");
        append_terminate(findings, &finding.command, pid);
        findings_add(findings, &finding);
        bytes_deinit(&names);
}

/* A session that is no relay's holds its lock. */
static bool is_held_by_stranger(const struct findings *findings, const char *name)
{
        const json_t *source = status_get(findings->status, "source");
        const json_t *holder, *sink;
        size_t i, j;

        json_array_foreach(status_get(source, "foreign_locks"), i, holder)
            json_array_foreach(status_get(holder, "sinks"), j, sink)
        {
                if (strcmp(json_string_value(sink), name) == 0)
                        return true;
        }
        return false;
}

static void add_source(struct findings *findings)
{
        const json_t *source = status_get(findings->status, "source");
        double usage = status_number(source, "notify_queue_usage");
        const json_t *holder;
        size_t i;

        if (*status_text(source, "login_refused_since") != '\0')
                add_login_refused(findings, source);
        else if (json_is_object(status_get(source, "sequence")))
                add_sequence(findings, status_get(source, "sequence"));
        else if (json_is_false(status_get(source, "up")))
                add_source_down(findings, source);
        else if (*status_text(findings->status, "look_error") != '\0')
                add_look_failed(findings);
        if (json_is_object(status_get(source, "filters")))
                add_filters(findings, status_get(source, "filters"));
        if (usage >= FULL_ENOUGH)
                add_queue(findings, usage);
        add_holder(findings, status_get(source, "oldest_xmin"));
        json_array_foreach(status_get(source, "foreign_locks"), i, holder)
            add_foreign_locks(findings, holder);
}

static void add_orphan(struct findings *findings, const json_t *orphan)
{
        struct finding finding =
            finding_of(ATTENTION_WARNING, "orphan", status_text(orphan, "sink"));
        double unmoved_s = seconds_since(findings, status_text(orphan, "settled_at"));
        char unmoved[48];

        bytes_printf(&finding.title, "The cursor of %s holds the log", finding.sink);
        sentence_append(&finding.why,
            "No configuration of a running relay has that sink, so the outbox keeps all events for "
            "it: its cursor is %s behind",
            words_counted(status_number(orphan, "behind"), "id", "ids").text);
        if (unmoved_s >= 0) {
                findings_duration(unmoved, sizeof unmoved, unmoved_s);
                sentence_append(&finding.why, "It has not moved for %s", unmoved);
        }
        sentence_append(&finding.remedy, "Configure the sink again, or drop its cursor");
        command_append(findings, &finding.command, "cursor", "drop", finding.sink, NULL);
        findings_add(findings, &finding);
}

static void add_orphans(struct findings *findings)
{
        const json_t *orphan;
        size_t i;

        json_array_foreach(status_get(findings->status, "orphans"), i, orphan)
            add_orphan(findings, orphan);
}

static void add_unserved(struct findings *findings)
{
        const json_t *one;
        size_t i;

        json_array_foreach(status_get(findings->status, "unserved"), i, one)
        {
                struct finding finding =
                    finding_of(ATTENTION_WARNING, "unserved", status_text(one, "sink"));
                double n = status_number(one, "receivers");

                bytes_printf(&finding.title, "%s of %s get%s nothing",
                    words_counted(n, "receiver", "receivers").text, finding.sink,
                    n == 1 ? "s" : "");
                sentence_append(&finding.why,
                    "No relay serves a sink of that name with receivers: table. The first of them "
                    "is %s",
                    status_text(one, "first"));
                sentence_append(&finding.remedy, "Start a relay that has the sink; or, if its name "
                                                 "is wrong, remove them and add "
                                                 "them to the right one");
                command_append(
                    findings, &finding.command, "receiver", "list", "--sink", finding.sink, NULL);
                findings_add(findings, &finding);
        }
}

static void add_config(struct findings *findings)
{
        const json_t *config = status_get(findings->status, "config");
        struct finding finding = finding_of(ATTENTION_WARNING, "config", NULL);

        if (!json_is_false(status_get(config, "last_reload_ok")))
                return;
        bytes_printf(&finding.title, "The last reload failed");
        sentence_append(&finding.why, "%s", status_text(config, "last_reload_error"));
        sentence_append(&finding.remedy,
            "The configuration before it stays in force. Correct the file, check it, and reload");
        command_append(findings, &finding.command, "check", NULL);
        finding.action = ACTION_RELOAD;
        findings_add(findings, &finding);
}

/* Nothing is wrong, but people should not look for deliveries here. */
static void add_standby(struct findings *findings)
{
        const json_t *sinks = status_get(findings->status, "sinks");
        struct finding finding = finding_of(ATTENTION_NOTE, "standby", NULL);
        const json_t *sink, *owner = NULL;
        struct bytes names = {0};
        size_t n_idle = 0;
        size_t i;

        json_array_foreach(sinks, i, sink)
        {
                if (strcmp(status_text(sink, "state"), "standby") != 0 ||
                    is_held_by_stranger(findings, status_text(sink, "name")))
                        continue;
                bytes_printf(&names, "%s%s", n_idle++ > 0 ? ", " : "", status_text(sink, "name"));
                if (owner == NULL && json_is_object(status_get(sink, "owner")))
                        owner = status_get(sink, "owner");
        }
        if (n_idle > 0) {
                const char *client = status_text(owner, "client");
                const char *name = status_text(owner, "application_name");
                static const char ours[] = "pgcourier ";

                bytes_printf(&finding.title, "This relay stands by");
                if (n_idle < json_array_size(sinks))
                        bytes_printf(&finding.title, " for %s", names.data);
                if (owner != NULL)
                        sentence_append(&finding.why,
                            "Another one delivers (%s%sprocess %.0f of the database%s%s)",
                            strncmp(name, ours, strlen(ours)) == 0 ? name + strlen(ours) : name,
                            *name != '\0' ? ", " : "", status_number(owner, "pid"),
                            *client != '\0' ? ", from " : "", client);
                else
                        sentence_append(&finding.why, "Another one delivers");
                sentence_append(&finding.remedy, "It takes over by itself when that one ends");
                findings_add(findings, &finding);
        }
        bytes_deinit(&names);
}

/* As an operator wants it, who may have forgotten it since. */
static void add_drained(struct findings *findings)
{
        const json_t *relay;
        size_t i;

        json_array_foreach(status_get(findings->status, "relays"), i, relay)
        {
                const char *name = status_text(relay, "name");
                char kind[80];
                struct finding finding = finding_of(ATTENTION_NOTE, kind, NULL);

                if (!json_is_true(status_get(relay, "is_drained")))
                        continue;
                snprintf(kind, sizeof kind, "drained:%.63s", name);
                bytes_printf(&finding.title, "Relay %s is drained", name);
                sentence_append(&finding.why, "It takes no shards, because an operator said so");
                sentence_append(&finding.remedy, "To let it take its part again, undrain it");
                command_append(findings, &finding.command, "relay", "undrain", name, NULL);
                findings_add(findings, &finding);
        }
}

static bool has_error(const json_t *list)
{
        const json_t *one;
        size_t i;

        json_array_foreach(list, i, one)
        {
                if (strcmp(status_text(one, "level"), findings_level_name(ATTENTION_ERROR)) == 0)
                        return true;
        }
        return false;
}

/* What /readyz says and nothing else explains. */
static void add_readiness(struct findings *findings)
{
        const json_t *words;
        size_t i;

        if (!json_is_false(status_get(findings->status, "ready")) || has_error(findings->list))
                return;
        json_array_foreach(status_get(findings->status, "not_ready"), i, words)
        {
                char kind[32];
                struct finding finding = finding_of(ATTENTION_ERROR, kind, NULL);

                snprintf(kind, sizeof kind, "ready:%zu", i);
                bytes_printf(&finding.title, "The relay is not ready");
                sentence_append(&finding.why, "%s", json_string_value(words));
                command_append(findings, &finding.command, "doctor", NULL);
                findings_add(findings, &finding);
        }
}

static json_t *sorted(json_t *list)
{
        json_t *result = json_array();
        json_t *one;
        size_t i;

        for (int level = 0; level < N_ATTENTION_LEVELS; level++)
                json_array_foreach(list, i, one)
                {
                        if (strcmp(status_text(one, "level"), findings_level_name(level)) == 0)
                                json_array_append(result, one);
                }
        json_decref(list);
        return result;
}

json_t *findings_find(const json_t *status)
{
        struct findings findings = {.status = status, .list = json_array()};

        add_source(&findings);
        findings_add_retention(&findings);
        findings_add_taps(&findings);
        findings_add_sinks(&findings);
        findings_add_keys(&findings);
        findings_add_marks(&findings);
        findings_add_schedules(&findings);
        add_orphans(&findings);
        add_unserved(&findings);
        add_config(&findings);
        add_standby(&findings);
        add_drained(&findings);
        add_readiness(&findings);
        return sorted(findings.list);
}

unsigned findings_count(const json_t *list)
{
        const json_t *one;
        unsigned n = 0;
        size_t i;

        json_array_foreach(list, i, one) n +=
            strcmp(status_text(one, "level"), findings_level_name(ATTENTION_NOTE)) != 0;
        return n;
}
