/*
 * The programs that docs/publishing.md shows, taken from the page: the change and the event are one
 * transaction. ctest runs those whose packages are Debian's; scripts/test-consumers gets what the
 * others need, and runs them.
 */
#include "consumers/node_packages.h"
#include "support/postgres_expect.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE PGCOURIER_SOURCE_FOLDER "/docs/publishing.md"
#define KEPT PGCOURIER_SOURCE_FOLDER "/.cache"

#define WITH_PIP "PYTHONPATH='" KEPT "/publishing/python' /usr/bin/python3 "

struct piece {
        const char *heading;
        const char *command; /* in the folder of its files */
};

static const struct piece pieces[] = {
    {"psycopg", "/usr/bin/python3 publish_psycopg.py"},
    {"SQLAlchemy", WITH_PIP "publish_sqlalchemy.py"},
    {"Django", WITH_PIP "publish_django.py"},
    {"node-postgres", "ln -sfn \"$NODE_PATH\" node_modules && " PGCOURIER_NODE " publish_pg.mjs"},
    /* Its own engine for migrations, which it would load down, is not asked. */
    {"Prisma", "ln -sfn '" KEPT "/publishing/node/node_modules' node_modules &&"
               " PRISMA_SCHEMA_ENGINE_BINARY=/bin/true node_modules/.bin/prisma"
               " generate --schema schema.prisma && " PGCOURIER_NODE " publish_prisma.mjs"},
    {"pgx", "cp '" PGCOURIER_SOURCE_FOLDER "'/docs/consumers/go/go.* . && go run main.go"},
    {"JDBC", "java -cp '" KEPT "/publishing/java/*' PublishJdbc.java"},
    {"Spring", "java -cp '" KEPT "/publishing/java/*' PublishSpring.java"},
    {"ActiveRecord", "ruby publish_active_record.rb"},
    {"Laravel", "mkdir -p vendor && echo '<?php require \"Illuminate/Database/autoload.php\";'"
                " >vendor/autoload.php && php publish_laravel.php"},
};

struct stage {
        struct test_database database;
        char *page;
        char *folder;
        char *log_path;
};

/* A line without its "# " or "// ", if it is that and a file's name; else NULL. To be freed. */
static char *file_named_by(const char *line)
{
        size_t mark = strncmp(line, "# ", 2) == 0 ? 2 : strncmp(line, "// ", 3) == 0 ? 3 : 0;
        size_t length = strcspn(line, "\n") - mark;
        char *name;

        if (mark == 0 || strcspn(line + mark, " \n") != length ||
            memchr(line + mark, '.', length) == NULL)
                return NULL;
        name = xstrndup(line + mark, length);
        return name;
}

static void write_file(const char *folder, const char *name, const char *text, size_t bytes)
{
        char *path = xasprintf("%s/%s", folder, name);
        FILE *file = fopen(path, "w");

        cr_assert(
            file != NULL && fwrite(text, 1, bytes, file) == bytes && fclose(file) == 0, "%s", path);
        free(path);
}

/* Writes the blocks of code below that heading whose first or second line is the name of a file. */
static unsigned write_files_below(const struct stage *stage, const char *heading)
{
        char *title = xasprintf("\n## %s\n", heading);
        const char *at = strstr(stage->page, title);
        const char *end = at != NULL ? strstr(at + strlen(title), "\n## ") : NULL;
        unsigned n = 0;

        cr_assert(at != NULL && end != NULL, "%s has no heading %s", PAGE, heading);
        while ((at = strstr(at, "\n```")) != NULL && at < end) {
                const char *text = strchr(at + 1, '\n') + 1;
                const char *close = strstr(text, "\n```");
                char *name = file_named_by(text);

                if (name == NULL) /* <?php comes before everything */
                        name = file_named_by(strchr(text, '\n') + 1);
                if (name != NULL) {
                        write_file(stage->folder, name, text, (size_t)(close - text) + 1);
                        n++;
                }
                free(name);
                at = close + 1;
        }
        free(title);
        return n;
}

/* The page's own SQL: the table that it writes into, and the query that compares transactions. */
static char *sql_of_page(const struct stage *stage, const char *begin)
{
        const char *at = strstr(stage->page, begin);

        cr_assert_not_null(at, "%s has no %s", PAGE, begin);
        return xstrndup(at, (size_t)(strchr(at, ';') - at));
}

static void set_up(struct stage *stage)
{
        char *folder = temp_folder();
        char *url;
        char *sql;

        *stage = (struct stage){
            .database = test_database_make(), .page = read_file(PAGE), .folder = folder};
        stage->log_path = xasprintf("%s/log", folder);
        sql = sql_of_page(stage, "CREATE TABLE orders");
        database_exec(stage->database.admin, sql);
        database_exec(stage->database.admin,
            "GRANT INSERT, SELECT ON orders TO app;"
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE 'no commit today'; END $$;"
            "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION refuse()");
        url = xasprintf("postgresql://app@127.0.0.1:%u/%s", postgres_shared()->port,
            PQdb(stage->database.admin));
        setenv("DATABASE_URL", url, 1);
        free(url);
        url = xasprintf("jdbc:postgresql://127.0.0.1:%u/%s?user=app", postgres_shared()->port,
            PQdb(stage->database.admin));
        setenv("JDBC_URL", url, 1);
        setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
        free(url);
        free(sql);
}

static int run_piece(const struct stage *stage, const struct piece *piece)
{
        char *command = xasprintf("cd %s && %s", stage->folder, piece->command);
        const char *argv[] = {"sh", "-c", command, NULL};
        int code = process_run(argv, stage->log_path, false);

        free(command);
        return code;
}

static void expect_one_transaction(const struct stage *stage)
{
        PGconn *admin = stage->database.admin;
        char *query = sql_of_page(stage, "SELECT o.id, e.event_id FROM orders");
        char *count = xasprintf("SELECT count(*) FROM (%s) AS _", query);

        expect_value(admin, "SELECT count(*) FROM orders", "1");
        expect_value(admin, "SELECT count(*) FROM courier.outbox", "1");
        expect_value(admin, count, "1");
        expect_value(admin,
            "SELECT concat_ws(' ', topic, key = id::text, (payload->>'order')::bigint = id,"
            " json_typeof(payload->'order'), payload->>'cents')"
            " FROM (SELECT topic, key, payload FROM courier.outbox) AS event, orders",
            "orders.created t t number 1250");
        free(count);
        free(query);
}

static void require_go(void)
{
        const char *const modules[] = {"sh", "-c",
            "cd '" PGCOURIER_SOURCE_FOLDER "/docs/consumers/go' && GOPROXY=off go mod download",
            NULL};

        if (process_run(modules, NULL, false) == 0)
                return;
        fputs("no Go with pgx here: scripts/deps --test gets pgx, where there is Go\n", stderr);
        cr_skip_test();
}

static void check_piece(const char *heading)
{
        const struct piece *piece = pieces;
        struct stage stage;
        char *said;
        int code;

        while (strcmp(piece->heading, heading) != 0)
                cr_assert(
                    ++piece < pieces + sizeof pieces / sizeof pieces[0], "no piece %s", heading);
        if (strstr(piece->command, "$NODE_PATH") != NULL)
                node_packages();
        if (strstr(piece->command, "go run") != NULL)
                require_go();
        set_up(&stage);
        cr_assert_gt(write_files_below(&stage, heading), 0, "no file below %s", heading);
        cr_expect_neq(run_piece(&stage, piece), 0, "it does not notice that the commit failed");
        said = read_file(stage.log_path);
        cr_expect_not_null(strstr(said, "no commit today"), "%s", said);
        free(said);
        expect_value(stage.database.admin, "SELECT count(*) FROM orders", "0");
        expect_value(stage.database.admin, "SELECT count(*) FROM courier.outbox", "0");

        database_exec(stage.database.admin, "DROP TRIGGER refuse ON orders");
        code = run_piece(&stage, piece);
        said = read_file(stage.log_path);
        cr_expect_eq(code, 0, "%s", said);
        free(said);
        expect_one_transaction(&stage);
        test_database_drop(&stage.database);
        free(stage.log_path);
        free(stage.folder);
        free(stage.page);
}

#define PUBLISHING(test, heading)                                                                  \
        Test(publishing, in_##test##_shares_the_transaction)                                       \
        {                                                                                          \
                check_piece(heading);                                                              \
        }

PUBLISHING(python_by_psycopg, "psycopg")
PUBLISHING(python_by_sqlalchemy, "SQLAlchemy")
PUBLISHING(python_by_django, "Django")
PUBLISHING(node_by_pg, "node-postgres")
PUBLISHING(node_by_prisma, "Prisma")
PUBLISHING(go_by_pgx, "pgx")
PUBLISHING(java_by_jdbc, "JDBC")
PUBLISHING(java_by_spring, "Spring")
PUBLISHING(ruby_by_active_record, "ActiveRecord")
PUBLISHING(php_by_laravel, "Laravel")
