/*
 * What lets people see and steer a running relay: the admin endpoint, and the
 * third connection by which it asks the database for them. Without a block
 * `admin` in the configuration there is neither.
 */
#pragma once

#include "base/error.h"
#include "config/config.h"

#include <uv.h>

struct overseer;
struct telemetry;

/* NULL and *error if the endpoint cannot listen. config->admin is not NULL. */
struct overseer *overseer_create(uv_loop_t *loop, const struct config *config,
    const char *config_file, struct telemetry *telemetry, struct error *error);

/* Another configuration is in force: other tokens and hosts. Where it listens stays as it is. */
void overseer_take_config(struct overseer *overseer, const struct config *config);

/* NULL is allowed. */
void overseer_destroy(struct overseer *overseer);
