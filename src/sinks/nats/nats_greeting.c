#include "sinks/nats/nats_greeting.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config.h"
#include "pgcourier/version.h"
#include "sinks/nats/nats_credentials.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_URL_BYTES = 300, MAX_NONCE_BYTES = 1024 };

static bool read_flag(const json_t *object, const char *name, bool *out_flag)
{
        const json_t *value = json_object_get(object, name);

        *out_flag = json_is_true(value);
        return value == NULL || json_is_boolean(value);
}

static bool read_max_payload(const json_t *object, size_t *out_bytes)
{
        const json_t *value = json_object_get(object, "max_payload");

        if (value == NULL)
                return true;
        if (!json_is_integer(value) || json_integer_value(value) <= 0)
                return false;
        *out_bytes = (size_t)json_integer_value(value);
        return true;
}

static bool read_nonce(const json_t *object, char **out_nonce)
{
        const json_t *value = json_object_get(object, "nonce");

        if (value == NULL)
                return true;
        if (!json_is_string(value) || json_string_length(value) > MAX_NONCE_BYTES)
                return false;
        *out_nonce = xstrdup(json_string_value(value));
        return true;
}

/* Those that are too many or too long are left out: each of the others will do. */
static bool read_urls(const json_t *object, struct nats_info *info)
{
        const json_t *list = json_object_get(object, "connect_urls");
        size_t n = json_array_size(list);

        if (list != NULL && !json_is_array(list) && !json_is_null(list))
                return false;
        if (n == 0)
                return true;
        info->urls = xcalloc(NATS_MAX_CONNECT_URLS, sizeof *info->urls);
        for (size_t i = 0; i < n && info->n_urls < NATS_MAX_CONNECT_URLS; i++) {
                const json_t *url = json_array_get(list, i);
                if (json_is_string(url) && json_string_length(url) <= MAX_URL_BYTES)
                        info->urls[info->n_urls++] = xstrdup(json_string_value(url));
        }
        return true;
}

bool nats_info_parse(const char *json, size_t length, struct nats_info *out_info)
{
        struct nats_info info = {0};
        json_t *object = json_loadb(json, length, 0, NULL);
        bool is_valid = json_is_object(object) && read_flag(object, "headers", &info.has_headers) &&
                        read_flag(object, "jetstream", &info.has_jetstream) &&
                        read_flag(object, "tls_required", &info.requires_tls) &&
                        read_flag(object, "tls_available", &info.offers_tls) &&
                        read_flag(object, "auth_required", &info.requires_login) &&
                        read_flag(object, "ldm", &info.is_lame_duck) &&
                        read_max_payload(object, &info.max_payload) &&
                        read_nonce(object, &info.nonce) && read_urls(object, &info);

        json_decref(object);
        if (is_valid)
                *out_info = info;
        else
                nats_info_deinit(&info);
        return is_valid;
}

void nats_info_deinit(struct nats_info *info)
{
        for (unsigned i = 0; i < info->n_urls; i++)
                free(info->urls[i]);
        free(info->urls);
        free(info->nonce);
        *info = (struct nats_info){0};
}

static void set_text(json_t *object, const char *name, const char *value)
{
        if (value != NULL && json_object_set_new(object, name, json_string(value)) != 0)
                out_of_memory(); /* the configuration's texts are UTF-8 */
}

static void add_login(json_t *object, const struct nats_config *config,
    const struct nats_credentials *credentials, const char *nonce)
{
        char *signature;

        set_text(object, "user", config->user);
        set_text(object, "pass", config->password);
        set_text(object, "auth_token", config->token);
        set_text(object, "jwt", credentials->jwt);
        if (!credentials->has_seed)
                return;
        if (credentials->jwt == NULL)
                set_text(object, "nkey", credentials->public_key);
        signature = nats_credentials_sign(credentials, nonce != NULL ? nonce : "");
        set_text(object, "sig", signature);
        free(signature);
}

static int append_json(const char *data, size_t length, void *out)
{
        bytes_append(out, data, length);
        return 0;
}

/* pedantic: or a publication to a.* would be stored as one to the literal a.*. echo off: what we
 * publish is not for us. */
void nats_append_connect(struct bytes *out, const struct nats_config *config,
    const struct nats_credentials *credentials, const struct nats_info *info)
{
        json_t *object = json_pack("{s:b,s:b,s:b,s:b,s:b,s:b,s:i,s:s,s:s,s:s}", "verbose", 0,
            "pedantic", 1, "headers", 1, "no_responders", 1, "echo", 0, "tls_required",
            (int)info->requires_tls, "protocol", 1, "lang", "c", "version", PGCOURIER_VERSION,
            "name", "pgcourier");

        if (object == NULL)
                out_of_memory();
        add_login(object, config, credentials, info->nonce);
        bytes_append_text(out, "CONNECT ");
        if (json_dump_callback(object, append_json, out, JSON_COMPACT) != 0)
                out_of_memory();
        bytes_append_text(out, "\r\n");
        json_decref(object);
}
