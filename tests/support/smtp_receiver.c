#include "support/smtp_receiver.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ARGUMENTS 32

void smtp_receiver_init(struct smtp_receiver *receiver)
{
        char *folder = temp_folder();

        *receiver = (struct smtp_receiver){.port = free_port()};
        receiver->mailbox = xasprintf("%s/mailbox", folder);
        receiver->commands = xasprintf("%s/commands", folder);
        receiver->log = xasprintf("%s/log", folder);
        free(folder);
}

void smtp_receiver_deinit(struct smtp_receiver *receiver)
{
        process_stop(&receiver->process);
        free(receiver->mailbox);
        free(receiver->commands);
        free(receiver->log);
}

static bool is_listening(void *context)
{
        struct smtp_receiver *receiver = context;

        if (!process_is_running(&receiver->process))
                test_abort("the mail server ended: %s", read_file(receiver->log));
        return port_accepts(receiver->port);
}

void smtp_receiver_start(struct smtp_receiver *receiver, const char *const *options)
{
        char port[8];
        const char *argv[MAX_ARGUMENTS] = {"/usr/bin/python3",
            PGCOURIER_SUPPORT_FOLDER "/smtp_receiver.py", "--port", port, "--mailbox",
            receiver->mailbox, "--commands", receiver->commands};
        size_t n = 8;

        snprintf(port, sizeof port, "%u", receiver->port);
        for (; options != NULL && *options != NULL; options++) {
                if (n == MAX_ARGUMENTS - 1)
                        test_abort("too many options for the mail server");
                argv[n++] = *options;
        }
        process_start(&receiver->process, argv, receiver->log, false);
        wait_until(is_listening, receiver, 20000, "the mail server listens");
}

void smtp_receiver_stop(struct smtp_receiver *receiver)
{
        process_stop(&receiver->process);
}

void smtp_receiver_kill(struct smtp_receiver *receiver)
{
        process_kill(&receiver->process);
}

json_t *smtp_receiver_mails(const struct smtp_receiver *receiver)
{
        char *text = read_file(receiver->mailbox);
        json_t *mails = json_array();
        char *rest = text;

        /* A line without its end is still being written. */
        for (char *end; (end = strchr(rest, '\n')) != NULL; rest = end + 1) {
                json_error_t failure;
                json_t *mail = json_loadb(rest, (size_t)(end - rest), 0, &failure);
                if (mail == NULL)
                        test_abort("the mail server wrote a bad line: %s", failure.text);
                json_array_append_new(mails, mail);
        }
        free(text);
        return mails;
}

struct expected {
        const struct smtp_receiver *receiver;
        size_t n;
};

static bool has_mails(void *context)
{
        const struct expected *expected = context;
        json_t *mails = smtp_receiver_mails(expected->receiver);
        bool is_enough = json_array_size(mails) >= expected->n;

        json_decref(mails);
        return is_enough;
}

json_t *smtp_receiver_wait_for(const struct smtp_receiver *receiver, size_t n)
{
        struct expected expected = {receiver, n};

        wait_until(has_mails, &expected, 20000, "mails arrive");
        return smtp_receiver_mails(receiver);
}

const char *smtp_mail_header(const json_t *mail, const char *name)
{
        size_t i;
        json_t *pair;

        json_array_foreach(json_object_get(mail, "headers"), i, pair)
        {
                if (strcmp(json_string_value(json_array_get(pair, 0)), name) == 0)
                        return json_string_value(json_array_get(pair, 1));
        }
        return "(missing)";
}

unsigned smtp_receiver_count_commands(const struct smtp_receiver *receiver, const char *text)
{
        char *log = read_file(receiver->commands);
        unsigned n = 0;

        for (char *line = strtok(log, "\n"); line != NULL; line = strtok(NULL, "\n"))
                n += strstr(line, text) != NULL;
        free(log);
        return n;
}
