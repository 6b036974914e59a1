/*
 * The rules between the keys of an http sink. What they keep out is mostly one
 * thing: a secret or a credential that would go to nobody, or to everybody.
 */
#include "config/http_checks.h"

#include "config/values.h"

#include <string.h>

static bool fail(const struct source *source, const char *path, const char *name, const char *wrong)
{
        char key_path[KEY_PATH_SIZE];

        key_path_join(key_path, path, name);
        return source_fail(source, key_path, "%s", wrong);
}

/* The key that a value came from: the file's, if it is that which is written. */
static const char *written_as(
    const struct source *source, const char *path, const char *name, const char *file_name)
{
        char key_path[KEY_PATH_SIZE];

        key_path_join(key_path, path, file_name);
        return places_find(source->places, key_path) != NULL ? file_name : name;
}

static bool has_secret(const struct http_config *http)
{
        return http->secret != NULL || http->n_secrets > 0;
}

static bool check_receivers(
    const struct source *source, const struct http_config *http, const char *path)
{
        if (http->endpoints == HTTP_ENDPOINTS_NONE)
                return http->url != NULL ||
                       fail(source, path, "url",
                           "is required, or url_file, or endpoints: table: where events are "
                           "posted, http://host… or https://host…");
        if (http->url != NULL)
                return fail(source, path, "endpoints",
                    "is table while url is given too; keep one of the two: one receiver, or "
                    "those of courier.endpoint");
        if (has_secret(http))
                return fail(source, path,
                    http->secret != NULL ? written_as(source, path, "secret", "secret_file")
                                         : written_as(source, path, "secrets", "secrets_file"),
                    "is given with endpoints: table, where each endpoint has its own; remove it");
        if (http->auth.user != NULL || http->auth.password != NULL || http->auth.bearer != NULL)
                return fail(source, path, "auth",
                    "is given with endpoints: table and would be sent to every one of them; give "
                    "the endpoint an authorization header of its own instead");
        return true;
}

static bool check_secrets(
    const struct source *source, const struct http_config *http, const char *path)
{
        const char *wrong = NULL;
        char list_path[KEY_PATH_SIZE];
        char item_path[KEY_PATH_SIZE];

        if (http->secret != NULL && http->n_secrets > 0)
                return fail(source, path, "secrets",
                    "is given together with secret; keep one of the two, the newest first");
        if (http->signing == HTTP_SIGNING_NONE && has_secret(http))
                return fail(source, path, "signing", "is none while there is a secret; remove one");
        if ((http->signing == HTTP_SIGNING_GITHUB || http->signing == HTTP_SIGNING_STRIPE) &&
            !has_secret(http) && http->endpoints == HTTP_ENDPOINTS_NONE)
                return fail(source, path, "signing",
                    "is given without a secret; add secret, secret_file, secrets or secrets_file");
        if (http->signing != HTTP_SIGNING_STANDARD)
                return true;
        if (http->secret != NULL && (wrong = check_http_secret(http->secret)) != NULL)
                return fail(source, path, written_as(source, path, "secret", "secret_file"), wrong);
        key_path_join(list_path, path, written_as(source, path, "secrets", "secrets_file"));
        for (unsigned i = 0; i < http->n_secrets; i++) {
                key_path_item(item_path, list_path, i);
                wrong = check_http_secret(http->secrets[i]);
                if (wrong != NULL)
                        return source_fail(source, item_path, "%s", wrong);
        }
        return true;
}

static bool check_auth(const struct source *source, const struct http_auth *auth, const char *path)
{
        char auth_path[KEY_PATH_SIZE];

        key_path_join(auth_path, path, "auth");
        if ((auth->user == NULL) != (auth->password == NULL))
                return fail(source, auth_path, auth->user != NULL ? "user" : "password",
                    auth->user != NULL
                        ? "is given without password or password_file; logging in needs both"
                        : "is given without user; logging in needs both");
        if (auth->user != NULL && auth->bearer != NULL)
                return fail(source, auth_path, "bearer",
                    "is given together with user and password; a request carries one of the two");
        return true;
}

static bool check_transport(
    const struct source *source, const struct http_config *http, const char *path)
{
        if ((http->cert_file == NULL) != (http->key_file == NULL))
                return fail(source, path, http->cert_file != NULL ? "cert_file" : "key_file",
                    http->cert_file != NULL ? "is given without key_file; TLS needs both"
                                            : "is given without cert_file; TLS needs both");
        if (http->http_version == HTTP_VERSION_2 && http->fresh_connections)
                return fail(source, path, "fresh_connections",
                    "cannot go with http_version: 2, whose requests share connections");
        return true;
}

bool http_check(const struct source *source, const struct http_config *http, const char *path)
{
        if (!check_receivers(source, http, path) || !check_secrets(source, http, path) ||
            !check_auth(source, &http->auth, path) || !check_transport(source, http, path))
                return false;
        return http->batch == NULL || http->body != HTTP_BODY_CLOUDEVENTS ||
               fail(source, path, "batch",
                   "cannot go with body: cloudevents, whose headers describe one event; use "
                   "cloudevents-structured");
}
