#include "config/config.h"

#include "base/alloc.h"
#include "config/checks.h"
#include "config/compare.h"
#include "config/config_keys.h"
#include "config/fill.h"
#include "config/raw.h"
#include "config/secret.h"
#include "config/source.h"

#include <stdlib.h>

/* Text → places of its keys → libcyaml's structs of texts → our structs → rules between keys. */
static bool load(const struct source *source, struct config *config)
{
        struct raw raw;
        bool is_loaded = raw_load(source, &raw) &&
                         block_fill(source, &config_root, raw.slots, config, "") &&
                         config_check(source, config);

        raw_deinit(&raw);
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
        for (unsigned i = 0; i < config->n_sinks; i++) {
                struct redis_config *redis = config->sinks[i].redis;
                if (redis != NULL) {
                        /* Taken from the URL: no row owns them. */
                        free(redis->host);
                        free(redis->socket_path);
                }
        }
        block_clear(&config_root, config);
        free(config->path);
        secret_free_bytes(config->text, config->text_length);
        free(config);
}

const char *sink_config_kind(const struct sink_config *sink)
{
        if (sink->redis != NULL)
                return "redis";
        if (sink->http != NULL)
                return "http";
        if (sink->email != NULL)
                return "email";
        if (sink->stdout_ != NULL)
                return "stdout";
        if (sink->module != NULL)
                return "module";
        abort(); /* config_load() accepts no sink without a kind */
}

const void *sink_config_options(const struct sink_config *sink)
{
        if (sink->redis != NULL)
                return sink->redis;
        if (sink->http != NULL)
                return sink->http;
        if (sink->email != NULL)
                return sink->email;
        if (sink->stdout_ != NULL)
                return sink->stdout_;
        if (sink->module != NULL)
                return &sink->module->options;
        abort();
}

bool sink_config_fans_out(const struct sink_config *sink)
{
        if (sink->http != NULL)
                return sink->http->endpoints == HTTP_ENDPOINTS_TABLE;
        return sink->module != NULL && sink->module->endpoints == HTTP_ENDPOINTS_TABLE;
}
