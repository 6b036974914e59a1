/*
 * The parts without I/O, each run again and again in a child with its N-th allocation failing,
 * until there is no N-th: the child ends in one line and with the code for "try again later", and
 * never takes what it had no memory for as not valid. The linker puts our functions in the place of
 * those that base/alloc.c calls; the libraries allocate by base/alloc.c, as in the program.
 */
#include "base/alloc.h"
#include "config/config.h"
#include "outbox/event_row.h"
#include "pgcourier/outcome.h"
#include "sinks/email/email_message.h"
#include "sinks/format/event_json.h"
#include "sinks/format/event_time.h"
#include "sinks/http/http_headers.h"
#include "sinks/http/http_signing.h"
#include "sinks/http/http_target.h"
#include "sinks/redis/redis_command.h"
#include "support/program.h"
#include "text/template.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned n_left; /* until one fails; 0: none */

static bool fails(void)
{
        return n_left > 0 && --n_left == 0;
}

#define WRAP(type, name, parameters, arguments, failure)                                           \
        type __real_##name parameters;                                                             \
        type __wrap_##name parameters;                                                             \
        type __wrap_##name parameters                                                              \
        {                                                                                          \
                return fails() ? (failure) : __real_##name arguments;                              \
        }

WRAP(void *, malloc, (size_t size), (size), NULL)
WRAP(void *, calloc, (size_t count, size_t size), (count, size), NULL)
WRAP(void *, realloc, (void *block, size_t size), (block, size), NULL)
WRAP(char *, strdup, (const char *text), (text), NULL)
WRAP(char *, strndup, (const char *text, size_t max), (text, max), NULL)
int __real_vasprintf(char **out, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));
int __wrap_vasprintf(char **out, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

int __wrap_vasprintf(char **out, const char *format, va_list arguments)
{
        return fails() ? -1 : __real_vasprintf(out, format, arguments);
}

/* How a child ended in which the n-th allocation failed. */
struct ending {
        int code;
        char words[256];
};

static struct ending run_failing(bool (*work)(void *context), void *context, unsigned n)
{
        struct ending ending = {0};
        int words[2];
        int status;
        size_t length = 0;
        pid_t child;

        cr_assert_eq(pipe(words), 0);
        child = fork();
        cr_assert_geq(child, 0);
        if (child == 0) {
                dup2(words[1], STDERR_FILENO);
                json_set_alloc_funcs(xmalloc, free);
                n_left = n;
                _exit(work(context) ? 0 : 1);
        }
        close(words[1]);
        for (ssize_t got;
             (got = read(words[0], ending.words + length, sizeof ending.words - 1 - length)) > 0;)
                length += (size_t)got;
        close(words[0]);
        waitpid(child, &status, 0);
        ending.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        return ending;
}

/* `work` answers true if it did what it should. */
static void torture(bool (*work)(void *context), void *context)
{
        struct ending ending;
        unsigned n = 0;

        do {
                ending = run_failing(work, context, ++n);
                cr_assert(ending.code == 0 || ending.code == 75, "allocation %u: code %d, %s", n,
                    ending.code, ending.words);
                cr_assert(
                    ending.code == 0 || strcmp(ending.words, "pgcourier: out of memory\n") == 0,
                    "allocation %u: %s", n, ending.words);
        } while (ending.code != 0);
        cr_assert_gt(n, 1, "nothing was allocated");
}

static const struct event_header headers[] = {{"trace", "00-1"}};

static const struct event event = {
    .event_id = "018f2b6e-5c1d-7a43-9b0e-2f64a1c7d911",
    .topic = "orders.created",
    .key = "k",
    .type = "Created",
    .payload = "{\"to\": \"b@example.org\", \"subject\": \"s\", \"text\": \"x\"}",
    .payload_bytes = sizeof "{\"to\": \"b@example.org\", \"subject\": \"s\", \"text\": \"x\"}" - 1,
    .is_json = true,
    .headers = headers,
    .n_headers = 1,
};

static bool load_config(void *path)
{
        struct error error = {0};
        struct config *config = config_load(path, &error);

        config_free(config);
        return config != NULL;
}

Test(torture_units, loading_a_configuration)
{
        static const char text[] =
            "postgres: { dsn: \"host=x user=${NOBODY:-me}\" }\n"
            "sinks:\n"
            "  - name: a\n"
            "    topics: [\"**\", \"b.*\"]\n"
            "    http: { url: \"https://example.org/x\", headers: [trace] }\n"
            "  - name: b\n"
            "    topics: [\"**\"]\n"
            "    redis: { url: \"redis://u:p@h:1/2\", maxlen: 5 }\n";

        char *path = program_file("pgcourier.yaml", text, sizeof text - 1);

        torture(load_config, path);
        free(path);
}

static bool refuse_config(void *path)
{
        struct error error = {0};

        return config_load(path, &error) == NULL && strstr(error.text, "did you mean") != NULL;
}

Test(torture_units, refusing_a_configuration)
{
        static const char text[] = "postgres: { dns: \"host=x\" }\nsinks: []\n";

        char *path = program_file("pgcourier.yaml", text, sizeof text - 1);

        torture(refuse_config, path);
        free(path);
}

static bool render_template(void *unused)
{
        static const char *const variables[] = {"topic", NULL};
        const char *const values[] = {"orders"};
        struct error error = {0};
        struct bytes out = {0};
        struct template *template = template_compile("a {{topic}} b", variables, &error);
        bool is_right;

        (void)unused;
        if (template == NULL)
                return false;
        template_render(template, values, &out);
        is_right = strcmp(out.data, "a orders b") == 0;
        bytes_deinit(&out);
        template_destroy(template);
        return is_right;
}

Test(torture_units, rendering_a_template)
{
        torture(render_template, NULL);
}

static bool read_headers(void *unused)
{
        static const char jsonb[] = "\1{\"a\": \"x\", \"b\": 7, \"c\": {\"d\": [1, 2]}}";
        struct event_headers owner = {0};
        struct event read = {0};
        bool is_right;

        (void)unused;
        event_headers_read(&owner, jsonb, sizeof jsonb - 1, &read);
        is_right = read.n_headers == 3 && strcmp(read.headers[1].value, "7") == 0 &&
                   strcmp(read.headers[2].value, "{\"d\":[1,2]}") == 0;
        event_headers_deinit(&owner);
        return is_right;
}

Test(torture_units, reading_headers)
{
        torture(read_headers, NULL);
}

static bool write_mail(void *unused)
{
        char from[] = "Shop <shop@example.org>";
        const struct email_config config = {.from = from};
        struct email_message message = {0};
        struct email_sender sender;
        struct outcome rejected;
        struct error error = {0};
        bool is_right = email_sender_init(&sender, &config, &error) &&
                        email_message_init(&message, &sender, &event, 0, &rejected) &&
                        message.n_recipients == 1;

        (void)unused;
        email_message_deinit(&message);
        email_sender_deinit(&sender);
        return is_right;
}

Test(torture_units, writing_a_mail)
{
        torture(write_mail, NULL);
}

static bool make_request_headers(void *unused)
{
        static const char *const secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
        char name[] = "trace";
        char *names[] = {name};
        const struct http_config config = {.headers = names, .n_headers = 1};
        struct error error = {0};
        struct outcome rejected;
        struct http_signing *signing =
            http_signing_create(HTTP_SIGNING_STANDARD, &secret, 1, &error);
        const struct http_request_head head = {.config = &config,
            .event = &event,
            .id = event.event_id,
            .signing = signing,
            .body = "{}",
            .body_bytes = 2};
        struct bytes lines = {0};
        bool is_right = signing != NULL && http_headers_append(&head, &lines, &rejected);

        (void)unused;
        bytes_deinit(&lines);
        http_signing_destroy(signing);
        return is_right;
}

Test(torture_units, making_the_headers_of_a_request)
{
        torture(make_request_headers, NULL);
}

static bool encode_command(void *unused)
{
        char stream[] = "events:{{topic}}";
        const struct redis_config config = {.stream = stream, .maxlen = 10, .max_streams = 1};
        struct error error = {0};
        struct outcome outcome;
        struct bytes out = {0};
        struct redis_command *command = redis_command_create(&config, &error);

        (void)unused;
        if (command == NULL)
                return false;
        (void)redis_command_admit(command, &event, &outcome);
        redis_command_encode(command, &event, &out);
        bytes_deinit(&out);
        redis_command_destroy(command);
        return true;
}

Test(torture_units, encoding_a_redis_command)
{
        torture(encode_command, NULL);
}

static bool write_line(void *unused)
{
        struct bytes out = {0};
        struct event_time time = {0};

        (void)unused;
        event_json_append_line(&out, &event, &time, true);
        bytes_deinit(&out);
        return true;
}

Test(torture_units, writing_a_line)
{
        torture(write_line, NULL);
}
