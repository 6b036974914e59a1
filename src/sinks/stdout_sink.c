#include "pgcourier/sink.h"

extern const struct sink_ops stdout_sink_ops;
const struct sink_ops stdout_sink_ops = {.kind = "stdout"};
