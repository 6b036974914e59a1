#include "pgcourier/version.h"
#include "cli/cli.h"
#include "outbox/blocking_conn.h"

#include <curl/curl.h>
#include <cyaml/cyaml.h>
#include <hiredis/hiredis.h>
#include <jansson.h>
#include <libsmartcols/libsmartcols.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#ifdef __clang__
#define COMPILER "Clang " __clang_version__
#else
#define COMPILER "GCC " __VERSION__
#endif

#define TEXT_OF(macro) #macro
#define TEXT(macro)    TEXT_OF(macro)

#define HIREDIS_VERSION TEXT(HIREDIS_MAJOR) "." TEXT(HIREDIS_MINOR) "." TEXT(HIREDIS_PATCH)
#define UV_VERSION      TEXT(UV_VERSION_MAJOR) "." TEXT(UV_VERSION_MINOR) "." TEXT(UV_VERSION_PATCH)

enum { JSON };

static const struct command_option options[] = {
    [JSON] = {"json", 0, NULL, false, "print one JSON object"},
    {0},
};

struct library {
        const char *name;
        const char *running;  /* NULL: the library does not say */
        const char *compiled; /* with which headers */
        const char *tls;      /* what it encrypts with, or NULL */
};

static void print_text(const struct library *libraries, size_t n_libraries)
{
        puts("pgcourier " PGCOURIER_VERSION);
        puts("compiler  " COMPILER);
        for (size_t i = 0; i < n_libraries; i++) {
                const struct library *at = &libraries[i];
                printf("%-9s %s (compiled with %s)", at->name,
                    at->running != NULL ? at->running : "?", at->compiled);
                if (at->tls != NULL)
                        printf(", TLS by %s", at->tls);
                putchar('\n');
        }
        puts("TLS to Redis is not available");
}

static bool print_json(const struct library *libraries, size_t n_libraries, struct error *error)
{
        json_t *list = json_object();
        json_t *version;
        char *text;

        for (size_t i = 0; i < n_libraries; i++) {
                const struct library *at = &libraries[i];
                json_object_set_new(list, at->name,
                    json_pack("{s:s?, s:s, s:s*}", "running", at->running, "compiled", at->compiled,
                        "tls", at->tls));
        }
        version = json_pack("{s:s, s:s, s:o, s:b}", "version", PGCOURIER_VERSION, "compiler",
            COMPILER, "libraries", list, "redis_tls", 0);
        text = json_dumps(version, JSON_COMPACT);
        json_decref(version);
        if (text == NULL)
                return error_set(error, ERROR_SYSTEM, "a library's version is not valid UTF-8");
        puts(text);
        free(text);
        return true;
}

static void print_libpq_version(char *text, size_t size, int version)
{
        snprintf(text, size, "%d.%d", version / 10000, version % 10000);
}

static const char *smartcols_version(void)
{
        const char *version = NULL;

        scols_get_library_version(&version);
        return version;
}

static bool run_version(const struct arguments *arguments, struct error *error)
{
        const curl_version_info_data *curl = curl_version_info(CURLVERSION_NOW);
        char libpq[24];
        char libpq_compiled[24];
        const char *smartcols = smartcols_version();
        const struct library libraries[] = {
            {"libpq", libpq, libpq_compiled, NULL},
            {"libuv", uv_version_string(), UV_VERSION, NULL},
            {"libcurl", curl->version, LIBCURL_VERSION, curl->ssl_version},
            {"hiredis", NULL, HIREDIS_VERSION, NULL},
            {"libcyaml", cyaml_version_str, LIBCYAML_COMPILED, NULL},
            {"jansson", jansson_version_str(), JANSSON_VERSION, NULL},
            {"smartcols", smartcols, LIBSMARTCOLS_VERSION, NULL},
            {"OpenSSL", OpenSSL_version(OPENSSL_VERSION_STRING), OPENSSL_VERSION_STR, NULL},
        };
        const size_t n_libraries = sizeof libraries / sizeof *libraries;

        print_libpq_version(libpq, sizeof libpq, libpq_version());
        print_libpq_version(libpq_compiled, sizeof libpq_compiled, libpq_version_compiled());
        if (arguments_has(arguments, JSON))
                return print_json(libraries, n_libraries, error);
        print_text(libraries, n_libraries);
        return true;
}

extern const struct command version_command;
const struct command version_command = {
    .name = "version",
    .summary = "print the versions of pgcourier and of what it is built from",
    .usage = "[--json]",
    .details = "Prints each library's version as it runs now and as it was when pgcourier was\n"
               "compiled.\n",
    .options = options,
    .run = run_version,
};
