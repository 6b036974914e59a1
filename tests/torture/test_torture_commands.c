/*
 * The commands that people change parked deliveries, dead letters and pauses with, each with one
 * call in it failing: it is done and said, or it is not done; never by halves, and nothing gets
 * lost.
 */
#include "base/alloc.h"
#include "support/postgres.h"
#include "support/process.h"
#include "torture/sweep.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEADLINE_MS 30000
#define MAX_WORDS   8

struct rig {
        PGconn *admin;
        char *dsn; /* of the role relay */
        char *folder;
        char *output_path;
        char *list_path;

        const char *words[MAX_WORDS]; /* the command */
        char *before;                 /* what is in the database, as text */
        char *done;                   /* likewise, after the command */
        char *says;                   /* when nothing fails */
        unsigned n_faults;
};

static const char fill[] =
    "TRUNCATE courier.dead_letter, courier.parked RESTART IDENTITY; DELETE FROM courier.pause;"
    "INSERT INTO courier.dead_letter (sink, lane, outbox_id, reason, attempts, error, died_at,"
    "  event_id, topic, key, payload, headers, created_at)"
    " SELECT 'bus', 0, n, 'rejected', 1, 'no', '2020-01-01', ('{' || md5('e' || n) || '}')::uuid,"
    "  't', 'k', to_json(n), '{\"a\": \"b\"}', '2020-01-01' FROM generate_series(1, 3) n;"
    "INSERT INTO courier.parked (sink, lane, outbox_id, state, due_at, event_id, topic, key, data,"
    "  created_at, parked_at)"
    " SELECT 'bus', 0, n, CASE n WHEN 4 THEN 'retry' ELSE 'blocked' END, '2099-01-01',"
    "  ('{' || md5('e' || n) || '}')::uuid, 't', 'k', '\\x00ff', '2020-01-01', '2020-01-01'"
    " FROM generate_series(4, 5) n;"
    "INSERT INTO courier.pause (sink, by, paused_at) VALUES ('hook', 'operator', '2020-01-01')";

/* All that the commands may change. */
static const char look[] =
    "SELECT string_agg(line, E'\\n' ORDER BY line) FROM ("
    " SELECT format('dead %s %s %s %s', outbox_id, event_id, payload, headers) line"
    "  FROM courier.dead_letter"
    " UNION ALL SELECT format('parked %s %s %s %s %s %s %s %s %s', outbox_id, event_id, state, "
    "skip,"
    "   due_at <= clock_timestamp(), is_redriven, payload, headers, data) FROM courier.parked"
    " UNION ALL SELECT format('pause %s %s %s', sink, by, reason) FROM courier.pause) l";

static char *read_state(const struct rig *rig)
{
        PGresult *row = PQexec(rig->admin, look);
        char *state;

        if (PQresultStatus(row) != PGRES_TUPLES_OK)
                test_abort("%s", PQerrorMessage(rig->admin));
        state = xstrdup(PQgetvalue(row, 0, 0));
        PQclear(row);
        return state;
}

/* Returns the exit code; its output is in the file. */
static int run_command(const struct rig *rig, const char *setting)
{
        const char *argv[MAX_WORDS + 4] = {getenv("PGCOURIER")};
        struct process process;
        int n = 1;

        for (int i = 0; rig->words[i] != NULL; i++)
                argv[n++] = rig->words[i];
        argv[n++] = "--dsn";
        argv[n] = rig->dsn;
        database_exec(rig->admin, fill);
        unlink(rig->output_path);
        torture_start(&process, argv, rig->output_path, rig->list_path, setting);
        return process_wait(&process, DEADLINE_MS);
}

static const char *find_fault(const struct rig *rig, int code, const char *state, const char *says)
{
        if (code == TORTURE_REPORTED || !torture_is_allowed(code))
                return "it ended as it must not";
        if (strcmp(state, rig->before) != 0 && strcmp(state, rig->done) != 0)
                return "it was done by halves";
        if (code == 0 && strcmp(state, rig->done) != 0)
                return "it says that it is done, and it is not";
        if (code == 0 && strcmp(says, rig->says) != 0)
                return "it did not say all";
        if (code != 0 && strstr(says, "pgcourier: ") == NULL)
                return "it did not say why it failed";
        return NULL;
}

static void on_run(void *owner, const char *setting)
{
        struct rig *rig = owner;
        int code = run_command(rig, setting);
        char *state = read_state(rig);
        char *says = read_file(rig->output_path);
        const char *fault = find_fault(rig, code, state, says);

        if (fault != NULL) {
                torture_complain(rig->list_path, rig->output_path, 0, setting, fault);
                fprintf(stderr, "---- %s %s ended with %d; in the database:\n%s\n", rig->words[0],
                    rig->words[1], code, state);
                rig->n_faults++;
        }
        free(state);
        free(says);
}

static void torture(struct rig *rig)
{
        static const struct {
                const char *kind;
                const char *suffix;
        } sweeps[] = {{"allocation", ""}, {"libpq", ""}, {"receive-reset", ""}, {"send-pipe", ""},
            {"connect-refused", ""}, {"write-full", ""}};
        struct torture_sweep sweep = {
            .list_path = rig->list_path, .n_samples = 2, .run = on_run, .owner = rig};

        database_exec(rig->admin, fill);
        rig->before = read_state(rig);
        cr_assert_eq(run_command(rig, NULL), 0, "%s", read_file(rig->output_path));
        rig->done = read_state(rig);
        rig->says = read_file(rig->output_path);
        for (size_t i = 0; i < sizeof sweeps / sizeof sweeps[0]; i++) {
                sweep.kind = sweeps[i].kind;
                sweep.suffix = sweeps[i].suffix;
                torture_sweep(&sweep);
        }
}

static void begin(struct rig *rig)
{
        char *dsn = postgres_new_database(postgres_shared());

        rig->admin = database_connect(dsn);
        rig->dsn = dsn_as_user(dsn, "relay");
        free(dsn);
        rig->folder = temp_folder();
        rig->output_path = xasprintf("%s/output", rig->folder);
        rig->list_path = xasprintf("%s/calls", rig->folder);
}

static void end(struct rig *rig)
{
        PQfinish(rig->admin);
        free(rig->dsn);
        free(rig->folder);
        free(rig->output_path);
        free(rig->list_path);
        free(rig->before);
        free(rig->done);
        free(rig->says);
        cr_expect_eq(rig->n_faults, 0, "%u faults", rig->n_faults);
}

#define TORTURE_COMMAND(name, ...)                                                                 \
        Test(commands, name)                                                                       \
        {                                                                                          \
                struct rig rig = {.words = {__VA_ARGS__}};                                         \
                                                                                                   \
                begin(&rig);                                                                       \
                torture(&rig);                                                                     \
                end(&rig);                                                                         \
        }

TORTURE_COMMAND(dead_list, "dead", "list", "--json")
TORTURE_COMMAND(dead_show, "dead", "show", "2", "--json")
TORTURE_COMMAND(dead_redrive, "dead", "redrive", "--all", "--yes")
TORTURE_COMMAND(dead_drop, "dead", "drop", "1", "3")
TORTURE_COMMAND(parked_list, "parked", "list", "--json", "--blocked")
TORTURE_COMMAND(parked_skip, "parked", "skip", "--sink", "bus", "--yes")
TORTURE_COMMAND(parked_retry, "parked", "retry", "--all", "--yes")
TORTURE_COMMAND(pause, "pause", "bus", "--force", "--reason", "r")
TORTURE_COMMAND(resume, "resume", "hook")
