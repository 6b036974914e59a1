#include "pgcourier/sink.h"

extern const struct sink_ops email_sink_ops;
const struct sink_ops email_sink_ops = {.kind = "email"};
