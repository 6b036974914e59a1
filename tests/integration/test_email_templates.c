/* Templates from their folder to the inbox: what `check` finds wrong with them, what a mail made
 * from one looks like, and which payloads they refuse. */
#include "base/alloc.h"
#include "config/config.h"
#include "sinks/registry.h"
#include "support/program_expect.h"
#include "support/sink_driver.h"
#include "support/smtp_receiver.h"

#include <criterion/criterion.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char *folder;

static void make_folder(void)
{
        folder = temp_folder();
}

static void free_folder(void)
{
        free(folder);
}

TestSuite(email_templates, .init = make_folder, .fini = free_folder, .timeout = 60);

static void write_bytes(const char *name, const void *content, size_t n_bytes)
{
        char *path = xasprintf("%s/%s", folder, name);
        FILE *file = fopen(path, "w");

        cr_assert(file != NULL && fwrite(content, 1, n_bytes, file) == n_bytes && fclose(file) == 0,
            "cannot write %s", path);
        free(path);
}

static void write_template(const char *name, const char *content)
{
        write_bytes(name, content, strlen(content));
}

/* What `check` says of a sink with this folder. */
static struct program_run check(void)
{
        char *text = xasprintf("postgres: {dsn: \"host=/nonexistent\"}\n"
                               "sinks:\n"
                               "  - name: mail\n"
                               "    topics: ['mail.*']\n"
                               "    email: {url: smtp://127.0.0.1, from: shop@example.org, "
                               "templates: '%s'}\n",
            folder);
        char *path = program_file("config.yaml", text, strlen(text));
        struct program_run run = program_run(NULL, "check", "-c", path, NULL);

        free(text);
        free(path);
        return run;
}

static void expect_found(const char *finding)
{
        expect_texts(check(), 3, finding);
}

Test(email_templates, check_accepts_a_folder_of_good_ones)
{
        write_template("receipt.subject", "Receipt {{id}}\n");
        write_template("receipt.txt", "x");
        write_template("Wel-come_2.subject", "Hello\r\n");
        write_template("Wel-come_2.html", "<p>{{#a}}{{b}}{{/a}}</p>");
        write_template(".receipt.txt.swp", "{{hidden");
        expect_texts(check(), 0, "ok    sink mail: email");
}

Test(email_templates, check_names_every_file_that_is_wrong)
{
        write_template("a.subject", "A {{x");
        write_template("a.txt", "one\ntwo {{#x}}");
        write_template("b.subject", "B");
        write_template("c.txt", "C");
        write_template("d d.txt", "D");
        write_template("e.txt~", "E");
        expect_texts(check(), 3,
            "fail  sink mail: email: email: templates: ", "a.subject:1:3: the tag is not closed",
            "; a.txt:2:5: the section is not closed", "; b: has neither .txt nor .html",
            "; c: has no .subject", "d d.txt: is not a template's name",
            "e.txt~: is not a template's name");
}

Test(email_templates, check_finds_a_folder_without_templates)
{
        expect_found("there is no template in the folder");
}

Test(email_templates, check_finds_a_folder_that_is_none)
{
        free(folder);
        folder = xstrdup("/nonexistent/templates");
        expect_found("config.yaml:5:60: sinks[0].email.templates: names a folder that does not");
        free(folder);
        folder = xstrdup("/dev/null");
        expect_found("names a path that is not a folder");
}

Test(email_templates, check_finds_files_that_are_not_text)
{
        char *path = xasprintf("%s/d.html", folder);
        char *large = xcalloc(1, 1024 * 1024 + 1);

        memset(large, 'x', 1024 * 1024 + 1);
        write_bytes("a.subject", "a\0b", 3);
        write_bytes("b.txt", "\xff", 1);
        write_template("c.html", "\xef\xbb\xbfhello");
        write_bytes("e.txt", large, 1024 * 1024 + 1);
        write_template("f.subject", "two\nlines\n");
        write_template("g.subject", "\n");
        mkdir(path, 0700);
        expect_texts(check(), 3, "a.subject: holds a NUL byte", "b.txt: is not UTF-8",
            "c.html: begins with a byte order mark",
            "d.html: is a folder; it must be a regular file", "e.txt: is larger than 1 MiB",
            "f.subject: a subject is one line", "g.subject: is empty");
        free(path);
        free(large);
}

static struct smtp_receiver receiver;
static struct email_config config;
static struct sink_driver driver;

static void open_sink(void)
{
        static char from[] = "Shop <shop@example.org>";

        curl_global_init(CURL_GLOBAL_ALL);
        smtp_receiver_init(&receiver);
        smtp_receiver_start(&receiver, NULL);
        config = (struct email_config){.from = from,
            .url = xasprintf("smtp://127.0.0.1:%u", receiver.port),
            .tls = TLS_AUTO,
            .connect_timeout_ms = 10000,
            .timeout_ms = 20000,
            .templates = folder};
        sink_driver_init_for(&driver, sink_kind_find("email"), &config, 1);
}

static void close_sink(void)
{
        sink_driver_deinit(&driver);
        smtp_receiver_deinit(&receiver);
        free(config.url);
        curl_global_cleanup();
}

static struct outcome deliver(const char *json)
{
        struct event event = sample_event(1, json);

        return sink_driver_deliver(&driver, &event);
}

static void assert_rejected(const char *json, const char *words)
{
        struct outcome outcome = deliver(json);

        cr_assert_eq(outcome.kind, OUTCOME_REJECTED, "%s: %s, %s", json, outcome_name(outcome.kind),
            outcome.reason);
        cr_assert_not_null(
            strstr(outcome.reason, words), "\"%s\" not in: %s", words, outcome.reason);
}

static const char *subject_of(const json_t *mail)
{
        size_t i;
        json_t *header;

        json_array_foreach(json_object_get(mail, "headers"), i, header)
        {
                if (strcmp(json_string_value(json_array_get(header, 0)), "Subject") == 0)
                        return json_string_value(json_array_get(header, 1));
        }
        return "(missing)";
}

static void write_receipt(void)
{
        write_template("receipt.subject", "Rechnung {{order.id}} für {{name}}\n");
        write_template("receipt.txt", "Hallo {{name}},\n"
                                      "{{#items}}\n"
                                      "- {{title}}: {{price}}\n"
                                      "{{/items}}\n");
        write_template("receipt.html", "<p>Hallo {{name}}</p>{{{banner}}}");
}

#define RECEIPT_DATA                                                                               \
        "\"data\": {\"name\": \"Zoë <b>\", \"order\": {\"id\": 12345678901234567890}, "           \
        "\"banner\": \"<hr>\", \"items\": [{\"title\": \"Tea & Co\", \"price\": 12.50}, "          \
        "{\"title\": \"Cup\", \"price\": 7}]}"

Test(email_templates, fills_subject_text_and_html_of_a_mail)
{
        struct outcome outcome;
        json_t *mails;
        json_t *parts;

        write_receipt();
        open_sink();
        outcome = deliver("{\"to\": \"a@b.c\", \"template\": \"receipt\", " RECEIPT_DATA "}");
        cr_assert_eq(outcome.kind, OUTCOME_DELIVERED, "%s", outcome.reason);

        mails = smtp_receiver_wait_for(&receiver, 1);
        parts = json_object_get(json_array_get(mails, 0), "parts");
        cr_assert_eq(json_array_size(parts), 2);
        cr_assert_str_eq(json_string_value(json_array_get(json_array_get(parts, 0), 1)),
            "Hallo Zoë <b>,\r\n- Tea & Co: 12.50\r\n- Cup: 7\r\n");
        cr_assert_str_eq(json_string_value(json_array_get(json_array_get(parts, 1), 1)),
            "<p>Hallo Zoë &lt;b&gt;</p><hr>");
        cr_assert_str_eq(
            subject_of(json_array_get(mails, 0)), "Rechnung 12345678901234567890 für Zoë <b>");
        json_decref(mails);
        close_sink();
}

Test(email_templates, rejects_what_cannot_be_filled_in)
{
        write_receipt();
        write_template("plain.subject", "s");
        write_template("plain.txt", "t");
        open_sink();
        assert_rejected(
            "{\"to\": \"a@b.c\", \"template\": \"receipt\", \"data\": {\"name\": \"x\"}}",
            "template receipt.subject:1:10: \"order.id\" is missing");
        assert_rejected("{\"to\": \"a@b.c\", \"template\": \"receipt\"}", "is missing");
        assert_rejected("{\"to\": \"a@b.c\", \"template\": \"receipt\", \"data\": {\"name\": "
                        "\"x\\r\\nBcc: e@f.g\", \"order\": {\"id\": 1}, \"items\": [], "
                        "\"banner\": \"\"}}",
            "\"subject\": control characters");
        assert_rejected("{\"to\": \"a@b.c\", \"template\": \"nope\"}",
            "\"template\": there is no template named nope");
        assert_rejected("{\"to\": \"a@b.c\", \"template\": \"../receipt\"}",
            "\"template\": not a name of 1 to 64");
        assert_rejected("{\"to\": \"a@b.c\", \"template\": 5}", "\"template\": expected a string");
        assert_rejected("{\"to\": \"a@b.c\", \"template\": \"plain\", \"data\": []}",
            "\"data\": expected an object");
        assert_rejected("{\"to\": \"a@b.c\", \"template\": \"plain\", \"subject\": \"s\"}",
            "\"subject\": not allowed together with \"template\"");
        assert_rejected("{\"to\": \"a@b.c\", \"template\": \"plain\", \"html\": \"s\"}",
            "\"html\": not allowed together with \"template\"");
        assert_rejected("{\"to\": \"a@b.c\", \"subject\": \"s\", \"text\": \"t\", \"data\": {}}",
            "\"data\": allowed only together with \"template\"");
        cr_assert_eq(smtp_receiver_count_commands(&receiver, ""), 0);
        close_sink();
}

Test(email_templates, are_read_once)
{
        struct outcome outcome;

        write_receipt();
        write_template("plain.subject", "before {{x}}");
        write_template("plain.txt", "t");
        open_sink();
        write_template("plain.subject", "{{broken");
        outcome = deliver("{\"to\": \"a@b.c\", \"template\": \"plain\", \"data\": {\"x\": 1}}");
        cr_assert_eq(outcome.kind, OUTCOME_DELIVERED, "%s", outcome.reason);
        close_sink();
}
