#include "pg/pg_error.h"

#include "base/alloc.h"
#include "base/bytes.h"

#include <ctype.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void pg_error_append(struct bytes *line, const char *text)
{
        size_t length = strlen(text);

        while (length > 0 && text[length - 1] == '\n')
                length--;
        for (size_t i = 0; i < length; i++) {
                if (text[i] == '\n')
                        bytes_append_text(line, "; ");
                else if ((unsigned char)text[i] >= ' ' && text[i] != 0x7f)
                        bytes_append(line, &text[i], 1);
        }
}

void pg_error_set_error(struct error *error, const char *doing, const char *text)
{
        struct bytes line = {0};

        bytes_printf(&line, "%s: ", doing);
        pg_error_append(&line, text);
        error_set(error, ERROR_DATABASE, "%s", line.data);
        bytes_deinit(&line);
}

bool result_is_success(const PGresult *result)
{
        return PQresultStatus(result) == PGRES_COMMAND_OK ||
               PQresultStatus(result) == PGRES_TUPLES_OK;
}

bool result_ends_session(const PGresult *result)
{
        const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);

        return severity != NULL &&
               (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0);
}

enum error_kind sqlstate_kind(const char *sqlstate)
{
        static const struct {
                const char *prefix;
                enum error_kind kind;
        } kinds[] = {
            {"42501", ERROR_PERMISSION}, {"3F000", ERROR_SCHEMA}, /* no such schema */
            {"28", ERROR_LOGIN}, {"42P01", ERROR_SCHEMA},         /* no such table */
            {"42703", ERROR_SCHEMA},                              /* no such column */
            {"42883", ERROR_SCHEMA},                              /* no such function */
            {"40", ERROR_TEMPORARY},    /* deadlock, serialization failure */
            {"53", ERROR_TEMPORARY},    /* memory, disk, connections */
            {"55P03", ERROR_TEMPORARY}, /* lock_timeout */
            {"57014", ERROR_TEMPORARY}, /* statement_timeout, or pg_cancel_backend() */
        };

        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
                if (strncmp(sqlstate, kinds[i].prefix, strlen(kinds[i].prefix)) == 0)
                        return kinds[i].kind;
        return ERROR_DATABASE;
}

bool sqlstate_is_of_statement(const char *sqlstate)
{
        static const char *const prefixes[] = {
            "22",    /* the data: a regular expression, a number, bytes of a foreign encoding */
            "53100", /* disk, for what it sorts */
            "53200", /* memory */
            "54",    /* limits of the server */
            "55P03", /* lock_timeout */
            "57014", /* statement_timeout, or pg_cancel_backend() */
            "XX",    /* what it met is damaged */
        };

        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
                if (strncmp(sqlstate, prefixes[i], strlen(prefixes[i])) == 0)
                        return true;
        return false;
}

/* As libpq words it, but without the place in the statement: PostgreSQL's log has that. */
static void append_words(struct bytes *words, const PGresult *failed)
{
        static const struct {
                int field;
                const char *before;
        } parts[] = {{PG_DIAG_SEVERITY, ""}, {PG_DIAG_MESSAGE_PRIMARY, ":  "},
            {PG_DIAG_MESSAGE_DETAIL, "\nDETAIL:  "}, {PG_DIAG_MESSAGE_HINT, "\nHINT:  "}};

        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
                const char *text = PQresultErrorField(failed, parts[i].field);
                if (text != NULL)
                        bytes_printf(words, "%s%s", parts[i].before, text);
        }
}

void pg_error_set_refused(struct error *error, const PGresult *failed)
{
        const char *sqlstate = PQresultErrorField(failed, PG_DIAG_SQLSTATE);
        struct bytes words = {0};

        append_words(&words, failed);
        pg_error_set_error(error, "refused by the server",
            words.length > 0 ? words.data : PQresultErrorMessage(failed));
        bytes_deinit(&words);
        if (sqlstate != NULL)
                error->kind = sqlstate_kind(sqlstate);
}

/* Verbose words are "FATAL:  28P01: why" and end with a line that tells a place in PostgreSQL's
 * source. */
static const char *find_sqlstate(const char *text)
{
        for (const char *at = strstr(text, ":  "); at != NULL; at = strstr(at + 1, ":  ")) {
                size_t length = 0;

                while (isupper((unsigned char)at[3 + length]) ||
                       isdigit((unsigned char)at[3 + length]))
                        length++;
                if (length == 5 && strncmp(at + 8, ": ", 2) == 0)
                        return at + 3;
        }
        return NULL;
}

/* Of libpq's own about the options. */
static bool is_about_option(const char *text)
{
        return strncmp(text, "invalid ", 8) == 0 || strncmp(text, "sslmode value \"", 15) == 0;
}

static void append_without_value(struct bytes *words, const char *text)
{
        const char *open = strchr(text, '"');
        const char *close = open != NULL ? strchr(open + 1, '"') : NULL;

        if (close == NULL) {
                bytes_append_text(words, "an option has a value that libpq does not understand");
                return;
        }
        bytes_append(words, text, (size_t)(open - text));
        bytes_append_text(words, "(not shown)");
        bytes_append_text(words, close + 1);
}

static bool refuses_login(const char *text, const char *sqlstate)
{
        /* libpq's own; and PostgreSQL's, where the code is not known. */
        static const char *const phrases[] = {"no password supplied",
            "authentication failed for user", "no pg_hba.conf entry", "is not permitted to log in",
            "FATAL:  role \""};

        if (sqlstate != NULL) /* 42501: no right to connect to the database */
                return strncmp(sqlstate, "28", 2) == 0 || strncmp(sqlstate, "42501", 5) == 0;
        for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
                if (strstr(text, phrases[i]) != NULL)
                        return true;
        return false;
}

bool server_accepts_writes(const PGconn *pq)
{
        static const char *const parameters[] = {"in_hot_standby", "default_transaction_read_only"};

        for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
                const char *value = PQparameterStatus(pq, parameters[i]);
                if (value != NULL && strcmp(value, "on") == 0)
                        return false;
        }
        return true;
}

/* libpq's own. */
static bool finds_only_readers(const char *text)
{
        return strstr(text, "session is read-only") != NULL;
}

void connect_words_set_error(struct error *error, const char *doing, const char *text)
{
        const char *sqlstate = find_sqlstate(text);
        const char *location = strstr(text, "\nLOCATION:  ");
        struct bytes words = {0};

        if (is_about_option(text)) {
                append_without_value(&words, text);
        } else if (sqlstate != NULL) {
                const char *rest = sqlstate + strlen("28P01: ");
                size_t length = location > rest ? (size_t)(location - rest) : strlen(rest);

                bytes_append(&words, text, (size_t)(sqlstate - text));
                bytes_append(&words, rest, length);
        } else {
                bytes_append_text(&words, text);
        }
        if (finds_only_readers(text)) {
                words.length -= words.data[words.length - 1] == '\n';
                bytes_append_text(&words,
                    ". A server that accepts writes is needed: this one is a standby, or "
                    "default_transaction_read_only is on");
        }
        pg_error_set_error(error, doing, words.data);
        if (refuses_login(text, sqlstate))
                error->kind = ERROR_LOGIN;
        bytes_deinit(&words);
}

/* The name in quotes behind those words; NULL: they do not occur. */
static char *find_name(const char *text, const char *before)
{
        const char *at = strstr(text, before);

        if (at == NULL)
                return NULL;
        at += strlen(before);
        return xstrndup(at, strcspn(at, "\""));
}

static char *fill_in(const char *remedy, const char *role)
{
        struct bytes words = {0};

        for (const char *at = remedy; *at != '\0'; at++)
                if (*at == '$')
                        bytes_append_text(&words, role);
                else
                        bytes_append(&words, at, 1);
        return words.data;
}

/* NULL: it is not that the database is missing. */
static char *remedy_of_database(const char *text)
{
        static const char before[] = "database \"";
        const char *name = strstr(text, before);
        const char *end = name != NULL ? strstr(name, "\" does not exist") : NULL;
        struct bytes command = {0};
        char *database, *remedy;

        if (end == NULL)
                return NULL;
        name += strlen(before);
        database = xstrndup(name, (size_t)(end - name));
        bytes_append_text(&command, "createdb");
        bytes_append_shell_word(&command, database);
        remedy = xasprintf("The database does not exist. Make it on that server, as a role with "
                           "CREATEDB: %s; or name another database in the dsn",
            command.data);
        bytes_deinit(&command);
        free(database);
        return remedy;
}

char *connect_words_remedy(const struct error *error)
{
        static const struct {
                const char *says;
                const char *remedy; /* $ is the role */
        } remedies[] = {
            {"\" does not exist",
                "Make the role as an administrator: CREATE ROLE \"$\" LOGIN; and, when the schema "
                "is "
                "there (pgcourier migrate makes it): GRANT courier_relay TO \"$\". Or name another "
                "role in the dsn"},
            {"is not permitted to log in", "Allow it as an administrator: ALTER ROLE \"$\" LOGIN"},
            {"no pg_hba.conf entry",
                "Add a line for \"$\" to the server's pg_hba.conf and run SELECT pg_reload_conf() "
                "there; or correct the dsn"},
            {"no password supplied", "Give the password of \"$\": postgres.password_file"},
            {"assword authentication failed",
                "Write the right password to where the configuration says (password_file, dsn_file "
                "…), "
                "or set it in the server: ALTER ROLE \"$\" PASSWORD '…'. A role that does not "
                "exist "
                "is refused in the same words: CREATE ROLE \"$\" LOGIN PASSWORD '…'; and, when the "
                "schema is there (pgcourier migrate makes it): GRANT courier_relay TO \"$\""},
        };
        char *role = find_name(error->text, "user \"");
        char *remedy = error->kind != ERROR_LOGIN ? remedy_of_database(error->text) : NULL;

        if (remedy == NULL && finds_only_readers(error->text))
                remedy = xstrdup("Name the primary in the dsn, or all servers that may become it "
                                 "(host=a,b): the one that accepts writes is taken");
        if (role == NULL)
                role = find_name(error->text, "role \"");
        if (error->kind == ERROR_LOGIN && role != NULL)
                for (size_t i = 0; remedy == NULL && i < sizeof remedies / sizeof *remedies; i++)
                        if (strstr(error->text, remedies[i].says) != NULL)
                                remedy = fill_in(remedies[i].remedy, role);
        free(role);
        if (remedy != NULL)
                return remedy;
        return xstrdup(error->kind == ERROR_LOGIN
                           ? "Correct the role or its password in the configuration, or what the "
                             "server asks of it: pg_hba.conf, ALTER ROLE … LOGIN, GRANT CONNECT ON "
                             "DATABASE …"
                           : "Start the server, open the network path to it, or correct the dsn");
}
