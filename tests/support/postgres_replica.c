#include "support/postgres_replica.h"

#include "base/alloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PGconn *connect_to(const struct postgres *postgres)
{
        char *dsn = postgres_dsn(postgres, "postgres", "postgres");
        PGconn *connection = database_connect(dsn);

        free(dsn);
        return connection;
}

/* One statement after the other: ALTER SYSTEM stands in no transaction. */
static void configure(PGconn *admin, const char *alter_system)
{
        database_exec(admin, alter_system);
        database_exec(admin, "SELECT pg_reload_conf()");
}

struct awaited {
        PGconn *admin;
        const char *sql;
};

static bool is_true(void *context)
{
        const struct awaited *awaited = context;
        char *value = database_value(awaited->admin, awaited->sql);
        bool yes = strcmp(value, "t") == 0;

        free(value);
        return yes;
}

static void await(PGconn *admin, const char *sql, const char *what)
{
        struct awaited awaited = {.admin = admin, .sql = sql};

        wait_until(is_true, &awaited, 60000, what);
}

static void run_tool(
    const struct postgres *postgres, const char *name, const char *const *options, size_t n_options)
{
        char *tool = xasprintf("%s/%s", postgres_bin_folder(), name);
        const char *argv[16] = {tool};

        memcpy(&argv[1], options, n_options * sizeof *options);
        if (process_run(argv, postgres->log_path, true) != 0)
                test_abort("%s failed:\n%s", name, read_file(postgres->log_path));
        free(tool);
}

static void fill_from_primary(
    const struct postgres *postgres, const char *data, const void *primary)
{
        char *dsn = postgres_dsn(primary, "postgres", "postgres");
        const char *const options[] = {"-D", data, "-d", dsn, "-R", "-c", "fast", "-X", "stream"};

        run_tool(postgres, "pg_basebackup", options, sizeof options / sizeof options[0]);
        free(dsn);
}

static void await_streaming(const struct postgres *standby)
{
        PGconn *admin = connect_to(standby);

        await(admin,
            "SELECT pg_is_in_recovery() AND EXISTS"
            " (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming')",
            "the standby streams");
        PQfinish(admin);
}

struct postgres *postgres_start_standby(const struct postgres *primary)
{
        struct postgres *standby = postgres_start_filled(primary->care, fill_from_primary, primary);

        await_streaming(standby);
        return standby;
}

void postgres_wait_for_standby(const struct postgres *primary)
{
        PGconn *admin = connect_to(primary);

        configure(admin, "ALTER SYSTEM SET synchronous_standby_names = '*'");
        await(admin, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')",
            "the standby is synchronous");
        PQfinish(admin);
}

void postgres_stop_receiving(const struct postgres *standby)
{
        PGconn *admin = connect_to(standby);

        configure(admin, "ALTER SYSTEM SET primary_conninfo = ''");
        await(admin, "SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)",
            "the standby receives nothing");
        PQfinish(admin);
}

void postgres_promote(const struct postgres *standby)
{
        PGconn *admin = connect_to(standby);

        await(admin, "SELECT pg_promote()", "the standby is promoted");
        PQfinish(admin);
}

static void move(const char *from, const char *to)
{
        if (rename(from, to) != 0)
                test_abort("cannot move %s to %s: %s", from, to, strerror(errno));
}

void postgres_take_over(struct postgres *primary, struct postgres *standby)
{
        char *data_of_primary = xasprintf("%s/data", primary->folder);
        char *data_of_standby = xasprintf("%s/data", standby->folder);
        char *aside = xasprintf("%s/old", standby->folder);

        postgres_stop(standby);
        move(data_of_primary, aside);
        move(data_of_standby, data_of_primary);
        move(aside, data_of_standby);
        postgres_start_again(primary);
        postgres_promote(primary);
        free(aside);
        free(data_of_standby);
        free(data_of_primary);
}

void postgres_rewind(struct postgres *postgres, const struct postgres *primary)
{
        char *data = xasprintf("%s/data", postgres->folder);
        char *dsn = postgres_dsn(primary, "postgres", "postgres");
        char *source = xasprintf("--source-server=%s", dsn);
        const char *const options[] = {"-D", data, source, "-R"};

        /* Before that the control file, which pg_rewind reads, does not tell the new timeline. */
        database_exec_once(dsn, "CHECKPOINT");
        if (postgres->postmaster.pid != 0)
                postgres_stop(postgres);
        run_tool(postgres, "pg_rewind", options, sizeof options / sizeof options[0]);
        postgres_start_again(postgres);
        await_streaming(postgres);
        free(source);
        free(dsn);
        free(data);
}

char *postgres_dsn_of_two(const struct postgres *first, const struct postgres *second,
    const char *database, const char *user)
{
        return xasprintf("host=%s,%s port=%u,%u dbname=%s user=%s target_session_attrs=read-write",
            first->folder, second->folder, first->port, second->port, database, user);
}
