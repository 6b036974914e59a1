/*
 * The folder of message templates: NAME.subject, and NAME.txt, NAME.html or
 * both, in the language of mustache.h. Read and checked as a whole when the
 * sink is opened, never again; rendered on any thread.
 */
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "pgcourier/outcome.h"

#include <jansson.h>
#include <stdbool.h>

struct email_templates;

/* One template with its values filled in. */
struct email_rendering {
        struct bytes subject;
        struct bytes text;
        struct bytes html;
        bool has_text;
        bool has_html;
};

/* On failure returns NULL, and *error names each file that is wrong, as far as there is room. */
struct email_templates *email_templates_load(const char *folder, struct error *error);

void email_templates_destroy(struct email_templates *templates); /* NULL is allowed */

/* `templates` is NULL where none are configured. On failure there is nothing to deinit. */
bool email_templates_render(const struct email_templates *templates, const char *name,
    const json_t *values, struct email_rendering *out_rendering, struct outcome *out_rejected);

void email_rendering_deinit(struct email_rendering *rendering);
