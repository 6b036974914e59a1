#include "pgcourier/sink.h"

extern const struct sink_ops http_sink_ops;
const struct sink_ops http_sink_ops = {.kind = "http"};
