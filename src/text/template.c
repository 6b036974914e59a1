/* A compiled template is a list of parts: a run of literal text, or the number of a variable. */
#include "text/template.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { PART_LITERAL = -1 };

struct part {
        int variable;        /* index into the values, or PART_LITERAL */
        const char *literal; /* inside template->text */
        size_t length;
};

struct template
{
        char *text; /* owned */
        struct part *parts;
        size_t n_parts;
};

static void add_part(struct template *template, const struct part *part)
{
        template->parts =
            xrealloc(template->parts, (template->n_parts + 1) * sizeof *template->parts);
        template->parts[template->n_parts++] = *part;
}

static void add_literal(struct template *template, const char *from, const char *to)
{
        const struct part part = {PART_LITERAL, from, (size_t)(to - from)};

        if (part.length > 0)
                add_part(template, &part);
}

static int find_variable(const char *const *variables, const char *name, size_t length)
{
        for (int i = 0; variables[i] != NULL; i++)
                if (strlen(variables[i]) == length && memcmp(variables[i], name, length) == 0)
                        return i;
        return -1;
}

static bool refuse_variable(const struct template *template, const char *const *variables,
    const char *name, size_t length, struct error *error)
{
        struct bytes known = {0};

        for (size_t i = 0; variables[i] != NULL; i++)
                bytes_printf(&known, "%s{{%s}}", i > 0 ? ", " : "", variables[i]);
        error_set(error, ERROR_CONFIG,
            "template '%s', character %zu: unknown variable '%.*s'; allowed: %s", template->text,
            (size_t)(name - template->text) + 1, (int)length, name,
            known.data != NULL ? known.data : "none");
        bytes_deinit(&known);
        return false;
}

/* `inside` is what stands between "{{" and "}}". */
static bool add_variable(struct template *template, const char *const *variables,
    const char *inside, size_t length, struct error *error)
{
        struct part part = {0};

        while (length > 0 && *inside == ' ')
                inside++, length--;
        while (length > 0 && inside[length - 1] == ' ')
                length--;
        part.variable = find_variable(variables, inside, length);
        if (part.variable < 0)
                return refuse_variable(template, variables, inside, length, error);
        add_part(template, &part);
        return true;
}

static bool compile(struct template *template, const char *const *variables, struct error *error)
{
        const char *from = template->text;

        for (;;) {
                const char *open = strstr(from, "{{");
                const char *stray = strstr(from, "}}");
                const char *first_brace = open;
                const char *close;

                if (stray != NULL && (open == NULL || stray < open))
                        return error_set(error, ERROR_CONFIG,
                            "template '%s', character %zu: '}}' without a '{{' before it",
                            template->text, (size_t)(stray - template->text) + 1);
                if (open == NULL) {
                        add_literal(template, from, from + strlen(from));
                        return true;
                }
                while (open[2] == '{')
                        open++;
                close = strstr(open + 2, "}}");
                if (close == NULL)
                        return error_set(error, ERROR_CONFIG,
                            "template '%s', character %zu: '{{' without a '}}' after it",
                            template->text, (size_t)(open - template->text) + 1);
                add_literal(template, from, open);
                if (!add_variable(template, variables, open + 2, (size_t)(close - open) - 2, error))
                        return false;
                from = close + 2;
                /* As many braces as stood before it, lest two of them look like a stray "}}". */
                for (ptrdiff_t extra = open - first_brace; extra > 0 && *from == '}'; extra--)
                        from++;
                add_literal(template, close + 2, from);
        }
}

struct template *template_compile(
    const char *text, const char *const *variables, struct error *error)
{
        struct template *template = xcalloc(1, sizeof *template);

        template->text = xstrdup(text);
        if (!compile(template, variables, error)) {
                template_destroy(template);
                return NULL;
        }
        return template;
}

void template_destroy(struct template *template)
{
        if (template == NULL)
                return;
        free(template->parts);
        free(template->text);
        free(template);
}

bool template_has_variables(const struct template *template)
{
        for (size_t i = 0; i < template->n_parts; i++)
                if (template->parts[i].variable != PART_LITERAL)
                        return true;
        return false;
}

bool template_uses(const struct template *template, int variable)
{
        for (size_t i = 0; i < template->n_parts; i++)
                if (template->parts[i].variable == variable)
                        return true;
        return false;
}

void template_render(const struct template *template, const char *const *values, struct bytes *out)
{
        for (size_t i = 0; i < template->n_parts; i++) {
                const struct part *part = &template->parts[i];

                if (part->variable == PART_LITERAL)
                        bytes_append(out, part->literal, part->length);
                else
                        bytes_append_text(out, values[part->variable]);
        }
}
