#include "pgcourier/sink.h"

extern const struct sink_ops redis_sink_ops;
const struct sink_ops redis_sink_ops = {.kind = "redis"};
