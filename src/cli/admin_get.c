#include "cli/admin_get.h"

#include "base/listen_address.h"
#include "cli/libraries.h"
#include "config/config.h"

#include <curl/curl.h>
#include <string.h>

#define TIMEOUT_MS     2000L
#define MAX_BODY_BYTES (16 << 20)

static size_t on_body(char *data, size_t size, size_t n, void *owner)
{
        struct bytes *body = owner;

        if (body->length + size * n > MAX_BODY_BYTES)
                return 0;
        bytes_append(body, data, size * n);
        return size * n;
}

/* Who listens on every address is asked on the loopback. */
static const char *client_host(const struct listen_address *address)
{
        if (strcmp(address->host, "0.0.0.0") == 0)
                return "127.0.0.1";
        if (strcmp(address->host, "::") == 0)
                return "::1";
        return address->host;
}

static void set_url(CURL *curl, const struct listen_address *address, const char *path)
{
        struct bytes url = {0};
        const char *host = client_host(address);

        if (address->path[0] != '\0') {
                curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, address->path);
                bytes_printf(&url, "http://localhost%s", path);
        } else if (strchr(host, ':') != NULL) {
                bytes_printf(&url, "http://[%s]:%u%s", host, address->port, path);
        } else {
                bytes_printf(&url, "http://%s:%u%s", host, address->port, path);
        }
        curl_easy_setopt(curl, CURLOPT_URL, url.data);
        bytes_deinit(&url);
}

static struct curl_slist *make_headers(const struct admin_config *admin)
{
        struct bytes header = {0};
        struct curl_slist *headers = NULL;

        if (admin->token == NULL)
                return NULL;
        bytes_printf(&header, "Authorization: Bearer %s", admin->token);
        headers = curl_slist_append(NULL, header.data);
        explicit_bzero(header.data, header.length);
        bytes_deinit(&header);
        return headers;
}

static bool perform(CURL *curl, const struct admin_config *admin, struct error *error)
{
        char words[CURL_ERROR_SIZE] = "";
        CURLcode code;
        long status = 0;

        curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, words);
        code = curl_easy_perform(curl);
        curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, NULL);
        if (code != CURLE_OK)
                return error_set(error, ERROR_SINK,
                    "the relay's admin endpoint %s does not answer: %s", admin->listen,
                    *words != '\0' ? words : curl_easy_strerror(code));
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        if (status == 401 || status == 403)
                return error_set(error, ERROR_PERMISSION,
                    "the relay's admin endpoint %s wants another token than that of the "
                    "configuration (HTTP %ld)",
                    admin->listen, status);
        return status == 200 ||
               error_set(error, ERROR_SINK, "the relay's admin endpoint %s answered with HTTP %ld",
                   admin->listen, status);
}

static bool get(const struct admin_config *admin, const struct listen_address *address,
    const char *path, struct bytes *out_body, struct error *error)
{
        struct curl_slist *headers = make_headers(admin);
        CURL *curl = curl_easy_init();
        bool ok;

        if (curl == NULL) {
                curl_slist_free_all(headers);
                return error_set(error, ERROR_SYSTEM, "libcurl cannot be used: out of memory");
        }
        set_url(curl, address, path);
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
        curl_easy_setopt(curl, CURLOPT_PROXY, "");
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, TIMEOUT_MS);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
        curl_easy_setopt(curl, CURLOPT_WRITEDATA, out_body);
        ok = perform(curl, admin, error);
        curl_easy_cleanup(curl);
        curl_slist_free_all(headers);
        return ok;
}

bool admin_get(
    const struct admin_config *admin, const char *path, struct bytes *out_body, struct error *error)
{
        struct listen_address address;
        bool ok;

        if (listen_address_parse(admin->listen, &address) !=
            NULL) /* the configuration is checked */
                return error_set(error, ERROR_CONFIG, "admin.listen is no address");
        if (!libraries_init_curl())
                return error_set(error, ERROR_SYSTEM, "libcurl cannot be used: out of memory");
        bytes_clear(out_body);
        ok = get(admin, &address, path, out_body, error);
        curl_global_cleanup();
        return ok;
}
