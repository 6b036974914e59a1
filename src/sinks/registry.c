#include "sinks/registry.h"

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
