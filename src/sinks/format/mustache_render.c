/*
 * Rendering. A name is looked for in the innermost section's value first, then
 * outwards; only its first part is, so that a.b never mixes two objects. The
 * recursion is as deep as sections are nested, which parsing has bounded; what
 * lists multiply is bounded by counting steps, for sections that write nothing
 * would otherwise never reach the limit of the output.
 */
#include "base/alloc.h"
#include "sinks/format/mustache.h"
#include "sinks/format/mustache_program.h"

#include <stdlib.h>
#include <string.h>

struct scope {
        const json_t *value;
        const struct scope *outer; /* NULL outside all sections */
};

struct rendering {
        const struct mustache *mustache;
        struct bytes *out;
        size_t max_length;
        unsigned n_steps;
        struct outcome *out_rejected;
};

static bool run(struct rendering *rendering, size_t from, size_t to, const struct scope *scope);

/* Always false. */
static bool reject(const struct rendering *rendering, const struct step *step, const char *problem)
{
        const struct mustache *mustache = rendering->mustache;
        struct mustache_place place = mustache_place_of(mustache->text, step->offset);

        if (step->kind == STEP_TEXT)
                *rendering->out_rejected = outcome_make(OUTCOME_REJECTED, "template %s:%u:%u: %s",
                    mustache->source, place.line, place.column, problem);
        else
                *rendering->out_rejected = outcome_make(OUTCOME_REJECTED,
                    "template %s:%u:%u: \"%.*s\" %s", mustache->source, place.line, place.column,
                    step->length < 80 ? (int)step->length : 80, step->text, problem);
        return false;
}

static const json_t *member(const json_t *value, const char *name, size_t length)
{
        return json_is_object(value) ? json_object_getn(value, name, length) : NULL;
}

static const json_t *find(const struct step *step, const struct scope *scope)
{
        const char *end = step->text + step->length;
        const char *part = step->text;
        const char *dot = memchr(part, '.', step->length);
        const json_t *value = NULL;

        if (step->length == 1 && dot == part)
                return scope->value;
        for (; scope != NULL && value == NULL; scope = scope->outer)
                value = member(scope->value, part, (size_t)((dot != NULL ? dot : end) - part));
        while (value != NULL && dot != NULL) {
                part = dot + 1;
                dot = memchr(part, '.', (size_t)(end - part));
                value = member(value, part, (size_t)((dot != NULL ? dot : end) - part));
        }
        return value;
}

static bool is_something(const json_t *value)
{
        switch (json_typeof(value)) {
        case JSON_NULL:
        case JSON_FALSE:
                return false;
        case JSON_STRING:
                return json_string_length(value) > 0;
        case JSON_ARRAY:
                return json_array_size(value) > 0;
        case JSON_OBJECT:
        case JSON_INTEGER:
        case JSON_REAL:
        case JSON_TRUE:
                return true;
        }
        abort();
}

static bool append(struct rendering *rendering, const struct step *step, const char *text, size_t n)
{
        if (n > rendering->max_length - rendering->out->length)
                return reject(rendering, step, "makes the text longer than 1 MiB");
        bytes_append(rendering->out, text, n);
        return true;
}

static const char *entity_of(char byte)
{
        switch (byte) {
        case '&':
                return "&amp;";
        case '<':
                return "&lt;";
        case '>':
                return "&gt;";
        case '"':
                return "&quot;";
        case '\'':
                return "&#39;";
        }
        return NULL;
}

static bool append_escaped(
    struct rendering *rendering, const struct step *step, const char *text, size_t n)
{
        for (size_t from = 0, at = 0; from < n; from = at) {
                const char *entity = entity_of(text[from]);
                at = from + 1;
                while (entity == NULL && at < n && entity_of(text[at]) == NULL)
                        at++;
                if (entity != NULL && !append(rendering, step, entity, strlen(entity)))
                        return false;
                if (entity == NULL && !append(rendering, step, text + from, at - from))
                        return false;
        }
        return true;
}

static bool append_value(
    struct rendering *rendering, const struct step *step, const struct scope *scope)
{
        const json_t *value = find(step, scope);
        bool is_escaped = step->kind == STEP_VALUE && rendering->mustache->is_html;
        char number[64];

        if (value == NULL)
                return reject(rendering, step, "is missing");
        switch (json_typeof(value)) {
        case JSON_NULL:
                return reject(rendering, step, "is null");
        case JSON_OBJECT:
                return reject(rendering, step, "is an object, which cannot be written as text");
        case JSON_ARRAY:
                return reject(rendering, step, "is a list, which cannot be written as text");
        case JSON_TRUE:
                return append(rendering, step, "true", 4);
        case JSON_FALSE:
                return append(rendering, step, "false", 5);
        case JSON_INTEGER:
        case JSON_REAL:
                return append(rendering, step, number,
                    json_dumpb(value, number, sizeof number, JSON_ENCODE_ANY));
        case JSON_STRING:
                return (is_escaped ? append_escaped : append)(
                    rendering, step, json_string_value(value), json_string_length(value));
        }
        abort();
}

static bool take_step(struct rendering *rendering, const struct step *step)
{
        return ++rendering->n_steps <= MUSTACHE_MAX_STEPS ||
               reject(rendering, step, "takes more than a million steps, in lists within lists");
}

static bool run_section(
    struct rendering *rendering, size_t index, const json_t *value, const struct scope *outer)
{
        const struct step *step = &rendering->mustache->steps[index];
        struct scope inner = {.value = value, .outer = outer};

        if (!json_is_array(value))
                return run(rendering, index + 1, step->after, &inner);
        for (size_t i = 0; i < json_array_size(value); i++) {
                inner.value = json_array_get(value, i);
                if (!take_step(rendering, step) || !run(rendering, index + 1, step->after, &inner))
                        return false;
        }
        return true;
}

static bool run_step(struct rendering *rendering, size_t index, const struct scope *scope)
{
        const struct step *step = &rendering->mustache->steps[index];
        const json_t *value;

        switch (step->kind) {
        case STEP_TEXT:
                return append(rendering, step, step->text, step->length);
        case STEP_VALUE:
        case STEP_RAW_VALUE:
                return append_value(rendering, step, scope);
        case STEP_SECTION:
                value = find(step, scope);
                if (value == NULL)
                        return reject(rendering, step, "is missing");
                return !is_something(value) || run_section(rendering, index, value, scope);
        case STEP_INVERTED:
                value = find(step, scope);
                return (value != NULL && is_something(value)) ||
                       run(rendering, index + 1, step->after, scope);
        }
        abort();
}

static bool run(struct rendering *rendering, size_t from, size_t to, const struct scope *scope)
{
        const struct step *steps = rendering->mustache->steps;

        for (size_t i = from; i < to;) {
                bool is_section = steps[i].kind == STEP_SECTION || steps[i].kind == STEP_INVERTED;
                if (!take_step(rendering, &steps[i]) || !run_step(rendering, i, scope))
                        return false;
                i = is_section ? steps[i].after : i + 1;
        }
        return true;
}

bool mustache_render(const struct mustache *mustache, const json_t *values, struct bytes *out,
    struct outcome *out_rejected)
{
        struct rendering rendering = {.mustache = mustache,
            .out = out,
            .max_length = out->length + MUSTACHE_MAX_OUTPUT_BYTES,
            .out_rejected = out_rejected};
        const struct scope outermost = {.value = values};

        bytes_append_text(out, "");
        return run(&rendering, 0, mustache->n_steps, &outermost);
}
