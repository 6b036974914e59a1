/*
 * The email sink against a real mail server that is not ours to script: OpenSMTPD, which delivers
 * what it takes into a maildir.
 *
 * OpenSMTPD has fixed paths for its spool and its socket, and drops privileges to users of its own.
 * It therefore runs in a mount and a PID namespace that begin empty: nothing of it is left on the
 * machine, and its processes end with the one that is killed. Making these needs root, and a
 * container that allows it; elsewhere these tests are skipped.
 *
 * In clear, as its version 6.8 cannot serve TLS with OpenSSL 3 (OpenSMTPD issue 1171), and offers
 * logins only within TLS. Both are tested against aiosmtpd.
 */
#include "base/alloc.h"
#include "config/config.h"
#include "sinks/registry.h"
#include "support/sink_driver.h"
#include "support/smtp_receiver.h"

#include <criterion/criterion.h>
#include <curl/curl.h>
#include <glob.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMESPACES "unshare", "--mount", "--pid", "--fork", "--kill-child"

static char *folder;
static char *log_path;
static uint16_t port;
static struct process server;
static struct email_config config;
static struct sink_driver driver;
static bool is_open;
static char from[] = "shop@example.org";

static void write_file(const char *path, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void write_file(const char *path, const char *format, ...)
{
        FILE *file = fopen(path, "w");
        va_list arguments;

        va_start(arguments, format);
        if (file == NULL || vfprintf(file, format, arguments) < 0 || fclose(file) != 0)
                test_abort("cannot write %s", path);
        va_end(arguments);
}

static void write_settings(void)
{
        char *path = xasprintf("%s/smtpd.conf", folder);
        char *mail = xasprintf("%s/mail", folder);

        cr_assert_eq(mkdir(mail, 0777), 0);
        cr_assert_eq(chmod(mail, 0777), 0);
        write_file(path,
            "table known { \"ann@example.com\", \"bob@example.com\" }\n"
            "table users { \"@example.com\" = \"nobody\" }\n"
            "listen on 127.0.0.1 port %u\n"
            "action box maildir \"%s/%%{rcpt.user}\" virtual <users>\n"
            "match from any for rcpt-to <known> action box\n",
            port, mail);
        free(mail);
        free(path);
}

static bool is_listening(void *context)
{
        (void)context;
        if (!process_is_running(&server))
                test_abort("the mail server ended: %s", read_file(log_path));
        return port_accepts(port);
}

static void start_server(void)
{
        char *settings = xasprintf("%s/smtpd.conf", folder);
        const char *argv[] = {NAMESPACES, "sh", "-ec",
            "mount -t tmpfs none /var/spool\n"
            "mkdir -m 711 /var/spool/smtpd\n"
            "mount -t tmpfs none /run\n"
            "exec /usr/sbin/smtpd -d -f \"$1\"\n",
            "sh", settings, NULL};

        process_start(&server, argv, log_path, false);
        wait_until(is_listening, NULL, 20000, "OpenSMTPD listens");
        free(settings);
}

static bool can_run(void)
{
        return geteuid() == 0 && access("/usr/sbin/smtpd", X_OK) == 0 &&
               process_run(
                   (const char *[]){NAMESPACES, "mount", "-t", "tmpfs", "none", "/run", NULL}, NULL,
                   false) == 0;
}

static void prepare(void)
{
        if (!can_run()) {
                fputs("no OpenSMTPD here: it takes root, and a mount of its own\n", stderr);
                cr_skip_test();
        }
        curl_global_init(CURL_GLOBAL_ALL);
        folder = temp_folder();
        cr_assert_eq(chmod(folder, 0755), 0); /* "nobody" has to find his mailbox */
        log_path = xasprintf("%s/log", folder);
        port = free_port();
        config = (struct email_config){.from = from,
            .url = xasprintf("smtp://127.0.0.1:%u", port),
            .max_mails_per_connection = 100,
            .idle_ms = 30000,
            .connect_timeout_ms = 10000,
            .timeout_ms = 20000};
        write_settings();
        start_server();
}

/* The first of its PID namespace, with which all others die; unshare waits for it. */
static void stop_server(void)
{
        char *path = xasprintf("/proc/%d/task/%d/children", server.pid, server.pid);
        char *children = read_file(path);
        int child = atoi(children);

        if (child > 0)
                kill(child, SIGKILL);
        process_wait(&server, 20000);
        free(children);
        free(path);
}

static void clean_up(void)
{
        if (folder == NULL)
                return;
        if (is_open)
                sink_driver_deinit(&driver);
        stop_server();
        free(config.url);
        free(log_path);
        free(folder);
        curl_global_cleanup();
}

TestSuite(email_opensmtpd, .init = prepare, .fini = clean_up, .timeout = 60);

static struct outcome deliver(const char *json)
{
        struct event event = sample_event(1, json);

        if (!is_open)
                sink_driver_init_for(&driver, sink_kind_find("email"), &config, 2);
        is_open = true;
        return sink_driver_deliver(&driver, &event);
}

static void expect(struct outcome outcome, enum outcome_kind kind, const char *words)
{
        cr_expect_eq(outcome.kind, kind, "expected %s, got %s: %s", outcome_name(kind),
            outcome_name(outcome.kind), outcome.reason);
        cr_expect(strstr(outcome.reason, words) != NULL, "expected \"%s\" in \"%s\"", words,
            outcome.reason);
}

/* How many mails have come for `mailbox`; *out_text is the last of them (NULL: not wanted). */
static size_t look_into(const char *mailbox, char **out_text)
{
        char *pattern = xasprintf("%s/mail/%s/new/*", folder, mailbox);
        glob_t found;
        size_t n = 0;

        if (glob(pattern, 0, NULL, &found) == 0) {
                n = found.gl_pathc;
                if (out_text != NULL)
                        *out_text = read_file(found.gl_pathv[n - 1]);
                globfree(&found);
        }
        free(pattern);
        return n;
}

static bool has_mail(void *context)
{
        return look_into(context, NULL) > 0;
}

static bool has_ten_mails(void *context)
{
        (void)context;
        return look_into("ann", NULL) == 10;
}

static char *wait_for_mail(char *mailbox)
{
        char *text = NULL;

        wait_until(has_mail, mailbox, 20000, "the mail lies in the mailbox");
        look_into(mailbox, &text);
        return text;
}

/* The same event, as aiosmtpd got it. */
static json_t *second_opinion(const char *json)
{
        struct smtp_receiver other;
        struct sink_driver other_driver;
        struct email_config other_config = config;
        struct event event = sample_event(1, json);
        json_t *mails;

        smtp_receiver_init(&other);
        smtp_receiver_start(&other, NULL);
        other_config.url = xasprintf("smtp://127.0.0.1:%u", other.port);
        sink_driver_init_for(&other_driver, sink_kind_find("email"), &other_config, 2);
        expect(sink_driver_deliver(&other_driver, &event), OUTCOME_DELIVERED, "");
        mails = smtp_receiver_wait_for(&other, 1);
        sink_driver_deinit(&other_driver);
        smtp_receiver_deinit(&other);
        free(other_config.url);
        return mails;
}

/* A maildir has the lines end as this system does. */
static char *without_carriage_returns(const char *text)
{
        char *plain = xstrdup(text);
        char *to = plain;

        for (const char *at = text; *at != '\0'; at++)
                if (*at != '\r')
                        *to++ = *at;
        *to = '\0';
        return plain;
}

/* Behind what the servers themselves put first, and the Date. */
static const char *own_part(const char *mail)
{
        const char *part = strstr(mail, "\nMessage-ID: ");

        cr_assert_not_null(part, "there is no Message-ID in %s", mail);
        return part;
}

Test(email_opensmtpd, carries_dots_and_long_lines_byte_for_byte)
{
        char *line = xcalloc(1, 20001);
        char *json;
        char *kept;
        char *wanted;
        json_t *mails;

        memset(line, 'x', 20000);
        json = xasprintf("{\"to\": [\"ann@example.com\", \"Bob <bob@example.com>\"], \"subject\": "
                         "\"Grüße\", \"text\": \".\\n..two\\r\\n.\\r\\n\\nFrom me \\n%s\\n.\\n\", "
                         "\"html\": \"<p>.</p>\\n.\\n.%s\"}",
            line, line);
        expect(deliver(json), OUTCOME_DELIVERED, "");
        mails = second_opinion(json);

        wanted = without_carriage_returns(
            json_string_value(json_object_get(json_array_get(mails, 0), "data")));
        kept = wait_for_mail((char[]){"ann"});
        cr_expect_gt(strlen(own_part(kept)), 40000);
        cr_expect_not_null(strstr(own_part(kept), "\n.\n"));
        cr_expect_str_eq(own_part(kept), own_part(wanted));
        free(kept);
        kept = wait_for_mail((char[]){"bob"});
        cr_expect_str_eq(own_part(kept), own_part(wanted));
        cr_expect_eq(look_into("ann", NULL) + look_into("bob", NULL), 2);
        json_decref(mails);
        free(wanted);
        free(kept);
        free(json);
        free(line);
}

Test(email_opensmtpd, rejects_a_mail_to_an_unknown_recipient)
{
        expect(deliver("{\"to\": [\"ann@example.com\", \"eve@example.com\"], \"subject\": \"s\", "
                       "\"text\": \"t\"}"),
            OUTCOME_REJECTED, "recipient 2 (RCPT): 550");
        cr_expect_eq(look_into("ann", NULL), 0);
}

Test(email_opensmtpd, sends_many_mails_over_one_connection_and_tells_them_apart)
{
        for (int i = 0; i < 20; i++)
                expect(deliver(i % 2 == 0 ? "{\"to\": \"ann@example.com\", \"subject\": \"s\", "
                                            "\"text\": \"t\"}"
                                          : "{\"to\": \"eve@example.com\", \"subject\": \"s\", "
                                            "\"text\": \"t\"}"),
                    i % 2 == 0 ? OUTCOME_DELIVERED : OUTCOME_REJECTED, "");
        wait_until(has_ten_mails, NULL, 20000, "ten mails lie in the mailbox");
        expect(sink_driver_probe(&driver), OUTCOME_DELIVERED, "");
}
