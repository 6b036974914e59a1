#include "text/template.h"

#include "base/bytes.h"
#include "base/error.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *const variables[] = {"topic", "key", NULL};
static const char *const values[] = {"orders", "42"};

static void expect_rendered(const char *text, const char *expected)
{
        struct error error = {0};
        struct bytes out = {0};
        struct template *template = template_compile(text, variables, &error);

        cr_assert(template != NULL, "%s", error.text);
        bytes_append(&out, "", 0);
        template_render(template, values, &out);
        cr_expect(strcmp(out.data, expected) == 0, "'%s' became '%s', not '%s'", text, out.data,
            expected);
        bytes_deinit(&out);
        template_destroy(template);
}

static void expect_refused(const char *text, const char *part_of_reason)
{
        struct error error = {0};
        struct template *template = template_compile(text, variables, &error);

        cr_expect(template == NULL, "'%s' was accepted", text);
        cr_expect(error.kind == ERROR_CONFIG);
        cr_expect(strstr(error.text, part_of_reason) != NULL, "'%s': %s", text, error.text);
        template_destroy(template);
}

Test(template, replaces_each_variable_by_its_value)
{
        expect_rendered("", "");
        expect_rendered("events", "events");
        expect_rendered("{{topic}}", "orders");
        expect_rendered("events.{{topic}}", "events.orders");
        expect_rendered("{{key}}{{topic}}-{{key}}", "42orders-42");
}

Test(template, allows_spaces_inside_the_braces)
{
        expect_rendered("a {{ topic }} b", "a orders b");
}

Test(template, keeps_outer_and_single_braces_as_text)
{
        expect_rendered("{{{topic}}}", "{orders}");
        expect_rendered("{{{{topic}}}}", "{{orders}}");
        expect_rendered("{a}{b", "{a}{b");
}

Test(template, renders_a_value_with_braces_as_it_is)
{
        const char *const odd[] = {"{{key}}", "42"};
        struct error error = {0};
        struct bytes out = {0};
        struct template *template = template_compile("{{topic}}", variables, &error);

        template_render(template, odd, &out);

        cr_expect(strcmp(out.data, "{{key}}") == 0);
        bytes_deinit(&out);
        template_destroy(template);
}

Test(template, refuses_unknown_variables_and_unmatched_braces)
{
        expect_refused("{{table}}", "unknown variable 'table'; allowed: {{topic}}, {{key}}");
        expect_refused("{{}}", "unknown variable ''");
        expect_refused("{{Topic}}", "unknown variable 'Topic'");
        expect_refused("{{topics}}", "unknown variable 'topics'");
        expect_refused("{{topic|upper}}", "unknown variable 'topic|upper'");
        expect_refused("a{{topic", "character 2: '{{' without");
        expect_refused("a{{topic}", "character 2: '{{' without");
        expect_refused("ab}}", "character 3: '}}' without");
        expect_refused("{{topic}}}}", "'}}' without");
        expect_refused("}}{{topic}}", "character 1: '}}' without");
}

Test(template, knows_whether_it_has_variables)
{
        struct error error = {0};
        struct template *fixed = template_compile("events", variables, &error);
        struct template *varying = template_compile("e.{{topic}}", variables, &error);

        cr_expect(!template_has_variables(fixed));
        cr_expect(template_has_variables(varying));
        template_destroy(fixed);
        template_destroy(varying);
}
