#include "relay/reload.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "config/compare.h"
#include "log/log.h"
#include "loop/timer.h"
#include "relay/reload_plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Enough for a busy disk; one that is gone never answers. */
enum { READ_LIMIT_MS = 5000 };

enum reload_state {
        RELOAD_IDLE,
        RELOAD_READING,
        RELOAD_CONNECTING,
        RELOAD_ASKING,
        RELOAD_SWAPPING,
        RELOAD_DISCARDING
};

struct reload {
        struct reload_settings is;
        struct reload_events events;
        void *owner; /* borrowed */
        enum reload_state state;
        bool is_asked; /* another reload is wanted after this one */
        bool is_stopping;
        uint64_t number; /* of the reload under way, or of the last one */
        int64_t began_us;

        struct config_reader *reader; /* owned while READING */
        struct config *other;         /* owned; not in force yet, or not any more */
        /* Owned; credentials alone, of these sinks in force; NULL: a reload of everything. */
        bool *only;
        bool is_of_postgres; /* and of the connections with PostgreSQL */
        struct reload_plan plan;
        struct outbox *probe; /* owned; a session with the new settings */
        bool is_probe_up;
        unsigned n_asked; /* filters without an answer */
        struct error error;
        struct timer *limit; /* owned; ends READING, and hurries sinks that make way */
};

static void mark_dirty(struct reload *reload)
{
        reload->events.on_dirty(reload->owner);
}

/* The only place that assigns reload->state. */
static void enter(struct reload *reload, enum reload_state state)
{
        reload->state = state;
        mark_dirty(reload);
}

static void note_error(struct reload *reload, const struct error *error)
{
        if (reload->error.kind == ERROR_NONE)
                reload->error = *error;
        mark_dirty(reload);
}

static void give_up_reading(struct reload *reload)
{
        struct error why;

        config_reader_give_up(reload->reader, &why);
        reload->reader = NULL;
        if (reload->error.kind == ERROR_NONE)
                error_set(&reload->error, ERROR_TEMPORARY,
                    "%s: the configuration could not be read within %d s. Repair the file system "
                    "of that file%s",
                    why.text, READ_LIMIT_MS / 1000,
                    reload->only == NULL ? ", then reload again" : "");
        mark_dirty(reload);
}

static void on_limit(void *owner)
{
        struct reload *reload = owner;

        if (reload->state == RELOAD_READING) {
                give_up_reading(reload);
                return;
        }
        log_warn("drain_limit_reached",
            kv_text("consequence", "what sinks that are replaced had in flight is cut off and "
                                   "delivered again"));
        sink_set_for_each (dispatcher, reload->is.sink_set)
                dispatcher_hurry(dispatcher);
}

struct reload *reload_create(
    const struct reload_settings *settings, const struct reload_events *events, void *owner)
{
        struct reload *reload = xcalloc(1, sizeof *reload);

        reload->is = *settings;
        reload->events = *events;
        reload->owner = owner;
        reload->limit = timer_create_on(settings->loop, on_limit, reload);
        return reload;
}

static void drop_probe(struct reload *reload)
{
        outbox_destroy(reload->probe);
        reload->probe = NULL;
        reload->is_probe_up = false;
}

void reload_destroy(struct reload *reload)
{
        if (reload == NULL)
                return;
        drop_probe(reload);
        timer_destroy(reload->limit);
        reload_plan_deinit(&reload->plan);
        config_free(reload->other);
        free(reload->only);
        free(reload);
}

uint64_t reload_ask(struct reload *reload)
{
        reload->is_asked = true;
        mark_dirty(reload);
        return reload->number + 1;
}

/* The sinks stay as they are. */
static void report_unusable(const struct reload *reload)
{
        const struct config *config = *reload->is.config;

        log_warn("credentials_unusable", kv_text("error", reload->error.text));
        for (unsigned i = 0; i < config->n_sinks; i++)
                if (reload->only[i])
                        dispatcher_tell_refused(
                            sink_set_find(reload->is.sink_set, config->sinks[i].name));
}

/* "FILE:LINE:COLUMN: …" → LINE; NULL: it does not begin like that. */
static const char *line_of(const char *text, const char *path, char *out_line, size_t size)
{
        size_t length = strlen(path);
        size_t n_digits;

        if (strncmp(text, path, length) != 0 || text[length] != ':')
                return NULL;
        text += length + 1;
        n_digits = strspn(text, "0123456789");
        if (n_digits == 0 || n_digits >= size)
                return NULL;
        memcpy(out_line, text, n_digits);
        out_line[n_digits] = '\0';
        return out_line;
}

static void log_failure(const struct error *error, const char *path)
{
        char line[16];

        log_error("reload_failed", kv_text("error", error->text), kv_text("file", path),
            kv_text("line", line_of(error->text, path, line, sizeof line)),
            kv_text("consequence", "the configuration stays as it was"));
}

static void fail(struct reload *reload)
{
        timer_disarm(reload->limit);
        if (reload->probe != NULL)
                outbox_close(reload->probe);
        sink_set_discard_waiting(reload->is.sink_set);
        reload->events.on_discard(reload->owner);
        enter(reload, RELOAD_DISCARDING);
        if (reload->only != NULL) {
                if (!reload->is_stopping)
                        report_unusable(reload);
                return;
        }
        log_failure(&reload->error, reload->is.path);
        reload->events.on_done(reload->owner,
            &(const struct reload_result){.number = reload->number, .error = &reload->error});
}

/* A sink that goes on keeps its settings, which others have borrowed: they move to the new
 * configuration. */
static void take_along(struct reload *reload, struct config *old, struct config *new)
{
        for (unsigned i = 0; i < new->n_sinks; i++) {
                struct sink_config *before;
                struct sink_config same;

                if (reload->plan.changes[i] != SINK_UNCHANGED)
                        continue;
                before = &old->sinks[reload->plan.predecessors[i]];
                same = *before;
                *before = new->sinks[i];
                new->sinks[i] = same;
                dispatcher_configure(
                    sink_set_find(reload->is.sink_set, same.name), &new->sinks[i], &new->relay);
        }
        if (!reload->plan.reopens && reload->only == NULL) {
                struct postgres_config same = old->postgres;
                old->postgres = new->postgres;
                new->postgres = same;
        }
}

/* Everything but the sinks stays where it is. */
static void exchange_sinks(struct config *a, struct config *b)
{
        struct sink_config *sinks = a->sinks;

        assert(a->n_sinks == b->n_sinks);
        a->sinks = b->sinks;
        b->sinks = sinks;
}

static void retire(struct reload *reload, const struct config *old, const struct config *new)
{
        for (unsigned i = 0; i < new->n_sinks; i++)
                if (reload->plan.changes[i] == SINK_CHANGED)
                        dispatcher_retire(sink_set_find(reload->is.sink_set, new->sinks[i].name));
        for (unsigned i = 0; i < old->n_sinks; i++)
                if (reload->plan.is_removed[i])
                        dispatcher_retire(sink_set_find(reload->is.sink_set, old->sinks[i].name));
}

/* The point of no return. */
static void swap(struct reload *reload)
{
        struct config *old = *reload->is.config;
        struct config *new = reload->other;

        drop_probe(reload);
        take_along(reload, old, new);
        retire(reload, old, new);
        sink_set_hold(reload->is.sink_set, reload->plan.reopens);
        if (reload->only != NULL) {
                exchange_sinks(old, new);
        } else {
                *reload->is.config = new;
                reload->other = old;
        }
        timer_arm(reload->limit, (uint64_t) new->relay.drain_ms);
        reload_plan_log(&reload->plan, old, new);
        if (reload->only == NULL)
                reload->events.on_applied(reload->owner, old);
        enter(reload, RELOAD_SWAPPING);
}

/* Only PostgreSQL can check a filter, and a lane whose filter is refused would end the relay. */
static void ask_filters(struct reload *reload)
{
        struct outbox *outbox = reload->probe != NULL ? reload->probe : reload->is.outbox;

        for (unsigned i = 0; i < reload->other->n_sinks; i++) {
                if (!reload_plan_is_filter_new(&reload->plan, *reload->is.config, reload->other, i))
                        continue;
                reload->n_asked++;
                outbox_check_filter(outbox, reload->other->sinks[i].filter);
        }
        if (reload->n_asked > 0 && !outbox_is_up(outbox)) {
                reload->n_asked = 0;
                error_set(&reload->error, ERROR_DATABASE,
                    "a new filter cannot be checked without a connection to PostgreSQL");
        }
        enter(reload, RELOAD_ASKING);
}

void reload_filter_checked(struct reload *reload, const char *words)
{
        if (reload->state != RELOAD_ASKING || reload->n_asked == 0)
                return;
        reload->n_asked--;
        if (words != NULL && reload->error.kind == ERROR_NONE)
                error_set(&reload->error, ERROR_CONFIG,
                    "PostgreSQL does not accept a new filter as a jsonpath predicate: %s", words);
        mark_dirty(reload);
}

void reload_session_down(struct reload *reload)
{
        struct error error;

        if (reload->probe != NULL || reload->state != RELOAD_ASKING || reload->n_asked == 0)
                return;
        reload->n_asked = 0;
        error_set(&error, ERROR_DATABASE,
            "the connection to PostgreSQL was lost while new filters were checked");
        note_error(reload, &error);
}

static void on_probe_up(void *owner)
{
        struct reload *reload = owner;

        reload->is_probe_up = true;
        mark_dirty(reload);
}

static void on_probe_refused(void *owner, const struct error *error)
{
        note_error(owner, error);
}

static void on_probe_down(void *owner, const struct error *error, int64_t retry_ms)
{
        struct reload *reload = owner;

        (void)retry_ms;
        reload->n_asked = 0;
        note_error(reload, error);
}

static void on_probe_filter(void *owner, const char *words)
{
        reload_filter_checked(owner, words);
}

static void try_session(struct reload *reload)
{
        static const struct outbox_events events = {.on_up = on_probe_up,
            .on_down = on_probe_down,
            .on_refused = on_probe_refused,
            .on_filter_checked = on_probe_filter};

        reload->probe = outbox_create(reload->is.loop, &reload->other->postgres, &events, reload);
        enter(reload, RELOAD_CONNECTING);
        outbox_open(reload->probe);
}

static bool open_sinks(struct reload *reload)
{
        const struct config *new = reload->other;

        sink_set_hold(reload->is.sink_set, true);
        for (unsigned i = 0; i < new->n_sinks; i++)
                if (reload->plan.changes[i] != SINK_UNCHANGED &&
                    !sink_set_add(reload->is.sink_set, &new->sinks[i], &new->relay, &reload->error))
                        return false;
        return true;
}

static void on_read(void *owner, struct config *config, const struct error *error)
{
        struct reload *reload = owner;

        reload->reader = NULL;
        reload->other = config;
        if (config == NULL)
                note_error(reload, error);
        mark_dirty(reload);
}

static void read_files(struct reload *reload)
{
        const struct config *same = reload->only != NULL ? *reload->is.config : NULL;
        struct error why;

        reload->error.kind = ERROR_NONE;
        reload->reader = config_reader_start(
            reload->is.loop, reload->is.path, same, reload->is.load, on_read, reload, &why);
        if (reload->reader == NULL)
                error_set(
                    &reload->error, why.kind, "an earlier reading has not ended: %s", why.text);
        timer_arm(reload->limit, READ_LIMIT_MS);
        enter(reload, RELOAD_READING);
}

static void begin(struct reload *reload)
{
        reload->is_asked = false;
        reload->number++;
        reload->began_us = clock_monotonic_us();
        log_info("reloading", kv_text("file", reload->is.path));
        reload->events.on_begin(reload->owner);
        read_files(reload);
}

/* True: the files are being read, perhaps for another sink already. */
static bool read_credentials(struct reload *reload)
{
        if (reload->is_stopping)
                return false;
        if (reload->state == RELOAD_READING && reload->only != NULL)
                return true;
        if (reload->state != RELOAD_IDLE || reload->is_asked)
                return false;
        reload->only = xcalloc((*reload->is.config)->n_sinks + 1, sizeof *reload->only);
        read_files(reload);
        return true;
}

bool reload_postgres_refused(struct reload *reload)
{
        if (!read_credentials(reload))
                return false;
        reload->is_of_postgres = true;
        return true;
}

bool reload_sink_refused(struct reload *reload, const char *sink)
{
        const struct config *config = *reload->is.config;

        if (!read_credentials(reload))
                return false;
        for (unsigned i = 0; i < config->n_sinks; i++)
                if (strcmp(config->sinks[i].name, sink) == 0)
                        reload->only[i] = true;
        return true;
}

static void prepare(struct reload *reload)
{
        reload_plan_init(&reload->plan, *reload->is.config, reload->other, reload->only);
        if ((reload->only == NULL &&
                !reload->events.prepare(reload->owner, reload->other, &reload->error)) ||
            !open_sinks(reload))
                fail(reload);
        else if (reload->plan.reopens)
                try_session(reload);
        else
                ask_filters(reload);
}

static void report_unreadable(const struct reload *reload, const char *of)
{
        log_warn("credentials_unreadable", kv_text("of", of), kv_text("error", reload->error.text));
}

/* Leaves in `only` the refused sinks that have other credentials now. False: none has. */
static bool keep_mended(struct reload *reload)
{
        const struct config *old = *reload->is.config;
        bool is_any = false;

        /* Both were read from the same text. */
        assert(reload->other == NULL || reload->other->n_sinks == old->n_sinks);
        for (unsigned i = 0; i < old->n_sinks; i++) {
                const struct sink_config *sink = &old->sinks[i];
                if (!reload->only[i])
                        continue;
                if (reload->other == NULL)
                        report_unreadable(reload, sink->name);
                if (reload->other == NULL ||
                    sink_configs_are_equal(sink, &reload->other->sinks[i])) {
                        reload->only[i] = false;
                        dispatcher_tell_refused(sink_set_find(reload->is.sink_set, sink->name));
                        continue;
                }
                log_info("credentials_read", kv_text("of", sink->name));
                is_any = true;
        }
        return is_any;
}

static void end(struct reload *reload)
{
        drop_probe(reload);
        timer_disarm(reload->limit);
        reload_plan_deinit(&reload->plan);
        config_free(reload->other);
        reload->other = NULL;
        free(reload->only);
        reload->only = NULL;
        reload->is_of_postgres = false;
        sink_set_hold(reload->is.sink_set, false);
        enter(reload, RELOAD_IDLE);
}

static void go_on_with_credentials(struct reload *reload)
{
        if (reload->is_of_postgres) {
                if (reload->other == NULL)
                        report_unreadable(reload, "postgres");
                reload->events.on_postgres_read(reload->owner, reload->other);
        }
        if (keep_mended(reload))
                prepare(reload);
        else
                end(reload);
}

static void go_on(struct reload *reload)
{
        timer_disarm(reload->limit);
        if (reload->only != NULL)
                go_on_with_credentials(reload);
        else if (reload->error.kind != ERROR_NONE)
                fail(reload);
        else
                prepare(reload);
}

static void report_success(struct reload *reload)
{
        const struct config *new = *reload->is.config;
        const struct reload_plan *plan = &reload->plan;
        char *added = reload_plan_name_new(plan, new, SINK_ADDED);
        char *changed = reload_plan_name_new(plan, new, SINK_CHANGED);
        char *removed = reload_plan_name_removed(plan, reload->other);
        const struct reload_result result = {.number = reload->number,
            .added = added,
            .changed = changed,
            .removed = removed,
            .n_unchanged = plan->n_unchanged,
            .is_reopened = plan->reopens};

        log_info("reloaded", kv_text("added", added), kv_text("changed", changed),
            kv_text("removed", removed), kv_int("unchanged", plan->n_unchanged),
            kv_text("session", plan->reopens ? "reopened" : "kept"),
            kv_ms("took_ms", (double)(clock_monotonic_us() - reload->began_us) / 1000));
        reload->events.on_done(reload->owner, &result);
        free(added);
        free(changed);
        free(removed);
}

static void serve_swapping(struct reload *reload)
{
        struct sink_set *sink_set = reload->is.sink_set;

        if (reload->plan.reopens && sink_set_is_held(sink_set) && sink_set_has_made_way(sink_set)) {
                reload->events.on_reopen(reload->owner);
                sink_set_hold(sink_set, false);
        }
        if (!sink_set_is_settled(sink_set))
                return;
        if (reload->only == NULL)
                report_success(reload);
        end(reload);
}

void reload_serve(struct reload *reload)
{
        switch (reload->state) {
        case RELOAD_IDLE:
                if (reload->is_asked && !reload->is_stopping)
                        begin(reload);
                return;
        case RELOAD_READING:
                if (reload->reader == NULL)
                        go_on(reload);
                return;
        case RELOAD_CONNECTING:
                if (reload->error.kind != ERROR_NONE)
                        fail(reload);
                else if (reload->is_probe_up)
                        ask_filters(reload);
                return;
        case RELOAD_ASKING:
                if (reload->n_asked > 0)
                        return;
                if (reload->error.kind != ERROR_NONE)
                        fail(reload);
                else
                        swap(reload);
                return;
        case RELOAD_SWAPPING:
                serve_swapping(reload);
                return;
        case RELOAD_DISCARDING:
                if (sink_set_is_settled(reload->is.sink_set))
                        end(reload);
                return;
        }
}

void reload_stop(struct reload *reload)
{
        reload->is_stopping = true;
        if (reload->state != RELOAD_READING && reload->state != RELOAD_CONNECTING &&
            reload->state != RELOAD_ASKING)
                return;
        if (reload->error.kind == ERROR_NONE)
                error_set(&reload->error, ERROR_TEMPORARY, "the relay is stopping");
        if (reload->reader != NULL)
                give_up_reading(reload);
        fail(reload);
}
