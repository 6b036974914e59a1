/*
 * A short text with variables, as in `stream: "events.{{topic}}"`: compiled
 * once, rendered for each event. A run of braces keeps its outer ones as text,
 * so {{{topic}}} is the value in single braces.
 */
#pragma once

#include <stdbool.h>

struct bytes;
struct error;
struct template;

/* `variables` ends with NULL and lists the names that may be used. On failure returns NULL and sets
 * *error (ERROR_CONFIG). */
struct template *template_compile(
    const char *text, const char *const *variables, struct error *error);

void template_destroy(struct template *template); /* NULL is allowed */

/* False if it renders to the same text whatever the values. */
bool template_has_variables(const struct template *template);

/* True if the variable of that number, in the order given to template_compile(), is in it. */
bool template_uses(const struct template *template, int variable);

/* Appends to `out`. `values` has one text for each variable, in the order of template_compile(). */
void template_render(const struct template *template, const char *const *values, struct bytes *out);
