#include "cli/commands.h"
#include "pg/blocking_conn.h"
#include "pgcourier/version.h"
#include "sinks/registry.h"

#include <ares.h>
#include <curl/curl.h>
#include <dirent.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <jansson.h>
#include <libsmartcols/libsmartcols.h>
#include <microhttpd.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>
#include <yaml.h>

#ifdef __clang__
#define COMPILER "Clang " __clang_version__
#else
#define COMPILER "GCC " __VERSION__
#endif

#define TEXT_OF(macro) #macro
#define TEXT(macro)    TEXT_OF(macro)

#define HIREDIS_VERSION TEXT(HIREDIS_MAJOR) "." TEXT(HIREDIS_MINOR) "." TEXT(HIREDIS_PATCH)
#define UV_VERSION      TEXT(UV_VERSION_MAJOR) "." TEXT(UV_VERSION_MINOR) "." TEXT(UV_VERSION_PATCH)

enum { JSON, MODULES };

static const struct command_option options[] = {
    [JSON] = {"json", 0, NULL, false, "print one JSON object"},
    [MODULES] = {"modules", 0, "FOLDER", false,
        "list the modules of this folder (see relay.modules)\ninstead of the installation's"},
    {0},
};

struct library {
        const char *name;
        const char *running;  /* NULL: the library does not say */
        const char *compiled; /* with which headers */
        const char *tls;      /* what it encrypts with, or NULL */
};

/* The files of a folder of modules. */
struct modules {
        const char *folder;
        struct dirent **entries; /* owned */
        int n_entries;           /* none if there is no such folder */
};

static int is_module(const struct dirent *entry)
{
        size_t length = strlen(entry->d_name);

        return length > 3 && strcmp(entry->d_name + length - 3, ".so") == 0;
}

static bool modules_find(struct modules *modules, const char *folder, struct error *error)
{
        modules->folder = sink_module_folder(folder);
        modules->n_entries = scandir(modules->folder, &modules->entries, is_module, alphasort);
        if (modules->n_entries >= 0)
                return true;
        modules->n_entries = 0;
        /* The folder of the installation may be missing. */
        return folder == NULL ||
               error_set(error, ERROR_USAGE, "--modules %.400s cannot be read: %s", folder,
                   strerror(errno));
}

static void modules_free(struct modules *modules)
{
        for (int i = 0; i < modules->n_entries; i++)
                free(modules->entries[i]);
        free(modules->entries);
}

static void print_modules(const struct modules *modules)
{
        printf("modules   interface %d, %d in %s\n", PGCOURIER_SINK_INTERFACE, modules->n_entries,
            modules->folder);
        for (int i = 0; i < modules->n_entries; i++) {
                const char *file = modules->entries[i]->d_name;
                struct error why = {0};
                const struct sink_module *module = sink_module_load(modules->folder, file, &why);
                if (module != NULL)
                        printf("          %s: kind %s, version %s\n", file, module->ops.kind,
                            module->own->version);
                else
                        printf("          %s: refused: %s\n", file, why.text);
        }
}

static json_t *pack_modules(const struct modules *modules)
{
        json_t *list = json_array();

        for (int i = 0; i < modules->n_entries; i++) {
                const char *file = modules->entries[i]->d_name;
                struct error why = {0};
                const struct sink_module *module = sink_module_load(modules->folder, file, &why);
                json_array_append_new(list,
                    module != NULL ? json_pack("{s:s, s:s, s:s}", "file", file, "kind",
                                         module->ops.kind, "version", module->own->version)
                                   : json_pack("{s:s, s:s}", "file", file, "refused", why.text));
        }
        return json_pack("{s:i, s:s, s:o}", "interface", PGCOURIER_SINK_INTERFACE, "folder",
            modules->folder, "found", list);
}

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
        puts("TLS to Redis by OpenSSL");
}

static bool print_json(const struct library *libraries, size_t n_libraries,
    const struct modules *modules, struct error *error)
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
        version = json_pack("{s:s, s:s, s:o, s:b, s:o}", "version", PGCOURIER_VERSION, "compiler",
            COMPILER, "libraries", list, "redis_tls", 1, "modules", pack_modules(modules));
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
            {"c-ares", ares_version(NULL), ARES_VERSION_STR, NULL},
            {"libcurl", curl->version, LIBCURL_VERSION, curl->ssl_version},
            {"hiredis", NULL, HIREDIS_VERSION, NULL},
            {"libyaml", yaml_get_version_string(), LIBYAML_COMPILED, NULL},
            {"jansson", jansson_version_str(), JANSSON_VERSION, NULL},
            {"libmicrohttpd", MHD_get_version(), LIBMICROHTTPD_COMPILED, NULL},
            {"smartcols", smartcols, LIBSMARTCOLS_VERSION, NULL},
            {"OpenSSL", OpenSSL_version(OPENSSL_VERSION_STRING), OPENSSL_VERSION_STR, NULL},
        };
        const size_t n_libraries = sizeof libraries / sizeof *libraries;
        struct modules modules = {0};
        bool ok = true;

        if (!modules_find(&modules, arguments_value(arguments, MODULES), error))
                return false;
        print_libpq_version(libpq, sizeof libpq, libpq_version());
        print_libpq_version(libpq_compiled, sizeof libpq_compiled, libpq_version_compiled());
        if (arguments_has(arguments, JSON)) {
                ok = print_json(libraries, n_libraries, &modules, error);
        } else {
                print_text(libraries, n_libraries);
                print_modules(&modules);
        }
        modules_free(&modules);
        return ok;
}

const struct command version_command = {
    .name = "version",
    .summary = "print the versions of pgcourier and of what it is built from",
    .usage = "[--modules FOLDER] [--json]",
    .details = "Prints each library's version as it runs now and as it was when pgcourier was\n"
               "compiled, and loads each module of the folder to say what it is.\n",
    .options = options,
    .run = run_version,
};
