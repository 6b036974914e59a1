#include "relay/overseer.h"

#include "admin/admin.h"
#include "base/alloc.h"
#include "base/log.h"

#include <stdlib.h>

struct overseer {
        struct admin *admin; /* owned */
};

static json_t *look(void *owner)
{
        (void)owner;
        return NULL;
}

static void ask(void *owner)
{
        (void)owner;
}

struct overseer *overseer_create(uv_loop_t *loop, const struct config *config,
    const char *config_file, struct telemetry *telemetry, struct error *error)
{
        static const struct admin_operations operations = {.look = look, .ask = ask};
        struct overseer *overseer = xcalloc(1, sizeof *overseer);

        overseer->admin = admin_create(loop,
            &(struct admin_options){.config = config->admin,
                .config_file = config_file,
                .telemetry = telemetry,
                .operations = &operations,
                .owner = overseer},
            error);
        if (overseer->admin == NULL) {
                free(overseer);
                return NULL;
        }
        log_info("admin_listening", kv_text("address", config->admin->listen));
        return overseer;
}

void overseer_take_config(struct overseer *overseer, const struct config *config)
{
        if (overseer != NULL && config->admin != NULL)
                admin_take_config(overseer->admin, config->admin);
}

void overseer_destroy(struct overseer *overseer)
{
        if (overseer == NULL)
                return;
        admin_destroy(overseer->admin);
        free(overseer);
}
