/*
 * `pgcourier type`, and what the commands for receivers make of the catalogue. What the documents
 * say about requests is held against requests that really came.
 */
#include "base/alloc.h"
#include "failures_rig.h"
#include "sinks/http/http_signing.h"
#include "support/http_receiver.h"
#include "support/postgres_expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

static struct failures_rig rig;

static void start(void)
{
        failures_rig_start(&rig);
}

static void stop(void)
{
        failures_rig_stop(&rig);
}

TestSuite(type_command, .init = start, .fini = stop);

#define TYPE(...) program_run(NULL, "type", __VA_ARGS__, "--dsn", rig.dsn, NULL)

/* Standard output is that, and standard error has that text. */
#define expect_both(run, expected_out, expected_err)                                               \
        do {                                                                                       \
                struct program_run actual = (run);                                                 \
                cr_expect_eq(actual.code, 0, "exit code %d: %s", actual.code, actual.err);         \
                cr_expect_str_eq(actual.out, (expected_out), "%s", actual.out);                    \
                cr_expect_not_null(strstr(actual.err, (expected_err)), "%s", actual.err);          \
                program_run_free(&actual);                                                         \
        } while (0)

static char *file_of(const char *text)
{
        return program_file("file.json", text, strlen(text));
}

#define SCHEMA                                                                                     \
        "{\"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"                        \
        " \"$id\": \"https://shop.example/order\",\n"                                              \
        " \"type\": \"object\", \"required\": [\"order\"],\n"                                      \
        " \"properties\": {\"order\": {\"type\": \"integer\", \"description\": \"<b>&\"},\n"       \
        "  \"customer\": {\"$ref\": \"#/$defs/person\"},\n"                                        \
        "  \"lines\": {\"type\": \"array\", \"items\": {\"properties\": {\"sku\": {}}}}},\n"       \
        " \"$defs\": {\"person\": {\"properties\": {\"name\": {\"type\": \"string\"}}}}}\n"

static void add_order(void)
{
        PGresult *result = PQexecParams(rig.owner,
            "INSERT INTO courier.event_type (name, description, schema, example)"
            " VALUES ('order.created', '</p><script>alert(1)</script>', $1, '{\"order\": 17}')",
            1, NULL, (const char *const[]){SCHEMA}, NULL, NULL, 0);

        cr_assert_eq(PQresultStatus(result), PGRES_COMMAND_OK, "%s", PQresultErrorMessage(result));
        PQclear(result);
}

/* ---- the catalogue ------------------------------------------------------------------------ */

Test(type_command, set_adds_a_type_and_changes_what_is_given)
{
        char *schema = file_of(SCHEMA);
        char *example = file_of("{\"order\": 17,\n \"a\": 1.50}\n");

        expect_both(TYPE("set", "order.created", "--schema", schema, "--example", example),
            "added order.created\n", "");
        expect_both(TYPE("set", "order.created", "--description", "An order.", "--deprecated"),
            "changed order.created\n", "");
        expect_value(rig.owner,
            "SELECT description || deprecated || (schema ->> 'type') || example"
            " FROM courier.event_type",
            "An order.trueobject{\"order\": 17,\n \"a\": 1.50}");
        expect_both(TYPE("set", "order.created",
                        "--description=", "--schema=", "--example=", "--not-deprecated"),
            "changed order.created\n", "");
        expect_value(rig.owner,
            "SELECT num_nulls(description, schema, example) || deprecated::text"
            " FROM courier.event_type",
            "3false");
        expect_both(TYPE("set", "order.created"), "", "nothing was to change");
        free(schema);
        free(example);
}

Test(type_command, set_reads_standard_input)
{
        char *path = file_of("[1]");

        expect_output(
            program_run(path, "type", "set", "a", "--example", "-", "--dsn", rig.dsn, NULL),
            "added a\n");
        expect_value(rig.owner, "SELECT example FROM courier.event_type", "[1]");
        free(path);
}

Test(type_command, set_says_what_is_wrong_with_a_schema)
{
        static const struct {
                const char *schema;
                const char *complaint;
        } cases[] = {
            {"{", "file.json: line 1, column 1: "},
            {"", "the file is empty"},
            {"{\"type\": \"object\", \"type\": \"string\"}", "duplicate object key"},
            {"[]", "--schema: a schema must be a JSON object"},
            {"{\"$schema\": \"http://json-schema.org/draft-07/schema#\"}",
                "\"$schema\" names another draft, http://json-schema.org/draft-07/schema#; leave"},
            {"{\"type\": \"objekt\"}", "--schema: #/type must be one of null, boolean, object"},
            {"{\"type\": [\"string\", \"string\"]}", "#/type must be"},
            {"{\"properties\": {\"a/b\": {\"items\": [{}]}}}",
                "#/properties/a~1b/items must be a schema: an object, true or false; a list is "
                "called prefixItems"},
            {"{\"properties\": [\"a\"]}", "#/properties must be an object of schemas"},
            {"{\"allOf\": [{\"required\": \"a\"}]}",
                "#/allOf/0/required must be a list of texts, none of them twice"},
            {"{\"oneOf\": []}", "#/oneOf must be a list of schemas, not empty"},
            {"{\"minLength\": -1}", "#/minLength must be a whole number from 0 on"},
            {"{\"multipleOf\": 0}", "#/multipleOf must be a number above 0"},
            {"{\"uniqueItems\": \"yes\"}", "#/uniqueItems must be true or false"},
            {"{\"not\": {\"pattern\": 7}}", "#/not/pattern must be a text"},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                char *path = file_of(cases[i].schema);
                expect_refusal(TYPE("set", "a", "--schema", path), 2, cases[i].complaint);
                free(path);
        }
        expect_value(rig.owner, "SELECT count(*) FROM courier.event_type", "0");
}

Test(type_command, set_warns_of_keywords_that_mean_nothing)
{
        char *path =
            file_of("{\"properties\": {\"required\": {\"requierd\": [\"a\"], \"x-a\": 1}}}");

        expect_both(TYPE("set", "a", "--schema", path), "added a\n",
            "--schema: #/properties/required: \"requierd\" is no keyword of JSON Schema; did you "
            "mean \"required\"?\n");
        free(path);
}

Test(type_command, set_refuses_what_the_table_refuses)
{
        expect_refusal(TYPE("set", ""), 2, "type must be null rather than empty");
        expect_refusal(TYPE("set", "a\nb"), 2, "name must not contain control characters");
        expect_refusal(TYPE("set", "a", "--deprecated", "--not-deprecated"), 2, "exclude each");
        expect_refusal(TYPE("set", "a", "--schema=-", "--example=-"), 2, "exclude each other");
        expect_refusal(TYPE("set", "a", "--schema=/nowhere"), 1, "cannot open /nowhere");
        database_exec(rig.owner, "REVOKE courier_relay FROM relay");
        expect_refusal(TYPE("set", "a"), 7, "GRANT courier_relay TO");
        database_exec(rig.owner, "GRANT courier_relay TO relay");
}

Test(type_command, list_and_show_what_there_is)
{
        struct program_run run;
        json_t *lines;

        expect_both(TYPE("list"), "", "the catalogue is empty; `pgcourier type set NAME`");
        expect_refusal(TYPE("list", "--fail-empty"), 8, "the catalogue is empty");
        add_order();
        database_exec(rig.owner,
            "INSERT INTO courier.event_type (name, deprecated) VALUES ('order.paid', true)");
        run = TYPE("list");
        cr_expect_not_null(strstr(run.out, "order.paid    yes"), "%s", run.out);
        program_run_free(&run);
        lines = read_json_lines(TYPE("list", "--json"));
        cr_expect_eq(json_array_size(lines), 2);
        cr_expect_eq(json_integer_value(json_object_get(
                         json_object_get(json_array_get(lines, 0), "example"), "order")),
            17);
        json_decref(lines);
        expect_texts(TYPE("show", "order.created"), 0, "description  </p><script>",
            "\nschema:\n{\n  \"$schema\": ", "\nexample:\n{\n  \"order\": 17\n}\n");
        expect_refusal(TYPE("show", "order.craeted"), 8,
            "there is no type \"order.craeted\"; did you mean \"order.created\"?");
}

Test(type_command, remove_says_what_that_means_if_types_are_strict)
{
        add_order();
        expect_refusal(TYPE("remove", "order.paid"), 8, "there is no type \"order.paid\"");
        database_exec(rig.owner, "SELECT courier.require_known_types(true)");
        expect_both(TYPE("remove", "order.created"), "removed order.created\n",
            "publishing refuses it from now on, because outbox.types is strict");
        expect_value(rig.owner, "SELECT count(*) FROM courier.event_type", "0");
}

Test(type_command, names_are_completed)
{
        char *text = xasprintf(
            "postgres: {dsn: \"%s\"}\nsinks: [{name: o, topics: [a], stdout: {}}]", rig.dsn);
        char *path = program_file("pgcourier.yaml", text, strlen(text));

        add_order();
        expect_output(
            program_run(NULL, "completion", "types", "-c", path, NULL), "order.created\n");
        free(path);
        free(text);
}

/* ---- documents ---------------------------------------------------------------------------- */

static json_t *document(struct program_run run)
{
        json_error_t fault;
        json_t *json = json_loads(run.out, JSON_REJECT_DUPLICATES, &fault);

        cr_assert_not_null(json, "%s: %s%s", fault.text, run.out, run.err);
        cr_expect_eq(run.code, 0, "%s", run.err);
        program_run_free(&run);
        return json;
}

/* "a", "b", … NULL. */
static json_t *at_path(json_t *json, const char *const *names)
{
        for (; *names != NULL; names++)
                json = json_is_array(json) ? json_array_get(json, strtoul(*names, NULL, 10))
                                           : json_object_get(json, *names);
        return json;
}
#define AT(json, ...)   at_path((json), (const char *const[]){__VA_ARGS__, NULL})
#define TEXT(json, ...) json_string_value(AT(json, __VA_ARGS__))

Test(type_command, docs_has_the_schemas_as_components_whose_references_hold)
{
        static const char *const formats[] = {"openapi", "asyncapi"};

        add_order();
        for (size_t i = 0; i < 2; i++) {
                json_t *api = document(TYPE("docs", "--format", formats[i], "--title", "Shop"));
                json_t *schema = AT(api, "components", "schemas", "order.created");

                cr_expect_str_eq(TEXT(api, "info", "title"), "Shop");
                cr_expect_str_eq(TEXT(schema, "properties", "customer", "$ref"),
                    "#/components/schemas/order.created/$defs/person");
                cr_expect_str_eq(
                    TEXT(schema, "$defs", "person", "properties", "name", "type"), "string");
                cr_expect_null(AT(schema, "$id"));
                cr_expect_null(AT(schema, "$schema"));
                json_decref(api);
        }
}

Test(type_command, docs_marks_what_is_deprecated_and_keeps_odd_names_apart)
{
        json_t *api;

        database_exec(rig.owner, "INSERT INTO courier.event_type (name, deprecated)"
                                 " VALUES ('a b', true), ('a/b', false), ('a_b', false)");
        api = document(TYPE("docs", "--format", "openapi"));
        cr_expect(json_is_true(AT(api, "webhooks", "a b", "post", "deprecated")));
        cr_expect_null(AT(api, "webhooks", "a/b", "post", "deprecated"));
        cr_expect_eq(json_object_size(AT(api, "webhooks")), 3);
        cr_expect_eq(json_object_size(AT(api, "components", "schemas")), 3);
        json_decref(api);
        api = document(TYPE("docs", "--format", "asyncapi", "--only", "a*,!a/*"));
        cr_expect_eq(json_object_size(AT(api, "components", "messages")), 2);
        cr_expect_str_eq(TEXT(api, "components", "messages", "a_b", "title"), "a b (deprecated)");
        json_decref(api);
}

Test(type_command, docs_is_a_page_without_markup_of_the_catalogue)
{
        struct program_run run;

        add_order();
        run = TYPE("docs", "--title", "<i>Shop</i>");
        cr_expect_eq(run.code, 0, "%s", run.err);
        cr_expect_null(strstr(run.out, "<script"));
        cr_expect_null(strstr(run.out, "<b>"));
        cr_expect_null(strstr(run.out, "<i>"));
        cr_expect_not_null(strstr(run.out, "<title>&lt;i&gt;Shop&lt;/i&gt;</title>"));
        cr_expect_not_null(strstr(run.out, "<p>&lt;/p&gt;&lt;script&gt;alert(1)"));
        cr_expect_not_null(strstr(run.out, "default-src 'none'; style-src 'unsafe-inline'"));
        cr_expect_not_null(strstr(run.out, "<code>customer.name</code> <span"));
        cr_expect_not_null(strstr(run.out, "<code>lines[].sku</code>"));
        cr_expect_not_null(strstr(run.out, "&lt;b&gt;&amp;"));
        program_run_free(&run);
}

/* What stands behind `name` in the page. */
static char *value_behind(const char *page, const char *name)
{
        const char *at = strstr(page, name);

        cr_assert_not_null(at, "no %s in:\n%s", name, page);
        at += strlen(name);
        return xstrndup(at, strcspn(at, "\n<"));
}

/* Forty times itself in each of six floors. */
Test(type_command, docs_ends_for_a_schema_that_has_itself_as_its_parts)
{
        database_exec(rig.owner,
            "INSERT INTO courier.event_type (name, schema) SELECT 'circle', json_build_object("
            " 'properties', '{\"seen\": {}}'::json,"
            " 'allOf', json_agg(json_build_object('$ref', '#')))"
            " FROM generate_series(1, 40)");
        expect_texts(TYPE("docs"), 0, "<code>seen</code>", "</html>");
}

Test(type_command, docs_signs_its_example_with_the_secret_that_it_shows)
{
        struct webhook_signer *signer;
        struct error error;
        char wanted[WEBHOOK_SIGNATURE_SIZE];
        struct program_run run;
        char *secret, *id, *timestamp, *signature;

        database_exec(
            rig.owner, "INSERT INTO courier.event_type (name, example) VALUES ('n', '17')");
        run = TYPE("docs");
        secret = value_behind(run.out, "signed with the secret <code>");
        id = value_behind(run.out, "webhook-id: ");
        timestamp = value_behind(run.out, "webhook-timestamp: ");
        signature = value_behind(run.out, "webhook-signature: ");
        signer = webhook_signer_create(secret, &error);
        cr_assert_not_null(signer, "%s", error.text);
        webhook_signer_sign(signer, id, strtoll(timestamp, NULL, 10), "17", 2, wanted);
        cr_expect_str_eq(signature, wanted);
        webhook_signer_destroy(signer);
        free(secret);
        free(id);
        free(timestamp);
        free(signature);
        program_run_free(&run);
}

Test(type_command, docs_says_what_it_cannot_do)
{
        char *folder = temp_folder();
        char *path = xasprintf("%s/none/there", folder);
        char *page;

        expect_refusal(TYPE("docs"), 8, "the catalogue is empty");
        add_order();
        expect_refusal(TYPE("docs", "--only", "user.*"), 8, "no type of the catalogue fits");
        expect_refusal(TYPE("docs", "--format", "openap"), 2, "did you mean \"openapi\"?");
        expect_refusal(TYPE("docs", "--sink", "web"), 2, "--sink needs -c FILE");
        expect_refusal(TYPE("docs", "--format", "openapi", "--title", "\xff"), 2, "not UTF-8");
        expect_refusal(TYPE("docs", "-o", path), 1, "cannot write ");
        free(path);
        path = xasprintf("%s/page.html", folder);
        expect_output(TYPE("docs", "-o", path), "");
        page = read_file(path);
        cr_expect_not_null(strstr(page, "<h1>Events</h1>"));
        free(page);
        free(path);
        free(folder);
}

/* jansson has no number so large; PostgreSQL has. */
Test(type_command, docs_leaves_out_what_it_cannot_read_and_says_so)
{
        struct program_run run;

        database_exec(rig.owner, "INSERT INTO courier.event_type (name, example)"
                                 " VALUES ('n', '99999999999999999999')");
        run = TYPE("docs", "--format", "openapi");
        cr_expect_eq(run.code, 0, "%s", run.err);
        cr_expect_not_null(strstr(run.err, "n: left out its example: "), "%s", run.err);
        program_run_free(&run);
}

/* ---- the documents, and requests ---------------------------------------------------------- */

struct stage {
        struct http_receiver *receiver;
        char *config_path;
};

static void stage_start(struct stage *stage, const char *settings)
{
        char *text, *sql;

        stage->receiver = http_receiver_start(NULL, NULL);
        text = xasprintf("postgres:\n"
                         "  dsn: %s\n"
                         "sinks:\n"
                         "  - {name: fixed, topics: [a], http: {url: 'http://127.0.0.1:%u'}}\n"
                         "  - {name: web, topics: [a], http: {receivers: table, %s\n"
                         "     allow_networks: [127.0.0.1], allow_ports: [%u]}}\n",
            rig.dsn, http_receiver_port(stage->receiver), settings,
            http_receiver_port(stage->receiver));
        stage->config_path = program_file("pgcourier.yaml", text, strlen(text));
        sql = xasprintf("INSERT INTO courier.receiver (sink, name, url, types)"
                        " VALUES ('web', 'acme', 'http://127.0.0.1:%u/', '{order.*}')",
            http_receiver_port(stage->receiver));
        database_exec(rig.owner, sql);
        free(sql);
        free(text);
}

static void stage_end(struct stage *stage)
{
        http_receiver_destroy(stage->receiver);
        free(stage->config_path);
}

#define RECEIVER(stage, ...)                                                                       \
        program_run(NULL, "receiver", __VA_ARGS__, "-c", (stage)->config_path, NULL)

/* A value that the schema names is the one that came. */
static void expect_constant(json_t *schema, const char *name, const char *value)
{
        const char *constant = json_string_value(json_object_get(schema, "const"));

        cr_expect(constant == NULL || strcmp(constant, value) == 0, "%s: %s", name, value);
}

/* Each header that must come came, and of those about the event none that is not documented. */
static void expect_headers(json_t *parameters, const struct http_request *request)
{
        char *lines = xstrdup(request->header_lines), *rest = lines, *line;
        json_t *parameter;
        size_t i;

        json_array_foreach(parameters, i, parameter)
        {
                const char *name = TEXT(parameter, "name");
                char *value = http_request_header(request, name);

                cr_expect(value != NULL || json_is_false(AT(parameter, "required")), "%s", name);
                if (value != NULL)
                        expect_constant(AT(parameter, "schema"), name, value);
                free(value);
        }
        while ((line = strsep(&rest, "\n")) != NULL) {
                bool is_known =
                    strncasecmp(line, "webhook-", 8) != 0 && strncasecmp(line, "x-", 2) != 0 &&
                    strncasecmp(line, "ce-", 3) != 0 && strncasecmp(line, "stripe-", 7) != 0;

                json_array_foreach(parameters, i, parameter)
                {
                        size_t length = strlen(TEXT(parameter, "name"));
                        is_known |= strncasecmp(line, TEXT(parameter, "name"), length) == 0 &&
                                    line[length] == ':';
                }
                cr_expect(is_known, "%s is not documented", line);
        }
        free(lines);
}

/* As far as the envelopes go: members that must be there, and those with one value. */
static void expect_body(json_t *api, json_t *schema, json_t *body)
{
        const char *ref = TEXT(schema, "$ref");
        json_t *required, *member;
        const char *name;
        size_t i;

        if (ref != NULL && strncmp(ref, "#/components/schemas/", 21) == 0) {
                expect_body(api, AT(api, "components", "schemas", ref + 21), body);
                return;
        }
        if (json_is_array(body)) {
                cr_expect_str_eq(TEXT(schema, "type"), "array");
                cr_assert_eq(json_array_size(body), 1);
                expect_body(api, AT(schema, "items", "anyOf", "0"), json_array_get(body, 0));
                return;
        }
        cr_expect_str_eq(TEXT(schema, "type"), "object");
        required = AT(schema, "required");
        json_array_foreach(required, i, member) cr_expect_not_null(
            json_object_get(body, json_string_value(member)), "%s", json_string_value(member));
        json_object_foreach(body, name, member)
        {
                cr_expect_not_null(AT(schema, "properties", name), "%s is not documented", name);
                if (json_is_string(member))
                        expect_constant(
                            AT(schema, "properties", name), name, json_string_value(member));
                if (strcmp(name, "data") == 0)
                        expect_body(api, AT(schema, "properties", name), member);
        }
}

/* The same for all of it that the documents say, and that two documents say the same. */
static void expect_described(const char *settings)
{
        struct stage stage;
        struct program_run run;
        json_t *api, *async, *post, *media, *message, *body;
        const struct http_request *request;
        char *content_type;
        bool is_batch = strstr(settings, "batch") != NULL;

        add_order();
        stage_start(&stage, settings);
        run = RECEIVER(&stage, "test", "acme");
        cr_assert_eq(run.code, 0, "%s", run.err);
        cr_expect_not_null(strstr(run.out, " (order.created) in "), "%s", run.out);
        program_run_free(&run);
        api = document(program_run(
            NULL, "type", "docs", "--format", "openapi", "-c", stage.config_path, NULL));
        async = document(program_run(
            NULL, "type", "docs", "--format", "asyncapi", "-c", stage.config_path, NULL));
        request = http_receiver_request(stage.receiver, 0);
        content_type = http_request_header(request, "content-type");
        post = AT(api, "webhooks", is_batch ? "events" : "order.created", "post");
        media = AT(post, "requestBody", "content", content_type);
        message = AT(async, "components", "messages", is_batch ? "events" : "order.created");
        body = json_loads(request->body, 0, NULL);

        cr_assert_not_null(media, "%s: %s", settings, content_type);
        expect_headers(AT(post, "parameters"), request);
        expect_body(api, AT(media, "schema"), body);
        if (!is_batch)
                expect_body(api, AT(media, "schema"), AT(media, "example"));
        cr_expect_str_eq(TEXT(message, "contentType"), content_type);
        cr_expect_eq(json_object_size(AT(message, "headers", "properties")),
            json_array_size(AT(post, "parameters")));
        cr_expect(json_equal(AT(message, "payload"), AT(media, "schema")));
        json_decref(body);
        json_decref(api);
        json_decref(async);
        free(content_type);
        stage_end(&stage);
}

Test(type_command, docs_describes_raw_bodies_as_they_come)
{
        expect_described("");
}

Test(type_command, docs_describes_standard_bodies_as_they_come)
{
        expect_described("body: standard, signing: github,");
}

Test(type_command, docs_describes_cloudevents_as_they_come)
{
        expect_described("body: cloudevents, source: /shop, signing: stripe,");
}

Test(type_command, docs_describes_structured_cloudevents_as_they_come)
{
        expect_described("body: cloudevents-structured, source: /shop, signing: none,");
}

Test(type_command, docs_describes_batches_as_they_come)
{
        expect_described("batch: {events: 1},");
}

Test(type_command, docs_describes_batches_of_cloudevents_as_they_come)
{
        expect_described("body: cloudevents-structured, batch: {events: 1},");
}

/* ---- receivers ---------------------------------------------------------------------------- */

/* Standard output of a test, and the request that came of it. */
static const struct http_request *request_of(
    struct stage *stage, struct program_run run, unsigned index, const char *type)
{
        const struct http_request *request;
        char *sent;

        cr_assert_eq(run.code, 0, "%s", run.err);
        program_run_free(&run);
        request = http_receiver_request(stage->receiver, index);
        sent = http_request_header(request, "x-event-type");
        cr_expect_str_eq(sent, type);
        free(sent);
        return request;
}

Test(type_command, a_test_of_a_receiver_sends_the_example_of_a_type)
{
        struct stage stage;
        char *topic;

        stage_start(&stage, "");
        cr_expect_str_eq(
            request_of(&stage, RECEIVER(&stage, "test", "acme"), 0, "courier.receiver.test")->body,
            "{\"receiver\":\"acme\",\"test\":true}", "the catalogue is empty");
        add_order();
        database_exec(rig.owner, "INSERT INTO courier.event_type (name, example, deprecated) VALUES"
                                 " ('user.made', '2', false), ('order.a', '3', true)");
        cr_expect_str_eq(
            request_of(&stage, RECEIVER(&stage, "test", "acme"), 1, "order.created")->body,
            "{\"order\": 17}", "the first that it takes, and is not deprecated");
        cr_expect_str_eq(request_of(&stage, RECEIVER(&stage, "test", "acme", "--type", "user.made"),
                             2, "user.made")
                             ->body,
            "2");
        cr_expect_str_eq(request_of(&stage,
                             RECEIVER(&stage, "test", "acme", "--type", "user.made", "--payload",
                                 "4", "--topic", "t"),
                             3, "user.made")
                             ->body,
            "4");
        cr_expect_str_eq(
            request_of(&stage, RECEIVER(&stage, "test", "acme", "--topic", "t"), 4, "t")->body,
            "{\"receiver\":\"acme\",\"test\":true}");
        topic = http_request_header(http_receiver_request(stage.receiver, 2), "x-event-topic");
        cr_expect_str_eq(topic, "courier.receiver.test");
        free(topic);
        database_exec(rig.owner, "UPDATE courier.receiver SET types = '{}'");
        request_of(&stage, RECEIVER(&stage, "test", "acme"), 5, "courier.receiver.test");
        stage_end(&stage);
}

Test(type_command, a_test_of_a_receiver_needs_an_example)
{
        struct stage stage;

        stage_start(&stage, "");
        add_order();
        database_exec(rig.owner, "INSERT INTO courier.event_type (name) VALUES ('bare')");
        expect_refusal(RECEIVER(&stage, "test", "acme", "--type", "order.craeted"), 8,
            "there is no type \"order.craeted\"; did you mean \"order.created\"?");
        expect_refusal(RECEIVER(&stage, "test", "acme", "--type", "bare"), 8,
            "the type \"bare\" has no example: add --payload JSON");
        expect_refusal(
            RECEIVER(&stage, "test", "acme", "--type", ""), 2, "--type: a type has 1 to 255 bytes");
        cr_expect_eq(http_receiver_n_requests(stage.receiver), 0);
        stage_end(&stage);
}

#define ADD(name, ...)                                                                             \
        program_run(NULL, "receiver", "add", name, "--url", "https://x.example/", "--sink", "web", \
            "--dsn", rig.dsn, __VA_ARGS__, NULL)

Test(type_command, receivers_that_ask_for_unknown_types_are_added_with_a_warning)
{
        struct program_run run = ADD("a", "--types", "order.craeted");

        cr_expect_eq(run.code, 0, "%s", run.err);
        cr_expect_null(strstr(run.err, "--types"), "the catalogue is empty: %s", run.err);
        program_run_free(&run);
        add_order();
        run = ADD("b", "--types", "order.craeted,order.*,!x,courier.receiver.failing");
        cr_expect_eq(run.code, 0, "%s", run.err);
        cr_expect_not_null(
            strstr(run.err, "--types: no type of the catalogue fits order.craeted: "
                            "did you mean \"order.created\"?; `pgcourier type list`"),
            "%s", run.err);
        cr_expect_null(strstr(run.err, "order.*"), "%s", run.err);
        cr_expect_null(strstr(run.err, "courier.receiver"), "%s", run.err);
        cr_expect_null(strstr(run.err, "fits !x"), "%s", run.err);
        program_run_free(&run);
        expect_both(
            program_run(NULL, "receiver", "set", "b", "--types", "user.*", "--dsn", rig.dsn, NULL),
            "changed b\n", "--types: no type of the catalogue fits user.*; `pgcourier type list`");
        expect_value(rig.owner, "SELECT count(*) FROM courier.receiver", "2");
}
