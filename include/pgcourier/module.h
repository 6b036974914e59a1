/*
 * A sink of your own, as a shared object. docs/writing-a-sink.md explains it from the beginning;
 * examples/sink-file is a complete one.
 *
 * The module defines one symbol, by PGCOURIER_MODULE(). pgcourier loads the file once, at its
 * start, from the folder `relay.modules`, and never unloads it. Whatever a module calls of
 * pgcourier is declared in pgcourier/outcome.h, option.h and sink.h.
 *
 * What may change, and what never does within one PGCOURIER_SINK_INTERFACE:
 *   - struct sink_ops, attempt, event, sink_settings and target_settings may grow at their end. A
 *     module that was compiled before still works: what its sink_ops lacks counts as NULL. One
 *     compiled with a newer, larger struct is refused by an older pgcourier.
 *   - struct sink, outcome, event_header, sink_option and sink_options do not change in size: modules
 *     make them, or step through arrays of them. (outcome.fault lies where there was a gap.)
 *   - Functions may be added; a module that calls one that is not there is refused when it is
 *     loaded. Those that are here stay, and so do the members and the values of enums.
 * Anything else needs a new number, and modules of another number are refused.
 */
#pragma once

#include "pgcourier/option.h"
#include "pgcourier/sink.h"
#include "pgcourier/version.h"

/* The sizes with which something was compiled. */
struct pgcourier_sizes {
        uint32_t module_;
        uint32_t ops;
        uint32_t sink;
        uint32_t attempt;
        uint32_t event;
        uint32_t event_header;
        uint32_t outcome;
        uint32_t settings;
        uint32_t target_settings;
        uint32_t option;
        uint32_t options;
};

#define PGCOURIER_SIZES                                                                            \
        {                                                                                          \
                .module_ = sizeof(struct pgcourier_module), .ops = sizeof(struct sink_ops),        \
                .sink = sizeof(struct sink), .attempt = sizeof(struct attempt),                    \
                .event = sizeof(struct event), .event_header = sizeof(struct event_header),        \
                .outcome = sizeof(struct outcome), .settings = sizeof(struct sink_settings),       \
                .target_settings = sizeof(struct target_settings),                                 \
                .option = sizeof(struct sink_option), .options = sizeof(struct sink_options)       \
        }

struct pgcourier_module {
        uint32_t interface; /* first, whatever else changes */
        struct pgcourier_sizes sizes;
        const char *version; /* the module's own, for people: "1.2.0" */
        /* How many threads of libuv's pool each instance keeps busy at a time, by
         * uv_queue_work() or uv_fs_*(); 0 to 64. pgcourier makes the pool large enough for all. */
        uint32_t threads;
        const struct sink_ops *ops; /* `kind` is a word of its own: 1 to 31 of a-z, 0-9, - and _ */
};

/* In one file of the module, once:
 *   PGCOURIER_MODULE(.version = "1.2.0", .threads = 1, .ops = &file_sink_ops); */
#define PGCOURIER_MODULE(...)                                                                      \
        __attribute__((                                                                            \
            visibility("default"))) extern const struct pgcourier_module pgcourier_module;         \
        const struct pgcourier_module pgcourier_module = {                                         \
            .interface = PGCOURIER_SINK_INTERFACE, .sizes = PGCOURIER_SIZES, __VA_ARGS__}
