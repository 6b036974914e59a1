#include "sinks/registry.h"

#include "sinks/module_loader.h"

#include <assert.h>
#include <string.h>

extern const struct sink_ops redis_sink_ops;
extern const struct sink_ops http_sink_ops;
extern const struct sink_ops email_sink_ops;
extern const struct sink_ops stdout_sink_ops;

const struct sink_ops *const sink_kinds[] = {
    &redis_sink_ops,
    &http_sink_ops,
    &email_sink_ops,
    &stdout_sink_ops,
    NULL,
};

const struct sink_ops *sink_kind_find(const char *kind)
{
        for (const struct sink_ops *const *ops = sink_kinds; *ops != NULL; ops++)
                if (strcmp((*ops)->kind, kind) == 0)
                        return *ops;
        return NULL;
}

const struct sink_ops *sink_kind_load(
    const char *folder, const struct sink_config *config, struct error *error)
{
        const struct sink_module *module;

        if (config->module == NULL)
                return sink_kind_find(sink_config_kind(config));
        module = sink_module_load(folder, config->module->file, error);
        if (module == NULL)
                return NULL;
        if (sink_config_fans_out(config) && module->ops.open_target == NULL) {
                error_set(error, ERROR_CONFIG,
                    "the sink %s has module.endpoints: table, but the module %s (%s) does not "
                    "deliver to endpoints; remove it",
                    config->name, config->module->file, module->ops.kind);
                return NULL;
        }
        return &module->ops;
}

bool sink_kinds_load(const struct config *config, struct error *error)
{
        for (unsigned i = 0; i < config->n_sinks; i++)
                if (sink_kind_load(config->relay.modules, &config->sinks[i], error) == NULL)
                        return false;
        return true;
}

const struct sink_ops *sink_kind_of(const struct sink_config *config)
{
        if (config->module == NULL)
                return sink_kind_find(sink_config_kind(config));
        assert(sink_module_find(config->module->file) != NULL);
        return &sink_module_find(config->module->file)->ops;
}

unsigned sink_kind_threads(const struct sink_config *config)
{
        if (config->email != NULL)
                return config->concurrency > 0 ? config->concurrency : EMAIL_CONCURRENCY;
        if (config->module != NULL)
                return sink_module_find(config->module->file)->own->threads;
        return config->stdout_ != NULL ? 1 : 0;
}
