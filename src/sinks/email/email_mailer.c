#include "sinks/email/email_mailer.h"

#include "base/alloc.h"
#include "config/config.h"
#include "sinks/email/email_replies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* GSSAPI, NTLM and DIGEST-MD5 would be preferred by libcurl where a server offers them, and fail
 * where they are not set up; within TLS these are as safe. */
#define LOGIN_METHODS "AUTH=PLAIN;AUTH=LOGIN;AUTH=CRAM-MD5"

struct email_mailer {
        const struct email_server *server; /* borrowed: of the operation that runs, or ran last */
        const atomic_bool *is_hurried;     /* borrowed */
        CURL *curl;
        unsigned n_mails_on_connection;
        bool must_connect; /* the next mail may not use the connection that libcurl keeps */

        /* Of the operation that runs. */
        struct smtp_dialogue dialogue;
        const struct bytes *text; /* borrowed */
        size_t n_taken;           /* bytes of `text` that libcurl has */
        char curl_words[CURL_ERROR_SIZE];
};

struct email_mailer *email_mailer_create(const atomic_bool *is_hurried)
{
        struct email_mailer *mailer;
        CURL *curl = curl_easy_init();

        if (curl == NULL)
                return NULL;
        mailer = xcalloc(1, sizeof *mailer);
        mailer->curl = curl;
        mailer->is_hurried = is_hurried;
        return mailer;
}

/* Of the connection that libcurl keeps, if it keeps one. */
static void shut_socket(struct email_mailer *mailer, int how)
{
        curl_socket_t socket = CURL_SOCKET_BAD;

        if (curl_easy_getinfo(mailer->curl, CURLINFO_ACTIVESOCKET, &socket) == CURLE_OK &&
            socket != CURL_SOCKET_BAD)
                shutdown(socket, how);
}

void email_mailer_destroy(struct email_mailer *mailer)
{
        if (mailer == NULL)
                return;
        /* libcurl says QUIT and waits up to two minutes for an answer that is not needed: with the
         * reading side shut it sees the end at once. */
        shut_socket(mailer, SHUT_RD);
        curl_easy_cleanup(mailer->curl);
        free(mailer);
}

static size_t on_read(char *buffer, size_t size, size_t count, void *owner)
{
        struct email_mailer *mailer = owner;
        size_t left = mailer->text->length - mailer->n_taken;
        size_t length = size * count < left ? size * count : left;

        memcpy(buffer, mailer->text->data + mailer->n_taken, length);
        mailer->n_taken += length;
        mailer->dialogue.is_content_sent = mailer->n_taken == mailer->text->length;
        return length;
}

/* libcurl's trace is the only place that shows the commands it sends. */
static int on_traced(CURL *curl, curl_infotype type, char *data, size_t length, void *owner)
{
        struct email_mailer *mailer = owner;

        (void)curl;
        if (type == CURLINFO_HEADER_OUT)
                smtp_dialogue_on_sent(&mailer->dialogue, data, length);
        else if (type == CURLINFO_HEADER_IN)
                smtp_dialogue_on_received(&mailer->dialogue, data, length);
        return 0;
}

static int on_socket_opened(void *owner, curl_socket_t socket, curlsocktype purpose)
{
        struct email_mailer *mailer = owner;

        (void)socket;
        (void)purpose;
        mailer->n_mails_on_connection = 0;
        smtp_dialogue_on_connection(&mailer->dialogue);
        return CURL_SOCKOPT_OK;
}

/* Not 0 gives up. After QUIT there is nothing left to wait for. */
static int on_progress(void *owner, curl_off_t download_total, curl_off_t downloaded,
    curl_off_t upload_total, curl_off_t uploaded)
{
        const struct email_mailer *mailer = owner;

        (void)download_total;
        (void)downloaded;
        (void)upload_total;
        (void)uploaded;
        return mailer->dialogue.is_over || atomic_load(mailer->is_hurried);
}

static void set_callbacks(struct email_mailer *mailer)
{
        CURL *curl = mailer->curl;

        curl_easy_setopt(curl, CURLOPT_VERBOSE, 1L);
        curl_easy_setopt(curl, CURLOPT_DEBUGFUNCTION, on_traced);
        curl_easy_setopt(curl, CURLOPT_DEBUGDATA, mailer);
        curl_easy_setopt(curl, CURLOPT_SOCKOPTFUNCTION, on_socket_opened);
        curl_easy_setopt(curl, CURLOPT_SOCKOPTDATA, mailer);
        curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
        curl_easy_setopt(curl, CURLOPT_XFERINFODATA, mailer);
        curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, mailer->curl_words);
}

static void set_tls(struct email_mailer *mailer)
{
        const struct email_config *config = mailer->server->config;
        CURL *curl = mailer->curl;

        curl_easy_setopt(curl, CURLOPT_USE_SSL, (long)mailer->server->starttls);
        curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
        curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
        curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
        if (config->ca_file != NULL) {
                curl_easy_setopt(curl, CURLOPT_CAINFO, config->ca_file);
                curl_easy_setopt(curl, CURLOPT_CAPATH, NULL); /* instead of, not besides */
        }
        if (config->cert_file != NULL) {
                curl_easy_setopt(curl, CURLOPT_SSLCERT, config->cert_file);
                curl_easy_setopt(curl, CURLOPT_SSLKEY,
                    config->key_file != NULL ? config->key_file : config->cert_file);
        }
}

static void set_connection(struct email_mailer *mailer)
{
        const struct email_server *server = mailer->server;
        const struct email_config *config = server->config;
        CURL *curl = mailer->curl;

        curl_easy_setopt(curl, CURLOPT_URL, server->url);
        curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "smtp,smtps");
        curl_easy_setopt(curl, CURLOPT_PROXY, ""); /* else the environment's */
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)config->connect_timeout_ms);
        curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)config->timeout_ms);
        curl_easy_setopt(
            curl, CURLOPT_SERVER_RESPONSE_TIMEOUT, (long)(config->timeout_ms + 999) / 1000);
        curl_easy_setopt(curl, CURLOPT_MAXAGE_CONN, (long)config->idle_ms / 1000);
        curl_easy_setopt(curl, CURLOPT_MAXCONNECTS, 1L);
        if (server->user != NULL) {
                curl_easy_setopt(curl, CURLOPT_USERNAME, server->user);
                curl_easy_setopt(curl, CURLOPT_PASSWORD, server->password);
                curl_easy_setopt(curl, CURLOPT_LOGIN_OPTIONS, LOGIN_METHODS);
        }
}

/* The reset keeps connection and TLS session, and forgets all that is set: no option of one
 * operation can leak into the next. */
static void prepare(struct email_mailer *mailer, bool wants_fresh_connection)
{
        curl_easy_reset(mailer->curl);
        set_callbacks(mailer);
        set_connection(mailer);
        set_tls(mailer);
        curl_easy_setopt(mailer->curl, CURLOPT_FRESH_CONNECT, wants_fresh_connection ? 1L : 0L);
        mailer->n_taken = 0;
        mailer->curl_words[0] = '\0';
        smtp_dialogue_begin(&mailer->dialogue);
}

/* libcurl names the address it could not connect to, but not the reason. */
static const char *words_of(struct email_mailer *mailer, CURLcode result)
{
        size_t used = strlen(mailer->curl_words);
        long os_error = 0;

        if (used == 0)
                return curl_easy_strerror(result);
        curl_easy_getinfo(mailer->curl, CURLINFO_OS_ERRNO, &os_error);
        if (result == CURLE_COULDNT_CONNECT && os_error != 0)
                snprintf(mailer->curl_words + used, sizeof mailer->curl_words - used, ": %s",
                    strerrordesc_np((int)os_error));
        return mailer->curl_words;
}

/*
 * libcurl keeps a connection even if it gave up waiting for the answer to the
 * final dot. That answer, when it came, would be taken for the one to the next
 * mail's first command, and so on: such a connection must never be used again.
 */
static void leave_in_order(struct email_mailer *mailer, CURLcode result)
{
        mailer->must_connect = result != CURLE_OK && mailer->dialogue.code == 0;
        if (mailer->must_connect)
                shut_socket(mailer, SHUT_RDWR);
        if (++mailer->n_mails_on_connection == mailer->server->config->max_mails_per_connection)
                mailer->n_mails_on_connection = 0;
}

static CURLcode send_once(struct email_mailer *mailer, const struct email_sender *sender,
    struct curl_slist *recipients, bool wants_fresh_connection)
{
        CURL *curl = mailer->curl;
        CURLcode result;

        prepare(mailer, wants_fresh_connection);
        curl_easy_setopt(curl, CURLOPT_MAIL_FROM, sender->from.address);
        curl_easy_setopt(curl, CURLOPT_MAIL_RCPT, recipients);
        curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_read);
        curl_easy_setopt(curl, CURLOPT_READDATA, mailer);
        curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)mailer->text->length);
        if (mailer->n_mails_on_connection + 1 == mailer->server->config->max_mails_per_connection)
                curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, 1L);
        result = curl_easy_perform(curl);
        leave_in_order(mailer, result);
        return result;
}

/* The connection to another server is of no use here, and its farewell not waited for. */
static void take_server(struct email_mailer *mailer, const struct email_server *server)
{
        if (mailer->server != NULL && mailer->server != server) {
                shut_socket(mailer, SHUT_RDWR);
                mailer->must_connect = true;
        }
        mailer->server = server;
}

struct outcome email_mailer_send(struct email_mailer *mailer, const struct email_server *server,
    const struct email_sender *sender, const struct email_message *message)
{
        struct curl_slist *recipients = NULL;
        CURLcode result;

        for (size_t i = 0; i < message->n_recipients; i++) {
                struct curl_slist *longer = curl_slist_append(recipients, message->recipients[i]);
                if (longer == NULL) {
                        curl_slist_free_all(recipients);
                        smtp_dialogue_begin(&mailer->dialogue);
                        return outcome_make(OUTCOME_RETRY, "out of memory");
                }
                recipients = longer;
        }
        take_server(mailer, server);
        mailer->text = &message->text;
        result = send_once(mailer, sender, recipients, mailer->must_connect);
        if (smtp_should_reconnect(&mailer->dialogue, result) && !atomic_load(mailer->is_hurried))
                result = send_once(mailer, sender, recipients, true);
        mailer->text = NULL;
        curl_slist_free_all(recipients);
        return smtp_mail_outcome(&mailer->dialogue, result, words_of(mailer, result));
}

struct outcome email_mailer_probe(struct email_mailer *mailer, const struct email_server *server)
{
        CURLcode result;

        take_server(mailer, server);
        prepare(mailer, true);
        curl_easy_setopt(mailer->curl, CURLOPT_NOBODY, 1L);
        curl_easy_setopt(mailer->curl, CURLOPT_CUSTOMREQUEST, "NOOP");
        result = curl_easy_perform(mailer->curl);
        return smtp_probe_outcome(&mailer->dialogue, result, words_of(mailer, result));
}

const struct smtp_dialogue *email_mailer_dialogue(const struct email_mailer *mailer)
{
        return &mailer->dialogue;
}
