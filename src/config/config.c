#include "config/config.h"

#include "base/alloc.h"
#include "config/checks.h"
#include "config/compare.h"
#include "config/parse.h"
#include "config/secret.h"
#include "config/yaml_reader.h"

#include <stdlib.h>

/* The tree of the file into our structs, then the rules between keys. */
static bool load(const struct source *source, struct config *config)
{
        bool is_loaded = config_parse(source, config) && config_check(source, config);

        for (unsigned i = 0; is_loaded && i < config->n_sinks; i++)
                config->sinks[i].files = sink_config_fingerprint(&config->sinks[i]);
        return is_loaded;
}

/* Closes the source, whose text is the configuration's then. */
static struct config *load_or_free(struct source *source, bool is_open)
{
        struct config *config = xcalloc(1, sizeof *config);
        bool is_loaded = is_open && load(source, config);

        if (is_loaded) {
                config->path = xstrdup(source->path);
                config->text = source->text;
                config->text_length = source->length;
                source->text = NULL;
        } else {
                config_free(config);
        }
        source_close(source);
        return is_loaded ? config : NULL;
}

struct config *config_load(const char *path, struct error *error)
{
        struct source source;
        bool is_open = source_open(&source, path, error);

        return load_or_free(&source, is_open);
}

struct config *config_load_text(
    const char *path, const char *text, size_t length, struct error *error)
{
        struct source source;
        bool is_open = source_open_text(&source, path, text, length, error);

        return load_or_free(&source, is_open);
}

void config_free(struct config *config)
{
        if (config == NULL)
                return;
        config->n_sinks += config->n_unserved;
        for (unsigned i = 0; i < config->n_sinks; i++) {
                struct redis_config *redis = config->sinks[i].redis;
                struct postgres_sink_config *postgres = config->sinks[i].postgres;
                if (postgres != NULL)
                        postgres_config_clear(&postgres->server);
                if (redis != NULL) {
                        /* Taken from the URL: no row owns them. */
                        free(redis->host);
                        free(redis->socket_path);
                }
        }
        config_clear(config);
        free(config->path);
        secret_free_bytes(config->text, config->text_length);
        free(config);
}

void postgres_config_copy(struct postgres_config *copy, const struct postgres_config *from)
{
        postgres_config_clear(copy);
        *copy = *from;
        copy->dsn = from->dsn != NULL ? xstrdup(from->dsn) : NULL;
        copy->password = from->password != NULL ? xstrdup(from->password) : NULL;
}

void postgres_config_clear(struct postgres_config *copy)
{
        secret_free(copy->dsn);
        secret_free(copy->password);
}

void config_keep_served(struct config *config)
{
        unsigned n = config->n_sinks;
        struct sink_config *sorted = xcalloc(n + 1, sizeof *sorted);

        config->n_sinks = 0;
        for (unsigned i = 0; i < n; i++)
                if (relay_config_serves(&config->relay, config->sinks[i].name))
                        sorted[config->n_sinks++] = config->sinks[i];
                else
                        sorted[n - ++config->n_unserved] = config->sinks[i];
        free(config->sinks);
        config->sinks = sorted;
}
