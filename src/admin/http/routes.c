#include "admin/http/routes.h"

#include "admin/admin_internal.h"
#include "admin/http/answer.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "log/log.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

const struct route admin_routes[] = {
    {"GET", "/livez", ACCESS_OPEN, answer_livez},
    {"GET", "/readyz", ACCESS_OPEN, answer_readyz},
    {"GET", "/", ACCESS_OPEN, answer_page},
    {"GET", "/page/*", ACCESS_OPEN, answer_page},
    {"GET", "/metrics", ACCESS_READ, answer_metrics},
    {"GET", "/api/status", ACCESS_READ, answer_status},
    {"GET", "/api/events", ACCESS_READ, answer_events},
    {"GET", "/api/dead", ACCESS_READ, answer_dead},
    {"GET", "/api/receivers", ACCESS_READ, answer_receivers},
    {"GET", "/api/receivers/*", ACCESS_READ, answer_receiver},
    {"GET", "/api/trace/*", ACCESS_READ, answer_trace},
    {"GET", "/api/types", ACCESS_READ, answer_types},
    {"POST", "/api/receivers/*/pause", ACCESS_OPERATOR, answer_receiver_pause},
    {"POST", "/api/receivers/*/resume", ACCESS_OPERATOR, answer_receiver_resume},
    {"POST", "/api/schedules/pause", ACCESS_OPERATOR, answer_schedule_pause},
    {"POST", "/api/schedules/resume", ACCESS_OPERATOR, answer_schedule_resume},
    {"POST", "/api/schedules/run", ACCESS_OPERATOR, answer_schedule_run},
    {"POST", "/api/sinks/*/pause", ACCESS_OPERATOR, answer_pause},
    {"POST", "/api/sinks/*/resume", ACCESS_OPERATOR, answer_resume},
    {"POST", "/api/dead/redrive", ACCESS_OPERATOR, answer_redrive},
    {"POST", "/api/dead/drop", ACCESS_OPERATOR, answer_drop},
    {"POST", "/api/reload", ACCESS_OPERATOR, answer_reload},
    {"POST", "/api/log", ACCESS_OPERATOR, answer_log},
    {0},
};

bool route_path_matches(const char *pattern, const char *path, char out_name[ROUTE_NAME_SIZE])
{
        const char *star = strchr(pattern, '*');
        size_t before;
        size_t length;

        if (star == NULL)
                return strcmp(pattern, path) == 0;
        before = (size_t)(star - pattern);
        if (strncmp(pattern, path, before) != 0)
                return false;
        length = strcspn(path + before, "/");
        if (length == 0 || length >= ROUTE_NAME_SIZE ||
            strcmp(path + before + length, star + 1) != 0)
                return false;
        memcpy(out_name, path + before, length);
        out_name[length] = '\0';
        return true;
}

bool route_takes_method(struct http_call *request, const char *takes)
{
        const char *method = http_call_method(request);
        bool is_get = strcmp(takes, "GET") == 0;
        const struct http_header allow = {"Allow", is_get ? "GET, HEAD" : "POST"};

        if (strcmp(takes, method) == 0 || (is_get && strcmp(method, "HEAD") == 0))
                return true;
        answer_refusal_with(
            request, 405, &allow, is_get ? "this path takes GET and HEAD" : "this path takes POST");
        return false;
}

static void hash(const char *text, unsigned char out_hash[32])
{
        if (EVP_Digest(text, strlen(text), out_hash, NULL, EVP_sha256(), NULL) != 1)
                out_of_memory();
}

void token_init(struct token *token, const char *text)
{
        token->is_set = text != NULL;
        if (text != NULL)
                hash(text, token->hash);
}

bool token_matches(const struct token *token, const char *authorization)
{
        static const char scheme[] = "Bearer ";
        unsigned char given[32];

        if (!token->is_set || authorization == NULL ||
            strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
                return false;
        /* Texts of any length become 32 bytes, and those are compared to their end. */
        hash(authorization + sizeof scheme - 1, given);
        return CRYPTO_memcmp(given, token->hash, sizeof given) == 0;
}

/* "name", "name:port", "[ip6]", "[ip6]:port" without the port and the brackets. */
static bool take_name(const char *host, char *out_name, size_t size, bool *out_is_ip6)
{
        bool has_bracket = host[0] == '[';
        const char *start = has_bracket ? host + 1 : host;
        size_t length = strcspn(start, has_bracket ? "]" : ":");
        const char *rest = start + length;

        if (length == 0 || length >= size || (has_bracket && *rest++ != ']'))
                return false;
        if (*rest == ':')
                rest += 1 + strspn(rest + 1, "0123456789");
        if (*rest != '\0')
                return false;
        memcpy(out_name, start, length);
        out_name[length] = '\0';
        *out_is_ip6 = has_bracket;
        return true;
}

bool host_is_ours(const struct admin_config *config, const char *host)
{
        char name[256];
        unsigned char address[16];
        bool is_ip6;

        if (host == NULL || !take_name(host, name, sizeof name, &is_ip6))
                return false;
        if (is_ip6)
                return inet_pton(AF_INET6, name, address) == 1;
        if (strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, address) == 1)
                return true;
        for (unsigned i = 0; i < config->n_allowed_hosts; i++)
                if (strcasecmp(name, config->allowed_hosts[i]) == 0)
                        return true;
        return false;
}

static void tell_refused(struct admin *admin)
{
        const int64_t pause_us = 10 * INT64_C(1000000);
        int64_t now_us = clock_monotonic_us();

        if (admin->refused_us != 0 && now_us < admin->refused_us + pause_us)
                return;
        admin->refused_us = now_us;
        log_warn("admin_token_refused",
            kv_text(
                "hint", "a request to the admin endpoint carried another token than admin.token"));
}

/* Answers, and returns false, if the token is needed and not there. */
static bool check_token(struct admin *admin, struct http_call *request, enum route_access access)
{
        static const struct http_header challenge = {
            "WWW-Authenticate", "Bearer realm=\"pgcourier\""};
        const char *authorization = http_call_header(request, "Authorization");

        if (access == ACCESS_OPEN || (access == ACCESS_READ && admin->is_local))
                return true;
        if (!admin->token.is_set) {
                answer_refusal(request, 403,
                    "nothing can be changed here without a token: set admin.token_file to a file "
                    "with one (openssl rand -hex 32), and send \"Authorization: Bearer TOKEN\"");
                return false;
        }
        if (token_matches(&admin->token, authorization))
                return true;
        if (authorization != NULL)
                tell_refused(admin);
        answer_refusal_with(request, 401, &challenge,
            authorization != NULL ? "wrong token: it differs from admin.token or admin.token_file"
                                  : "a token is needed: send \"Authorization: Bearer TOKEN\" with "
                                    "the token of admin.token or admin.token_file");
        return false;
}

/* Browsers send this type to another site only after asking that site, which never agrees. */
static bool is_json_type(const char *type)
{
        static const char json[] = "application/json";
        size_t length = sizeof json - 1;

        return type != NULL && strncasecmp(type, json, length) == 0 &&
               (type[length] == '\0' || type[length] == ';' || type[length] == ' ');
}

json_t *route_read_body(struct http_call *request)
{
        size_t length;
        const char *text = http_call_body(request, &length);
        json_error_t wrong;
        json_t *body;

        if (!is_json_type(http_call_header(request, "Content-Type"))) {
                answer_refusal(request, 415, "the body's Content-Type must be application/json");
                return NULL;
        }
        body = json_loadb(text, length, JSON_REJECT_DUPLICATES, &wrong);
        if (json_is_object(body))
                return body;
        answer_refusal(request, 400, "the body must be a JSON object%s%s", body == NULL ? ": " : "",
            body == NULL ? wrong.text : "");
        json_decref(body);
        return NULL;
}

static void answer_post(
    struct admin *admin, struct http_call *request, const struct route *route, const char *name)
{
        json_t *body = route_read_body(request);

        if (body != NULL)
                route->answer(admin, request, name, body);
        json_decref(body);
}

static void answer_route(
    struct admin *admin, struct http_call *request, const struct route *route, const char *name)
{
        if (!route_takes_method(request, route->method))
                return;
        if (!check_token(admin, request, route->access))
                return;
        else if (strcmp(route->method, "POST") == 0)
                answer_post(admin, request, route, name);
        else
                route->answer(admin, request, name, NULL);
}

void routes_answer(struct admin *admin, struct http_call *request)
{
        const char *path = http_call_path(request);
        char name[ROUTE_NAME_SIZE] = "";

        if (!host_is_ours(admin->options.config, http_call_header(request, "Host"))) {
                answer_refusal(request, 403,
                    "the request's Host is not allowed; add its name to admin.allowed_hosts");
                return;
        }
        if (http_call_is_too_large(request)) {
                answer_refusal(request, 413, "the body is larger than 64 KiB");
                return;
        }
        for (const struct route *route = admin_routes; route->path != NULL; route++) {
                if (!route_path_matches(route->path, path, name))
                        continue;
                answer_route(admin, request, route, name);
                return;
        }
        answer_refusal(request, 404, "there is nothing at this path; see docs/admin.md");
}
