#include "sink.h"

#include "database.h"

#include <string.h>

static const struct sink *const sinks[] = {&http_sink, &null_sink, &redis_sink};

const struct sink *sink_open(const char *text)
{
        size_t length = strcspn(text, ":");

        for (size_t i = 0; i < sizeof sinks / sizeof sinks[0]; i++) {
                if (strlen(sinks[i]->name) != length || strncmp(sinks[i]->name, text, length) != 0)
                        continue;
                sinks[i]->open(text[length] == ':' ? text + length + 1 : "");
                return sinks[i];
        }
        die(text, "is no sink: null, redis:SOCKET or http:PORT");
}
