/*
 * uv_dlopen() would bind functions when they are first called, and so end the program in the middle
 * of its work if one is missing. Hence dlopen(): what a module lacks is found when it is loaded.
 */
#include "sinks/registry.h"

#include "base/alloc.h"
#include "pgcourier/version.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern const struct sink_ops redis_sink_ops;
extern const struct sink_ops http_sink_ops;
extern const struct sink_ops email_sink_ops;
extern const struct sink_ops postgres_sink_ops;
extern const struct sink_ops rabbitmq_sink_ops;
extern const struct sink_ops stdout_sink_ops;
extern const struct sink_ops nats_sink_ops;

const struct sink_ops *const sink_kinds[] = {
    &redis_sink_ops,
    &http_sink_ops,
    &email_sink_ops,
    &postgres_sink_ops,
    &rabbitmq_sink_ops,
    &stdout_sink_ops,
    &nats_sink_ops,
    NULL,
};

const struct sink_ops *sink_kind_find(const char *kind)
{
        for (const struct sink_ops *const *ops = sink_kinds; *ops != NULL; ops++)
                if (strcmp((*ops)->kind, kind) == 0)
                        return *ops;
        return NULL;
}

/* Ours, but in shared objects of their own, for what they bring with them. */
struct own_module {
        const char *kind;
        const char *file;
        const char *package;
};

static const struct own_module own_modules[] = {
    {"kafka", "kafka.so", "pgcourier-kafka"},
};

static const struct own_module *own_module_find(const char *kind)
{
        for (size_t i = 0; i < sizeof own_modules / sizeof *own_modules; i++)
                if (strcmp(own_modules[i].kind, kind) == 0)
                        return &own_modules[i];
        return NULL;
}

enum { MAX_THREADS = 64, MAX_KIND_BYTES = 31 };

/* Kept to the end of the process: the code of sinks, of their threads and callbacks is in these. */
static struct sink_module *modules;

const struct sink_module *sink_module_find(const char *file)
{
        for (const struct sink_module *module = modules; module != NULL; module = module->next)
                if (strcmp(module->file, file) == 0)
                        return module;
        return NULL;
}

const char *sink_module_folder(const char *configured)
{
        return configured != NULL ? configured : PGCOURIER_MODULE_FOLDER;
}

static bool check_trusted(const char *path, const struct stat *status, struct error *error)
{
        if (status->st_uid != 0 && status->st_uid != geteuid())
                return error_set(error, ERROR_PERMISSION,
                    "%s belongs to user %ju: modules, and their folder, must belong to root or to "
                    "the user that pgcourier runs as (%ju)",
                    path, (uintmax_t)status->st_uid, (uintmax_t)geteuid());
        if ((status->st_mode & (S_IWGRP | S_IWOTH)) != 0)
                return error_set(error, ERROR_PERMISSION,
                    "%s is writable by %s, who could run any code as pgcourier: run chmod go-w on "
                    "it",
                    path, (status->st_mode & S_IWOTH) != 0 ? "every user" : "its group");
        return true;
}

static bool check_folder_of(const char *folder, struct error *error)
{
        struct stat status;

        if (stat(folder, &status) != 0)
                return error_set(error, errno == EACCES ? ERROR_PERMISSION : ERROR_CONFIG,
                    "the folder of modules %s cannot be read: %s; relay.modules names it", folder,
                    strerror(errno));
        if (!S_ISDIR(status.st_mode))
                return error_set(error, ERROR_CONFIG,
                    "%s is not a folder; relay.modules must name the folder with the modules",
                    folder);
        return check_trusted(folder, &status, error);
}

static bool check_file(const char *path, struct error *error)
{
        struct stat status;

        if (lstat(path, &status) != 0)
                return error_set(error, errno == EACCES ? ERROR_PERMISSION : ERROR_CONFIG,
                    "the module %s cannot be read: %s; install it there, or correct module.file or "
                    "relay.modules",
                    path, strerror(errno));
        /* The folder's permissions say nothing about the target of a link, so links are refused. */
        if (!S_ISREG(status.st_mode))
                return error_set(error, ERROR_CONFIG,
                    "the module %s is not a regular file; put the file itself there, not a link",
                    path);
        return check_trusted(path, &status, error);
}

struct size_rule {
        const char *name;
        uint32_t theirs;
        uint32_t least; /* what the first version of this interface had */
        uint32_t ours;
};

static bool check_sizes(const struct pgcourier_module *own, const char *path, struct error *error)
{
        static const struct pgcourier_sizes ours = PGCOURIER_SIZES;
        static const uint32_t least_ops = offsetof(struct sink_ops, probe) + sizeof(void *);
        const struct pgcourier_sizes *theirs = &own->sizes;
        const struct size_rule rules[] = {
            {"pgcourier_module", theirs->module_, ours.module_, ours.module_},
            {"sink_ops", theirs->ops, least_ops, ours.ops},
            {"sink", theirs->sink, ours.sink, ours.sink},
            {"attempt", theirs->attempt, 1, ours.attempt},
            {"event", theirs->event, 1, ours.event},
            {"event_header", theirs->event_header, ours.event_header, ours.event_header},
            {"outcome", theirs->outcome, ours.outcome, ours.outcome},
            {"sink_settings", theirs->settings, 1, ours.settings},
            {"target_settings", theirs->target_settings, 1, ours.target_settings},
            {"sink_option", theirs->option, ours.option, ours.option},
            {"sink_options", theirs->options, ours.options, ours.options},
        };

        for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
                if (rules[i].theirs < rules[i].least || rules[i].theirs > rules[i].ours)
                        return error_set(error, ERROR_CONFIG,
                            "the module %s was compiled with a struct %s of %u bytes, which has %u "
                            "here: build it with the headers of this pgcourier, " PGCOURIER_VERSION,
                            path, rules[i].name, rules[i].theirs, rules[i].ours);
        return true;
}

static const char *missing_member(const struct sink_ops *ops)
{
        if (ops->kind == NULL)
                return "kind";
        if (ops->open == NULL)
                return "open";
        if (ops->deliver == NULL)
                return "deliver";
        if (ops->cancel == NULL)
                return "cancel";
        if (ops->close == NULL)
                return "close";
        if (ops->probe == NULL)
                return "probe";
        if (ops->open_target == NULL && ops->close_target != NULL)
                return "open_target, but not close_target";
        if (ops->close_target == NULL && ops->open_target != NULL)
                return "close_target, but not open_target";
        if (ops->owned == NULL && ops->settled != NULL)
                return "owned, but not settled";
        if (ops->settled == NULL && ops->owned != NULL)
                return "settled, but not owned";
        return NULL;
}

static bool check_kind(const char *kind, const char *file, const char *path, struct error *error)
{
        size_t length = strlen(kind);
        const struct own_module *own = own_module_find(kind);

        if (length == 0 || length > MAX_KIND_BYTES ||
            strspn(kind, "abcdefghijklmnopqrstuvwxyz0123456789-_") != length)
                return error_set(error, ERROR_CONFIG,
                    "the module %s has an invalid name for its kind; allowed: 1 to %d of a-z, 0-9, "
                    "- and _",
                    path, MAX_KIND_BYTES);
        if (sink_kind_find(kind) != NULL || strcmp(kind, "module") == 0 ||
            (own != NULL && strcmp(own->file, file) != 0))
                return error_set(error, ERROR_CONFIG,
                    "the module %s calls its kind %s, which is one of pgcourier's own: rename it",
                    path, kind);
        for (const struct sink_module *other = modules; other != NULL; other = other->next)
                if (strcmp(other->ops.kind, kind) == 0)
                        return error_set(error, ERROR_CONFIG,
                            "the module %s calls its kind %s, as %s does: rename one of them", path,
                            kind, other->file);
        return true;
}

/* A kind of ours gets a struct that is no part of the interface. */
static bool check_version(const struct sink_module *module, const char *path, struct error *error)
{
        if (own_module_find(module->ops.kind) == NULL ||
            strcmp(module->own->version, PGCOURIER_VERSION) == 0)
                return true;
        return error_set(error, ERROR_CONFIG,
            "%s is of pgcourier %s, this is pgcourier " PGCOURIER_VERSION
            ": install the package %s of the same version",
            path, module->own->version, own_module_find(module->ops.kind)->package);
}

static bool take_ops(
    struct sink_module *module, const char *file, const char *path, struct error *error)
{
        const char *missing;

        memcpy(&module->ops, module->own->ops, module->own->sizes.ops);
        missing = missing_member(&module->ops);
        if (missing != NULL)
                return error_set(error, ERROR_CONFIG,
                    "the module %s lacks a member of its sink_ops: %s", path, missing);
        return check_kind(module->ops.kind, file, path, error) &&
               check_version(module, path, error);
}

static bool take_symbol(struct sink_module *module, void *library, const char *file,
    const char *path, struct error *error)
{
        const struct pgcourier_module *own = dlsym(library, "pgcourier_module");

        if (own == NULL)
                return error_set(error, ERROR_CONFIG,
                    "%s is not a module of pgcourier: it lacks the symbol pgcourier_module (see "
                    "PGCOURIER_MODULE in pgcourier/module.h)",
                    path);
        if (own->interface != PGCOURIER_SINK_INTERFACE)
                return error_set(error, ERROR_CONFIG,
                    "the module %s is for version %u of the interface, this pgcourier "
                    "(" PGCOURIER_VERSION ") has version %d: build it with the headers of this one",
                    path, own->interface, PGCOURIER_SINK_INTERFACE);
        if (!check_sizes(own, path, error))
                return false;
        if (own->ops == NULL || own->version == NULL)
                return error_set(error, ERROR_CONFIG,
                    "the module %s lacks a member of its pgcourier_module: %s", path,
                    own->ops == NULL ? "ops" : "version");
        if (own->threads > MAX_THREADS)
                return error_set(error, ERROR_CONFIG,
                    "the module %s asks for %u threads; allowed: up to %d", path, own->threads,
                    MAX_THREADS);
        module->own = own;
        return take_ops(module, file, path, error);
}

static const struct sink_module *load(const char *path, const char *file, struct error *error)
{
        struct sink_module *module = xcalloc(1, sizeof *module);
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

        if (library == NULL) {
                error_set(
                    error, ERROR_CONFIG, "the module %s cannot be loaded: %s", path, dlerror());
        } else if (take_symbol(module, library, file, path, error)) {
                module->file = xstrdup(file);
                module->next = modules;
                modules = module;
                return module;
        } else {
                dlclose(library);
        }
        free(module);
        return NULL;
}

const struct sink_module *sink_module_load(
    const char *configured_folder, const char *file, struct error *error)
{
        const char *folder = sink_module_folder(configured_folder);
        const struct sink_module *module = sink_module_find(file);
        char *path;

        if (module != NULL)
                return module;
        path = xasprintf("%s/%s", folder, file);
        if (check_folder_of(folder, error) && check_file(path, error))
                module = load(path, file, error);
        free(path);
        return module;
}

/* Where a module of ours is: in the configured folder, else where its package puts it, so that a
 * folder for others' modules does not hide it. NULL: in neither. */
static const char *folder_of_own(const char *configured, const struct own_module *own)
{
        const char *const folders[] = {sink_module_folder(configured), PGCOURIER_MODULE_FOLDER};

        for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
                char *path = xasprintf("%s/%s", folders[i], own->file);
                bool is_there = access(path, F_OK) == 0;
                free(path);
                if (is_there)
                        return folders[i];
        }
        return NULL;
}

static const struct sink_module *load_own(
    const char *configured, const struct own_module *own, struct error *error)
{
        const struct sink_module *module = sink_module_find(own->file);
        const char *folder = folder_of_own(configured, own);

        if (module != NULL)
                return module;
        if (folder != NULL)
                return sink_module_load(folder, own->file, error);
        error_set(error, ERROR_CONFIG, "%s needs the package %s: there is no %s in %s", own->kind,
            own->package, own->file, sink_module_folder(configured));
        return NULL;
}

static const struct sink_module *load_of_others(
    const char *folder, const struct sink_config *config, struct error *error)
{
        const char *file = config->module->file;
        const struct sink_module *module = sink_module_load(folder, file, error);

        if (module == NULL)
                return NULL;
        if (own_module_find(module->ops.kind) != NULL)
                error_set(error, ERROR_CONFIG,
                    "the sink %s has module.file: %s, which is pgcourier's own: write a block %s: "
                    "instead of module:",
                    config->name, file, module->ops.kind);
        else if (sink_config_fans_out(config) && module->ops.open_target == NULL)
                error_set(error, ERROR_CONFIG,
                    "the sink %s has module.receivers: table, but the module %s (%s) does not "
                    "deliver to receivers; remove it",
                    config->name, file, module->ops.kind);
        else
                return module;
        return NULL;
}

const struct sink_ops *sink_kind_load(
    const char *folder, const struct sink_config *config, struct error *error)
{
        const struct own_module *own = own_module_find(sink_config_kind(config));
        const struct sink_module *module;

        if (config->module == NULL && own == NULL)
                return sink_kind_find(sink_config_kind(config));
        module = own != NULL ? load_own(folder, own, error) : load_of_others(folder, config, error);
        return module != NULL ? &module->ops : NULL;
}

bool sink_kinds_load(const struct config *config, struct error *error)
{
        for (unsigned i = 0; i < config->n_sinks; i++)
                if (sink_kind_load(config->relay.modules, &config->sinks[i], error) == NULL)
                        return false;
        return true;
}

const char *sink_module_file(const struct sink_config *config)
{
        const struct own_module *own = own_module_find(sink_config_kind(config));

        if (config->module != NULL)
                return config->module->file;
        return own != NULL ? own->file : NULL;
}

static const struct sink_module *module_of(const struct sink_config *config)
{
        const char *file = sink_module_file(config);

        return file != NULL ? sink_module_find(file) : NULL;
}

const struct sink_ops *sink_kind_of(const struct sink_config *config)
{
        if (sink_module_file(config) == NULL)
                return sink_kind_find(sink_config_kind(config));
        assert(module_of(config) != NULL);
        return &module_of(config)->ops;
}

unsigned sink_kind_threads(const struct sink_config *config)
{
        if (config->email != NULL)
                return config->concurrency > 0 ? config->concurrency : EMAIL_CONCURRENCY;
        if (sink_module_file(config) != NULL)
                return module_of(config)->own->threads;
        return config->stdout_ != NULL ? 1 : 0;
}
