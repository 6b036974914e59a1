/*
 * The catalogue as one HTML page, for people who receive events. It stands alone: no script, no
 * font, no request to anywhere. All that comes from the catalogue is text and goes through
 * append_text(), or it could become markup.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "cli/type/type_common.h"
#include "cli/type/type_envelope.h"
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Deeper fields are in the schema below the table. */
#define MAX_DEPTH   6
#define MAX_FIELDS  500
#define MAX_SCHEMAS 5000 /* that are looked into: each may have itself as many of its parts */
#define MAX_REFS    8

static const char style[] =
    ":root{color-scheme:light dark;--text:#1c1f23;--dim:#5c6570;--line:#dfe3e8;--back:#fff;"
    "--code:#f5f6f8;--mark:#0b57c4;--warn:#8a4b00;--warnback:#fff1dc}\n"
    "@media (prefers-color-scheme:dark){:root{--text:#e4e7ea;--dim:#9aa4af;--line:#333a42;"
    "--back:#14171a;--code:#1e2226;--mark:#7db1ff;--warn:#ffca85;--warnback:#3a2a12}}\n"
    "*{box-sizing:border-box}\n"
    "html{scroll-padding-top:1rem}\n"
    "body{margin:0 auto;padding:1.5rem 1.25rem 4rem;max-width:52rem;color:var(--text);"
    "background:var(--back);font:1rem/1.6 system-ui,sans-serif;overflow-wrap:anywhere}\n"
    "h1{font-size:1.9rem;line-height:1.2;margin:1rem 0 .25rem}\n"
    "h2{font-size:1.3rem;line-height:1.3;margin:0 0 .5rem}\n"
    "h3{font-size:1rem;margin:1.5rem 0 .5rem}\n"
    "p{margin:.5rem 0;max-width:42rem}\n"
    "a{color:var(--mark)}\n"
    "section{border-top:1px solid var(--line);margin-top:2.5rem;padding-top:1.5rem}\n"
    "nav ul{list-style:none;margin:1.25rem 0 0;padding:0}\n"
    "nav li{margin:.35rem 0}\n"
    "code,pre{font:.875rem/1.5 ui-monospace,monospace}\n"
    "h2 code{font-size:1.2rem;font-weight:600}\n"
    "pre{margin:.5rem 0;padding:.875rem 1rem;background:var(--code);border-radius:.5rem;"
    "overflow-x:auto;white-space:pre-wrap}\n"
    "table{width:100%;border-collapse:collapse;font-size:.9375rem}\n"
    "th,td{text-align:left;vertical-align:top;padding:.5rem 1rem .5rem 0;"
    "border-bottom:1px solid var(--line)}\n"
    "th{color:var(--dim);font-weight:600}\n"
    "summary{cursor:pointer;color:var(--mark);margin-top:1rem}\n"
    ".dim{color:var(--dim)}\n"
    ".deprecated{display:inline-block;padding:0 .5rem;border-radius:1rem;font-size:.8125rem;"
    "font-weight:600;vertical-align:.15em;color:var(--warn);background:var(--warnback)}\n"
    "@media (max-width:36rem){thead{display:none}tr,td{display:block}tr{padding:.5rem 0;"
    "border-bottom:1px solid var(--line)}td{border:0;padding:.1rem 0}}\n"
    "@media print{body{max-width:none}}\n";

static void append_text(struct bytes *out, const char *text)
{
        for (; *text != '\0'; text++)
                switch (*text) {
                case '&':
                        bytes_append_text(out, "&amp;");
                        break;
                case '<':
                        bytes_append_text(out, "&lt;");
                        break;
                case '>':
                        bytes_append_text(out, "&gt;");
                        break;
                case '"':
                        bytes_append_text(out, "&quot;");
                        break;
                case '\'':
                        bytes_append_text(out, "&#39;");
                        break;
                default:
                        bytes_append(out, text, 1);
                }
}

/* "<p>" "text" "</p>" */
static void append_element(struct bytes *out, const char *tag, const char *text)
{
        bytes_printf(out, "<%s>", tag);
        append_text(out, text);
        bytes_printf(out, "</%.*s>\n", (int)strcspn(tag, " "), tag);
}

/* An empty line begins another paragraph. */
static void append_paragraphs(struct bytes *out, const char *text)
{
        while (*text != '\0') {
                const char *end = strstr(text, "\n\n");
                size_t length = end != NULL ? (size_t)(end - text) : strlen(text);
                char *paragraph = xstrndup(text, length);

                append_element(out, "p", paragraph);
                free(paragraph);
                text += length;
                text += strspn(text, "\n");
        }
}

static void append_json(struct bytes *out, const json_t *json)
{
        char *text = type_json_text(json);

        append_element(out, "pre", text);
        free(text);
}

/* ---- the fields of a payload -------------------------------------------------------------- */

struct fields {
        struct bytes *out;
        const json_t *root;
        struct bytes path;
        unsigned depth;
        unsigned n;
        unsigned n_schemas;
};

/* What a JSON pointer behind "#" leads to; NULL: nothing. */
static const json_t *follow(const json_t *root, const char *pointer)
{
        while (root != NULL && *pointer == '/') {
                size_t length = strcspn(++pointer, "/");
                char *name = xstrndup(pointer, length);
                char *to = name;

                for (const char *from = name; *from != '\0'; from++)
                        if (from[0] == '~' && (from[1] == '0' || from[1] == '1'))
                                *to++ = *++from == '0' ? '~' : '/';
                        else
                                *to++ = *from;
                *to = '\0';
                root = json_is_array(root) ? json_array_get(root, strtoul(name, NULL, 10))
                                           : json_object_get(root, name);
                pointer += length;
                free(name);
        }
        return root;
}

static const json_t *resolve(const json_t *root, const json_t *schema)
{
        for (int i = 0; i < MAX_REFS; i++) {
                const char *ref = json_string_value(json_object_get(schema, "$ref"));
                const json_t *target = ref != NULL && *ref == '#' ? follow(root, ref + 1) : NULL;

                if (target == NULL)
                        return schema;
                schema = target;
        }
        return schema;
}

static void append_value(struct bytes *out, const json_t *value)
{
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));

        if (text == NULL)
                out_of_memory();
        bytes_append_text(out, "<code>");
        append_text(out, text);
        bytes_append_text(out, "</code>");
        free(text);
}

/* "string, date-time", "string or null", "one of "a", "b"". */
static void append_type(struct bytes *out, const json_t *schema)
{
        const json_t *type = json_object_get(schema, "type");
        const json_t *choices = json_object_get(schema, "enum");
        const json_t *constant = json_object_get(schema, "const");
        const char *format = json_string_value(json_object_get(schema, "format"));

        for (size_t i = 0; i < json_array_size(type); i++) {
                bytes_append_text(out, i > 0 ? " or " : "");
                append_text(out, json_string_value(json_array_get(type, i)) != NULL
                                     ? json_string_value(json_array_get(type, i))
                                     : "");
        }
        if (json_is_string(type))
                append_text(out, json_string_value(type));
        if (format != NULL) {
                bytes_append_text(out, type != NULL ? ", " : "");
                append_text(out, format);
        }
        if (constant != NULL) {
                bytes_append_text(out, type != NULL ? ", always " : "always ");
                append_value(out, constant);
        }
        for (size_t i = 0; i < json_array_size(choices); i++) {
                bytes_append_text(out, i > 0 ? ", " : type != NULL ? ": " : "");
                append_value(out, json_array_get(choices, i));
        }
        if (json_object_get(schema, "oneOf") != NULL || json_object_get(schema, "anyOf") != NULL)
                bytes_append_text(out, "one of several forms, see the schema");
}

static bool is_required(const json_t *object, const char *name)
{
        const json_t *required = json_object_get(object, "required");

        for (size_t i = 0; i < json_array_size(required); i++) {
                const char *one = json_string_value(json_array_get(required, i));
                if (one != NULL && strcmp(one, name) == 0)
                        return true;
        }
        return false;
}

static void append_fields(struct fields *fields, const json_t *schema);

static void append_field(
    struct fields *fields, const char *name, const json_t *schema, bool is_needed)
{
        const char *meaning = json_string_value(json_object_get(schema, "description"));
        const json_t *target = resolve(fields->root, schema);
        size_t length = fields->path.length;
        struct bytes *out = fields->out;

        if (++fields->n > MAX_FIELDS)
                return;
        if (meaning == NULL)
                meaning = json_string_value(json_object_get(target, "description"));
        bytes_printf(&fields->path, "%s%s", length > 0 ? "." : "", name);
        bytes_append_text(out, "<tr><td><code>");
        append_text(out, fields->path.data);
        bytes_append_text(out, "</code>");
        if (!is_needed)
                bytes_append_text(out, " <span class=\"dim\">optional</span>");
        if (json_is_true(json_object_get(target, "deprecated")))
                bytes_append_text(out, " <span class=\"deprecated\">deprecated</span>");
        bytes_append_text(out, "</td><td>");
        append_type(out, target);
        bytes_append_text(out, "</td><td>");
        append_text(out, meaning != NULL ? meaning : "");
        bytes_append_text(out, "</td></tr>\n");
        append_fields(fields, target);
        fields->path.length = length;
        if (fields->path.data != NULL)
                fields->path.data[length] = '\0';
}

/* Those of the properties, of the items of a list, and of all parts of allOf. */
static void append_fields(struct fields *fields, const json_t *schema)
{
        const json_t *items = resolve(fields->root, json_object_get(schema, "items"));
        const json_t *parts = json_object_get(schema, "allOf");
        json_t *properties = json_object_get(schema, "properties");
        size_t length = fields->path.length;
        const char *name;
        json_t *value;

        if (++fields->depth <= MAX_DEPTH && fields->n_schemas++ < MAX_SCHEMAS) {
                json_object_foreach(properties, name, value)
                    append_field(fields, name, value, is_required(schema, name));
                for (size_t i = 0; i < json_array_size(parts); i++)
                        append_fields(fields, resolve(fields->root, json_array_get(parts, i)));
                if (json_is_object(items)) {
                        bytes_append_text(&fields->path, "[]");
                        append_fields(fields, items);
                        fields->path.length = length;
                        fields->path.data[length] = '\0';
                }
        }
        fields->depth--;
}

static void append_payload(struct bytes *out, const struct type_doc *type)
{
        struct bytes rows = {0};
        struct fields fields = {.out = &rows, .root = type->schema};

        bytes_append_text(out, "<h3>Payload</h3>\n");
        if (type->schema == NULL) {
                append_element(out, "p class=\"dim\"", "JSON, without a schema.");
                return;
        }
        append_fields(&fields, resolve(type->schema, type->schema));
        if (rows.length > 0) {
                bytes_append_text(out, "<table><thead><tr><th>Field</th><th>Type</th>"
                                       "<th>Meaning</th></tr></thead><tbody>\n");
                bytes_append(out, rows.data, rows.length);
                bytes_append_text(out, "</tbody></table>\n");
        }
        bytes_append_text(out, "<details><summary>JSON Schema</summary>\n");
        append_json(out, type->schema);
        bytes_append_text(out, "</details>\n");
        bytes_deinit(&rows);
        bytes_deinit(&fields.path);
}

/* ---- the page ----------------------------------------------------------------------------- */

static void append_type_section(
    struct bytes *out, const struct type_docs *docs, const struct type_doc *type)
{
        struct bytes sample = {0};

        bytes_printf(out, "<section id=\"type-%s\">\n<h2><code>", type->key);
        append_text(out, type->name);
        bytes_printf(out, "</code>%s</h2>\n",
            type->is_deprecated ? " <span class=\"deprecated\">deprecated</span>" : "");
        if (type->is_deprecated)
                append_element(out, "p class=\"dim\"",
                    "Such events still come. Do not rely on them in new work.");
        if (type->description != NULL)
                append_paragraphs(out, type->description);
        append_payload(out, type);
        if (envelope_sample_append(&sample, docs, type)) {
                bytes_append_text(out, "<h3>Example</h3>\n");
                append_element(out, "pre", sample.data);
        }
        bytes_deinit(&sample);
        bytes_append_text(out, "</section>\n");
}

static void append_header_row(void *owner, const struct envelope_header *header)
{
        struct bytes *out = owner;

        bytes_append_text(out, "<tr><td><code>");
        append_text(out, header->name);
        bytes_printf(out, "</code>%s</td><td>",
            header->is_required ? "" : " <span class=\"dim\">optional</span>");
        append_text(out, header->meaning);
        bytes_append_text(out, "</td></tr>\n");
}

static void append_requests(struct bytes *out, const struct type_docs *docs)
{
        const struct type_doc any = {.name = "type"};
        const char *signature = envelope_signature(docs);

        bytes_append_text(out, "<section id=\"requests\">\n<h2>How events arrive</h2>\n");
        bytes_printf(out, "<p>%s Its <code>Content-Type</code> is <code>%s</code>%s</p>\n",
            docs->http->batch != NULL ? "Several events come together as one POST request."
                                      : "Each event comes as a POST request.",
            envelope_content_type(docs),
            docs->http->gzip ? ", and it is compressed (<code>gzip</code>)." : ".");
        append_element(out, "p",
            "Answer with a 2xx status as soon as the event is safe, and do the work afterwards. "
            "After any other answer the event is sent again later. An event may come more than "
            "once, each time with the same id.");
        bytes_append_text(out, "<table><thead><tr><th>Header</th><th>Meaning</th></tr></thead>"
                               "<tbody>\n");
        envelope_each_header(docs, &any, append_header_row, out);
        bytes_append_text(out, "</tbody></table>\n");
        if (signature != NULL) {
                bytes_append_text(out, "<h3>The signature</h3>\n");
                append_element(out, "p", signature);
                bytes_append_text(out, "<p>The examples of this page are signed with the secret "
                                       "<code>" ENVELOPE_SECRET "</code>, so you can try your "
                                       "check with them.</p>\n");
        }
        bytes_append_text(out, "</section>\n");
}

static void append_list(struct bytes *out, const struct type_docs *docs)
{
        bytes_append_text(out, "<nav aria-label=\"Types\"><ul>\n");
        for (size_t i = 0; i < docs->n_types; i++) {
                const struct type_doc *type = &docs->types[i];

                bytes_printf(out, "<li><a href=\"#type-%s\"><code>", type->key);
                append_text(out, type->name);
                bytes_printf(out, "</code></a>%s</li>\n",
                    type->is_deprecated ? " <span class=\"deprecated\">deprecated</span>" : "");
        }
        bytes_append_text(out, "</ul></nav>\n");
}

void type_page_append(struct bytes *out, const struct type_docs *docs)
{
        bytes_append_text(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
                               "<meta charset=\"utf-8\">\n"
                               "<meta name=\"viewport\" content=\"width=device-width, "
                               "initial-scale=1\">\n"
                               "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
                               "'none'; style-src 'unsafe-inline'\">\n");
        append_element(out, "title", docs->title);
        bytes_printf(out, "<style>\n%s</style>\n</head>\n<body>\n<header>\n", style);
        append_element(out, "h1", docs->title);
        bytes_printf(out,
            "<p class=\"dim\">%zu type%s of events, as of %s. <a href=\"#requests\">"
            "How they arrive</a>.</p>\n</header>\n",
            docs->n_types, docs->n_types == 1 ? "" : "s", docs->revision);
        append_list(out, docs);
        bytes_append_text(out, "<main>\n");
        for (size_t i = 0; i < docs->n_types; i++)
                append_type_section(out, docs, &docs->types[i]);
        append_requests(out, docs);
        bytes_append_text(out, "</main>\n</body>\n</html>\n");
}
