/* The template language: what it writes, where it refuses, and that nothing in it runs away. */
#include "sinks/format/mustache.h"

#include "base/alloc.h"
#include "sinks/email/email_payload.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct mustache *parsed(const char *text, bool is_html)
{
        struct error error = {0};
        struct mustache *mustache = mustache_parse("a.txt", text, strlen(text), is_html, &error);

        cr_assert(mustache != NULL, "%s: %s", text, error.text);
        return mustache;
}

static json_t *values_of(const char *json)
{
        json_error_t failure;
        json_t *values = json_loads(json, JSON_REJECT_DUPLICATES, &failure);

        cr_assert(values != NULL, "%s: %s", json, failure.text);
        json_numbers_to_texts(values, json, strlen(json));
        return values;
}

static void assert_renders_as(
    const char *text, bool is_html, const char *json, const char *expected)
{
        struct mustache *mustache = parsed(text, is_html);
        json_t *values = values_of(json);
        struct bytes out = {0};
        struct outcome rejected = {0};

        cr_assert(mustache_render(mustache, values, &out, &rejected), "%s with %s: %s", text, json,
            rejected.reason);
        cr_assert_str_eq(out.data, expected, "%s with %s gave \"%s\", not \"%s\"", text, json,
            out.data, expected);
        bytes_deinit(&out);
        json_decref(values);
        mustache_destroy(mustache);
}

static void assert_renders(const char *text, const char *json, const char *expected)
{
        assert_renders_as(text, false, json, expected);
}

static void assert_rejects(const char *text, const char *json, const char *reason)
{
        struct mustache *mustache = parsed(text, false);
        json_t *values = values_of(json);
        struct bytes out = {0};
        struct outcome rejected = {0};

        cr_assert_not(
            mustache_render(mustache, values, &out, &rejected), "%s gave: %s", text, out.data);
        cr_assert_eq(rejected.kind, OUTCOME_REJECTED);
        cr_assert_str_eq(rejected.reason, reason);
        bytes_deinit(&out);
        json_decref(values);
        mustache_destroy(mustache);
}

static void assert_refused(const char *text, const char *problem)
{
        struct error error = {0};
        struct mustache *mustache = mustache_parse("a.txt", text, strlen(text), false, &error);

        cr_assert(mustache == NULL, "accepted: %s", text);
        cr_assert_eq(error.kind, ERROR_CONFIG);
        cr_assert_str_eq(error.text, problem);
}

Test(mustache, fills_in_values)
{
        assert_renders("", "{}", "");
        assert_renders("no tags { } }} {", "{}", "no tags { } }} {");
        assert_renders("Hello {{name}}!", "{\"name\": \"Zo\xc3\xab\"}", "Hello Zo\xc3\xab!");
        assert_renders(
            "{{ a.b.c }}{{\td\n}}", "{\"a\": {\"b\": {\"c\": \"x\"}}, \"d\": \"y\"}", "xy");
        assert_renders("}}{{{a}}}{ {{a}} }", "{\"a\": \"x\"}", "}}x{ x }");
}

Test(mustache, writes_numbers_as_they_were_written)
{
        assert_renders("{{a}} {{b}} {{c}} {{d}} {{e}}",
            "{\"x\\\"1\": [2, {\"y\": 3}], \"a\": 12.50, \"b\": -0, \"c\": 1E+2, \"d\": "
            "900719925474099301, \"e\": 0.1000}",
            "12.50 -0 1E+2 900719925474099301 0.1000");
        assert_renders("{{#list}}{{.}},{{/list}}", "{\"a\": \"5\", \"list\": [1.0, \"2\", 3.00]}",
            "1.0,2,3.00,");
        assert_renders("{{a}} {{b}}", "{\"a\": true, \"b\": false}", "true false");
}

Test(mustache, writes_numbers_that_were_not_made_texts)
{
        struct mustache *mustache = parsed("{{a}} {{b}}", true);
        json_t *values = json_pack("{s:I, s:f}", "a", (json_int_t)-5, "b", 0.5);
        struct bytes out = {0};
        struct outcome rejected;

        cr_assert(mustache_render(mustache, values, &out, &rejected));
        cr_assert_str_eq(out.data, "-5 0.5");
        bytes_deinit(&out);
        json_decref(values);
        mustache_destroy(mustache);
}

Test(mustache, escapes_in_html_only_and_not_in_raw_tags)
{
        static const char json[] = "{\"x\": \"<a href=\\\"'&'\\\">\"}";

        assert_renders_as("{{x}}", true, json, "&lt;a href=&quot;&#39;&amp;&#39;&quot;&gt;");
        assert_renders_as("{{{x}}}|{{& x }}|{{{ x }}}", true, json,
            "<a href=\"'&'\">|<a href=\"'&'\">|<a href=\"'&'\">");
        assert_renders_as("{{x}}", false, json, "<a href=\"'&'\">");
        assert_renders_as("<b>&{{x}}</b>", true, "{\"x\": \"plain\"}", "<b>&plain</b>");
}

Test(mustache, repeats_sections_for_lists_and_shows_them_once_for_true_values)
{
        static const char section[] = "[{{#x}}s{{/x}}{{^x}}i{{/x}}]";

        assert_renders(section, "{\"x\": [1, 2, 3]}", "[sss]");
        assert_renders(section, "{\"x\": []}", "[i]");
        assert_renders(section, "{\"x\": true}", "[s]");
        assert_renders(section, "{\"x\": false}", "[i]");
        assert_renders(section, "{\"x\": null}", "[i]");
        assert_renders(section, "{\"x\": \"\"}", "[i]");
        assert_renders(section, "{\"x\": \"no\"}", "[s]");
        assert_renders(section, "{\"x\": 0}", "[s]");
        assert_renders(section, "{\"x\": {}}", "[s]");
        assert_renders("{{^x}}none{{/x}}", "{}", "none");
        assert_renders("{{^x.y.z}}none{{/x.y.z}}", "{\"x\": {\"y\": 1}}", "none");
}

Test(mustache, looks_names_up_from_the_inside_out)
{
        assert_renders("{{#order}}{{id}} {{name}}{{/order}}",
            "{\"name\": \"outer\", \"order\": {\"id\": 7}}", "7 outer");
        assert_renders("{{#a}}{{#b}}{{x}}{{y}}{{z}}{{/b}}{{/a}}",
            "{\"x\": 1, \"y\": 1, \"z\": 1, \"a\": {\"y\": 2, \"z\": 2, \"b\": {\"z\": 3}}}",
            "123");
        assert_renders("{{#items}}{{name}}={{price.net}};{{/items}}",
            "{\"items\": [{\"name\": \"a\", \"price\": {\"net\": 1}}, {\"name\": \"b\", \"price\": "
            "{\"net\": 2}}]}",
            "a=1;b=2;");
        assert_renders("{{#m}}{{#.}}{{.}}{{/.}};{{/m}}", "{\"m\": [[1, 2], [3]]}", "12;3;");
        assert_renders("{{#a.b}}{{c}}{{/a.b}}", "{\"a\": {\"b\": {\"c\": \"x\"}}}", "x");
        /* Only the first part of a name is looked for further out. */
        assert_rejects("{{#in}}{{a.b}}{{/in}}", "{\"a\": {\"b\": 1}, \"in\": {\"a\": {}}}",
            "template a.txt:1:8: \"a.b\" is missing");
}

Test(mustache, names_what_is_missing_and_where)
{
        assert_rejects("one\n\xc3\xa4 {{customer.name}}", "{\"customer\": {}}",
            "template a.txt:2:3: \"customer.name\" is missing");
        assert_rejects("{{#items}}{{/items}}", "{}", "template a.txt:1:1: \"items\" is missing");
        assert_rejects("{{x}}", "{\"x\": null}", "template a.txt:1:1: \"x\" is null");
        assert_rejects("{{x}}", "{\"x\": {}}",
            "template a.txt:1:1: \"x\" is an object, which cannot be written as text");
        assert_rejects("{{{x}}}", "{\"x\": [1]}",
            "template a.txt:1:1: \"x\" is a list, which cannot be written as text");
        assert_rejects("{{.}}", "{}",
            "template a.txt:1:1: \".\" is an object, which cannot be written as text");
        /* In a section that is not shown, nothing is missed. */
        assert_renders("{{#x}}{{y}}{{/x}}", "{\"x\": false}", "");
        assert_renders("{{^x}}{{y}}{{/x}}", "{\"x\": 1}", "");
}

Test(mustache, takes_the_line_of_a_tag_that_stands_alone)
{
        assert_renders("a\n{{#x}}\nb\n{{/x}}\nc\n", "{\"x\": [1, 1]}", "a\nb\nb\nc\n");
        assert_renders("a\r\n  {{#x}}\t\r\nb\r\n{{/x}}\r\nc", "{\"x\": 1}", "a\r\nb\r\nc");
        assert_renders("{{! one }}\n{{! two\nlines }}\n{{^x}}\n{{/x}}", "{\"x\": 1}", "");
        assert_renders("a\n  {{! indented }}", "{}", "a\n");
        /* With something beside it, it does not stand alone. */
        assert_renders("a {{! x }}\nb", "{}", "a \nb");
        assert_renders("{{! x }} b\n", "{}", " b\n");
        assert_renders("{{#x}} {{/x}}\n", "{\"x\": 1}", " \n");
        assert_renders("  {{x}}\n", "{\"x\": 1}", "  1\n");
}

Test(mustache, refuses_what_it_does_not_know_with_the_place)
{
        assert_refused("a\nb {{> footer}}", "a.txt:2:3: partials ({{>name}}) are not supported");
        assert_refused("{{=<% %>=}}", "a.txt:1:1: other delimiters ({{=...=}}) are not supported");
        assert_refused("{{<base}}", "a.txt:1:1: inheritance ({{<name}}) is not supported");
        assert_refused("{{$block}}", "a.txt:1:1: inheritance ({{$name}}) is not supported");
        assert_refused("x {{name", "a.txt:1:3: the tag is not closed: there is no }} behind it");
        assert_refused("{{{name}}", "a.txt:1:1: the tag is not closed: there is no }}} behind it");
        assert_refused("{{", "a.txt:1:1: the tag is not closed: there is no }} behind it");
        assert_refused("{{}}", "a.txt:1:1: the tag has no name");
        assert_refused("{{# }}", "a.txt:1:1: the tag has no name");
        assert_refused(
            "{{a b}}", "a.txt:1:1: a name has no blanks, line ends or braces; is a }} missing?");
        assert_refused(
            "{{a {{b}}", "a.txt:1:1: a name has no blanks, line ends or braces; is a }} missing?");
        assert_refused("{{a..b}}", "a.txt:1:1: a misplaced dot in \"a..b\"");
        assert_refused("{{.a}}", "a.txt:1:1: a misplaced dot in \".a\"");
        assert_refused("{{a.}}", "a.txt:1:1: a misplaced dot in \"a.\"");
        assert_refused("{{..}}", "a.txt:1:1: a misplaced dot in \"..\"");
        assert_refused("{{#a}}\n\n", "a.txt:1:1: the section is not closed: there is no {{/a}}");
        assert_refused("{{/a}}", "a.txt:1:1: {{/a}} closes nothing");
        assert_refused("{{#a}}\n {{^b}}x{{/a}}{{/b}}",
            "a.txt:2:9: {{/a}} stands where {{/b}} must: the section opened in line 2");
}

Test(mustache, parses_bytes_that_are_not_text)
{
        static const char bytes[] = "a\0b{{\0}}{{x\xff}}";
        struct error error = {0};

        cr_assert_null(mustache_parse("b", bytes, sizeof bytes - 1, false, &error));
        cr_assert_str_eq(
            error.text, "b:1:4: a name has no blanks, line ends or braces; is a }} missing?");
}

Test(mustache, bounds_the_depth_of_sections)
{
        struct bytes text = {0};
        struct error error = {0};

        for (int i = 0; i < MUSTACHE_MAX_DEPTH; i++)
                bytes_append_text(&text, "{{#a}}");
        bytes_append_text(&text, "x");
        for (int i = 0; i < MUSTACHE_MAX_DEPTH; i++)
                bytes_append_text(&text, "{{/a}}");
        assert_renders(text.data, "{\"a\": true}", "x");

        bytes_clear(&text);
        for (int i = 0; i <= MUSTACHE_MAX_DEPTH; i++)
                bytes_append_text(&text, "{{#a}}");
        cr_assert_null(mustache_parse("a.txt", text.data, text.length, false, &error));
        cr_assert_str_eq(error.text, "a.txt:1:385: more than 64 sections inside one another");
        bytes_deinit(&text);
}

/* {"name": [1, 1, ...]} */
static char *list_json(size_t n)
{
        struct bytes json = {0};

        bytes_append_text(&json, "{\"a\": [1");
        for (size_t i = 1; i < n; i++)
                bytes_append_text(&json, ",1");
        bytes_append_text(&json, "]}");
        return json.data;
}

Test(mustache, bounds_what_lists_within_lists_multiply)
{
        char *json = list_json(1001);

        assert_rejects("{{#a}}{{#a}}{{/a}}{{/a}}", json,
            "template a.txt:1:7: \"a\" takes more than a million steps, in lists within lists");
        assert_rejects("{{#a}}\n{{#a}}0123456789abcdef{{/a}}{{/a}}", json,
            "template a.txt:2:7: makes the text longer than 1 MiB");
        free(json);
}
