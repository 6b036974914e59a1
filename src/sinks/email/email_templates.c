#include "sinks/email/email_templates.h"

#include "base/alloc.h"
#include "base/regular_file.h"
#include "base/utf8.h"
#include "sinks/format/mustache.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_NAME_BYTES  64
#define MAX_FILE_BYTES  (1024 * 1024)
#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

enum part { PART_SUBJECT, PART_TEXT, PART_HTML, N_PARTS };

static const char *const suffixes[N_PARTS] = {".subject", ".txt", ".html"};

struct email_template {
        char *name;                      /* owned */
        struct mustache *parts[N_PARTS]; /* owned; NULL: there is no such file */
        bool is_bad;                     /* one of its files is, which has been said */
};

struct email_templates {
        struct email_template *items; /* owned */
        size_t n_items;
};

struct loading {
        struct email_templates *templates;
        const char *folder;
        struct bytes problems;
};

static bool is_name(const char *text, size_t length)
{
        return length > 0 && length <= MAX_NAME_BYTES && strspn(text, NAME_CHARACTERS) >= length;
}

static struct email_template *find(
    const struct email_templates *templates, const char *name, size_t length)
{
        for (size_t i = 0; i < templates->n_items; i++)
                if (strlen(templates->items[i].name) == length &&
                    memcmp(templates->items[i].name, name, length) == 0)
                        return &templates->items[i];
        return NULL;
}

static struct email_template *find_or_add(
    struct email_templates *templates, const char *name, size_t length)
{
        struct email_template *found = find(templates, name, length);

        if (found != NULL)
                return found;
        templates->items =
            xrealloc(templates->items, (templates->n_items + 1) * sizeof *templates->items);
        found = &templates->items[templates->n_items++];
        *found = (struct email_template){.name = xstrndup(name, length)};
        return found;
}

static void complain(struct loading *loading, const char *file, const char *problem)
{
        bytes_printf(&loading->problems, "%s%s%s%s", loading->problems.length > 0 ? "; " : "", file,
            *file != '\0' ? ": " : "", problem);
}

/* False, and why the file cannot be used; then there is nothing in `out`. */
static bool read_file(const char *path, struct bytes *out, struct error *error)
{
        int file = regular_file_open(path, error);
        char chunk[4096];
        ssize_t n;

        if (file < 0)
                return false;
        bytes_append_text(out, "");
        while ((n = read(file, chunk, sizeof chunk)) > 0 && out->length <= MAX_FILE_BYTES)
                bytes_append(out, chunk, (size_t)n);
        close(file);
        if (n < 0)
                return error_set(error, ERROR_CONFIG, "cannot be read: %s", strerror(errno));
        return out->length <= MAX_FILE_BYTES ||
               error_set(error, ERROR_CONFIG, "is larger than 1 MiB");
}

/* A subject is a line: what ends it in the file is not a part of it. */
static const char *trim_subject(struct bytes *text)
{
        if (text->length > 0 && text->data[text->length - 1] == '\n')
                text->data[--text->length] = '\0';
        if (text->length > 0 && text->data[text->length - 1] == '\r')
                text->data[--text->length] = '\0';
        for (size_t i = 0; i < text->length; i++)
                if ((unsigned char)text->data[i] < ' ' || text->data[i] == 0x7f)
                        return "a subject is one line without control characters";
        return text->length == 0 ? "is empty" : NULL;
}

static const char *content_problem(enum part part, struct bytes *text)
{
        if (strlen(text->data) != text->length)
                return "holds a NUL byte";
        if (strncmp(text->data, "\xef\xbb\xbf", 3) == 0)
                return "begins with a byte order mark; save it without one";
        if (!utf8_is_valid(text->data))
                return "is not UTF-8";
        return part == PART_SUBJECT ? trim_subject(text) : NULL;
}

static void load_part(
    struct loading *loading, struct email_template *template, enum part part, const char *file)
{
        char *path = xasprintf("%s/%s", loading->folder, file);
        struct bytes text = {0};
        struct error error = {0};
        const char *problem =
            read_file(path, &text, &error) ? content_problem(part, &text) : error.text;

        if (problem != NULL) {
                complain(loading, file, problem);
        } else {
                template->parts[part] =
                    mustache_parse(file, text.data, text.length, part == PART_HTML, &error);
                if (template->parts[part] == NULL)
                        complain(loading, "", error.text);
        }
        template->is_bad = template->is_bad || template->parts[part] == NULL;
        bytes_deinit(&text);
        free(path);
}

static void load_file(struct loading *loading, const char *file)
{
        size_t length = strcspn(file, ".");
        struct email_template *template;

        for (enum part part = 0; part < N_PARTS; part++) {
                if (strcmp(file + length, suffixes[part]) != 0 || !is_name(file, length))
                        continue;
                template = find_or_add(loading->templates, file, length);
                load_part(loading, template, part, file);
                return;
        }
        complain(loading, file,
            "is not a template's name; allowed are NAME.subject, NAME.txt and NAME.html, NAME of 1 "
            "to 64 letters, digits, _ and -");
}

static void check_complete(struct loading *loading)
{
        const struct email_templates *templates = loading->templates;

        if (templates->n_items == 0 && loading->problems.length == 0)
                complain(loading, "", "there is no template in the folder");
        for (size_t i = 0; i < templates->n_items; i++) {
                const struct email_template *template = &templates->items[i];
                if (template->is_bad)
                        continue;
                if (template->parts[PART_SUBJECT] == NULL)
                        complain(loading, template->name, "has no .subject");
                else if (template->parts[PART_TEXT] == NULL && template->parts[PART_HTML] == NULL)
                        complain(loading, template->name, "has neither .txt nor .html");
        }
}

/* Hidden files are skipped: editors, version control and mounted ConfigMaps leave them. */
static int is_visible(const struct dirent *entry)
{
        return entry->d_name[0] != '.';
}

struct email_templates *email_templates_load(const char *folder, struct error *error)
{
        struct loading loading = {.folder = folder};
        struct dirent **entries;
        int n_entries = scandir(folder, &entries, is_visible, alphasort);

        if (n_entries < 0) {
                error_set(error, ERROR_CONFIG,
                    "email: templates: the folder '%s' cannot be read: %s", folder,
                    strerror(errno));
                return NULL;
        }
        loading.templates = xcalloc(1, sizeof *loading.templates);
        for (int i = 0; i < n_entries; i++) {
                load_file(&loading, entries[i]->d_name);
                free(entries[i]);
        }
        free(entries);
        check_complete(&loading);
        if (loading.problems.length > 0) {
                error_set(error, ERROR_CONFIG, "email: templates: %s", loading.problems.data);
                email_templates_destroy(loading.templates);
                loading.templates = NULL;
        }
        bytes_deinit(&loading.problems);
        return loading.templates;
}

void email_templates_destroy(struct email_templates *templates)
{
        if (templates == NULL)
                return;
        for (size_t i = 0; i < templates->n_items; i++) {
                for (enum part part = 0; part < N_PARTS; part++)
                        mustache_destroy(templates->items[i].parts[part]);
                free(templates->items[i].name);
        }
        free(templates->items);
        free(templates);
}

static const struct email_template *choose(
    const struct email_templates *templates, const char *name, struct outcome *out_rejected)
{
        const struct email_template *template;

        if (templates == NULL) {
                *out_rejected = outcome_make(OUTCOME_REJECTED,
                    "payload member \"template\": the sink has no templates; see its key "
                    "`templates`");
                return NULL;
        }
        if (!is_name(name, strlen(name))) {
                *out_rejected = outcome_make(OUTCOME_REJECTED,
                    "payload member \"template\": not a name of 1 to 64 letters, digits, _ and -");
                return NULL;
        }
        template = find(templates, name, strlen(name));
        if (template == NULL)
                *out_rejected = outcome_make(OUTCOME_REJECTED,
                    "payload member \"template\": there is no template named %s", name);
        return template;
}

bool email_templates_render(const struct email_templates *templates, const char *name,
    const json_t *values, struct email_rendering *out_rendering, struct outcome *out_rejected)
{
        const struct email_template *template = choose(templates, name, out_rejected);
        struct email_rendering rendering = {0};
        struct bytes *const outs[N_PARTS] = {&rendering.subject, &rendering.text, &rendering.html};

        if (template == NULL)
                return false;
        rendering.has_text = template->parts[PART_TEXT] != NULL;
        rendering.has_html = template->parts[PART_HTML] != NULL;
        for (enum part part = 0; part < N_PARTS; part++) {
                if (template->parts[part] == NULL ||
                    mustache_render(template->parts[part], values, outs[part], out_rejected))
                        continue;
                email_rendering_deinit(&rendering);
                return false;
        }
        *out_rendering = rendering;
        return true;
}

void email_rendering_deinit(struct email_rendering *rendering)
{
        bytes_deinit(&rendering->subject);
        bytes_deinit(&rendering->text);
        bytes_deinit(&rendering->html);
}
