#include "cli/admin_client.h"

#include "base/alloc.h"
#include "cli/process.h"
#include "cli/remedy.h"
#include "config/config.h"
#include "config/secret.h"
#include "text/network.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ANSWER_BYTES (64 * 1024 * 1024)
#define SILENCE_S        10L /* the relay writes to a stream every second */

struct admin_client {
        CURL *easy;
        char *listen; /* owned; as configured */
        char *base;   /* owned; http://host:port */
        char *token;  /* owned; NULL: none */
};

/* A receiver that listens on every address listens on the loopback address, too. */
static const char *host_to_ask(const struct listen_address *address)
{
        if (strcmp(address->host, "0.0.0.0") == 0)
                return "127.0.0.1";
        return strcmp(address->host, "::") == 0 ? "::1" : address->host;
}

static void set_up(struct admin_client *client, const struct admin_config *config)
{
        struct listen_address address;
        const char *host;

        if (listen_address_parse(config->listen, &address) != NULL)
                abort(); /* config_load() has accepted it */
        client->listen = xstrdup(config->listen);
        client->token = config->token != NULL ? xstrdup(config->token) : NULL;
        if (address.path[0] != '\0') {
                client->base = xstrdup("http://localhost");
                curl_easy_setopt(client->easy, CURLOPT_UNIX_SOCKET_PATH, address.path);
        } else {
                host = host_to_ask(&address);
                client->base =
                    xasprintf(strchr(host, ':') != NULL ? "http://[%s]:%u" : "http://%s:%u", host,
                        address.port);
        }
        curl_easy_setopt(client->easy, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(
            client->easy, CURLOPT_PROXY, ""); /* none, even if the environment names one */
        curl_easy_setopt(client->easy, CURLOPT_PROTOCOLS_STR, "http");
}

struct admin_client *admin_client_create(const struct admin_config *config, struct error *error)
{
        struct admin_client *client;

        if (!process_init_curl()) {
                error_set(error, ERROR_SYSTEM, "libcurl cannot be initialised");
                return NULL;
        }
        client = xcalloc(1, sizeof *client);
        client->easy = curl_easy_init();
        if (client->easy == NULL)
                out_of_memory();
        set_up(client, config);
        return client;
}

static void no_receiver(const char *config_path, struct error *error)
{
        char *path = remedy_absolute(config_path);

        error_set(error, ERROR_CONFIG,
            "%.400s has no admin endpoint to ask. " ADMIN_CLIENT_BY_SIGNAL ". For a receiver "
            "write \"admin: {}\" in the file (127.0.0.1:8477); for changes it needs "
            "admin.token_file too",
            path);
        free(path);
}

struct admin_client *admin_client_open(const char *config_path, struct error *error)
{
        struct config *config = config_load(config_path, error);
        struct admin_client *client = NULL;

        if (config == NULL)
                return NULL;
        if (config->admin != NULL)
                client = admin_client_create(config->admin, error);
        else
                no_receiver(config_path, error);
        config_free(config);
        return client;
}

void admin_client_close(struct admin_client *client)
{
        if (client == NULL)
                return;
        curl_easy_cleanup(client->easy);
        curl_global_cleanup();
        free(client->listen);
        free(client->base);
        secret_free(client->token);
        free(client);
}

static struct curl_slist *add_header(struct curl_slist *headers, const char *header)
{
        struct curl_slist *longer = curl_slist_append(headers, header);

        if (longer == NULL)
                out_of_memory();
        return longer;
}

static struct curl_slist *make_headers(const struct admin_client *client, bool has_body)
{
        struct curl_slist *headers = NULL;
        char *header;

        if (has_body)
                headers = add_header(headers, "Content-Type: application/json");
        if (client->token != NULL) {
                header = xasprintf("Authorization: Bearer %s", client->token);
                headers = add_header(headers, header);
                secret_free(header);
        }
        return headers;
}

static CURLcode perform(struct admin_client *client, const char *path, const char *body)
{
        struct curl_slist *headers = make_headers(client, body != NULL);
        char *url = xasprintf("%s%s", client->base, path);
        CURLcode result;

        curl_easy_setopt(client->easy, CURLOPT_URL, url);
        curl_easy_setopt(client->easy, CURLOPT_HTTPHEADER, headers);
        if (body != NULL)
                curl_easy_setopt(client->easy, CURLOPT_POSTFIELDS, body);
        else
                curl_easy_setopt(client->easy, CURLOPT_HTTPGET, 1L);
        result = curl_easy_perform(client->easy);
        curl_easy_setopt(client->easy, CURLOPT_HTTPHEADER, NULL);
        curl_slist_free_all(headers);
        free(url);
        return result;
}

static bool fail(const struct admin_client *client, CURLcode result, struct error *error)
{
        bool is_away = result == CURLE_COULDNT_CONNECT;

        return error_set(error, ERROR_SYSTEM, "the relay's admin endpoint %s: %s%s", client->listen,
            curl_easy_strerror(result),
            is_away ? "; is the relay running, with this configuration?" : "");
}

static size_t on_body(char *data, size_t size, size_t n, void *owner)
{
        struct bytes *body = owner;

        (void)size; /* always 1 */
        if (body->length + n > MAX_ANSWER_BYTES)
                return 0;
        bytes_append(body, data, n);
        return n;
}

bool admin_client_ask(struct admin_client *client, const char *path, const char *body,
    long timeout_ms, long *out_status, struct bytes *out_body, struct error *error)
{
        CURLcode result;

        curl_easy_setopt(client->easy, CURLOPT_TIMEOUT_MS, timeout_ms);
        curl_easy_setopt(client->easy, CURLOPT_WRITEFUNCTION, on_body);
        curl_easy_setopt(client->easy, CURLOPT_WRITEDATA, out_body);
        result = perform(client, path, body);
        if (result != CURLE_OK)
                return fail(client, result, error);
        curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, out_status);
        return true;
}

bool admin_client_refused(long status, const struct bytes *body, struct error *error)
{
        json_t *document = json_loadb(body->data != NULL ? body->data : "", body->length, 0, NULL);
        const char *words = json_string_value(json_object_get(document, "error"));

        error_set(error, status == 401 || status == 403 ? ERROR_PERMISSION : ERROR_SYSTEM,
            "the relay answered %ld%s%s", status, words != NULL ? ": " : "",
            words != NULL ? words : "");
        json_decref(document);
        return false;
}

/* The text of a stream, cut into lines as it arrives. */
struct stream {
        struct admin_client *client;
        struct bytes text; /* the incomplete last line; or the whole answer if it is no stream */
        char event[64];
        admin_event_fn *on_event;
        void *owner; /* borrowed */
        bool has_enough;
};

static void take_line(struct stream *stream, const char *line)
{
        if (strncmp(line, "event: ", 7) == 0)
                snprintf(stream->event, sizeof stream->event, "%s", line + 7);
        else if (strncmp(line, "data: ", 6) == 0)
                stream->has_enough = !stream->on_event(stream->owner, stream->event, line + 6);
}

static void take_lines(struct stream *stream)
{
        char *line = stream->text.data;
        char *end;
        size_t rest;

        while (!stream->has_enough && (end = strchr(line, '\n')) != NULL) {
                *end = '\0';
                take_line(stream, line);
                line = end + 1;
        }
        rest = stream->text.length - (size_t)(line - stream->text.data);
        memmove(stream->text.data, line, rest + 1);
        stream->text.length = rest;
}

static size_t on_stream(char *data, size_t size, size_t n, void *owner)
{
        struct stream *stream = owner;
        long status = 0;

        if (on_body(data, size, n, &stream->text) == 0)
                return 0;
        curl_easy_getinfo(stream->client->easy, CURLINFO_RESPONSE_CODE, &status);
        if (status == 200)
                take_lines(stream);
        return stream->has_enough ? 0 : n;
}

bool admin_client_follow(struct admin_client *client, const char *path, admin_event_fn *on_event,
    void *owner, struct error *error)
{
        struct stream stream = {.client = client, .on_event = on_event, .owner = owner};
        CURLcode result;
        long status = 0;
        bool ok = false;

        curl_easy_setopt(client->easy, CURLOPT_TIMEOUT_MS, 0L);
        curl_easy_setopt(client->easy, CURLOPT_CONNECTTIMEOUT_MS, SILENCE_S * 1000);
        curl_easy_setopt(client->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(client->easy, CURLOPT_LOW_SPEED_TIME, SILENCE_S);
        curl_easy_setopt(client->easy, CURLOPT_WRITEFUNCTION, on_stream);
        curl_easy_setopt(client->easy, CURLOPT_WRITEDATA, &stream);
        result = perform(client, path, NULL);
        curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &status);
        if (stream.has_enough)
                ok = true;
        else if (result != CURLE_OK)
                fail(client, result, error);
        else if (status != 200)
                admin_client_refused(status, &stream.text, error);
        else
                error_set(error, ERROR_SYSTEM, "the relay at %s has ended", client->listen);
        bytes_deinit(&stream.text);
        return ok;
}
