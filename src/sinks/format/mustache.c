/* Parsing. Steps borrow from one copy of the text, so that a program is two blocks of memory. */
#include "sinks/format/mustache.h"

#include "base/alloc.h"
#include "sinks/format/mustache_program.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parser {
        struct mustache *mustache;
        const char *text;
        size_t length;
        size_t at;                       /* what is before has become steps */
        size_t open[MUSTACHE_MAX_DEPTH]; /* the steps of the sections we are in */
        unsigned depth;
        struct error *error;
};

struct tag {
        char sigil; /* '#', '^', '/', '&', '{', '!', …; '\0' of a plain variable */
        size_t start;
        size_t end; /* behind its braces */
        const char *name;
        size_t name_length;
};

struct mustache_place mustache_place_of(const char *text, size_t offset)
{
        struct mustache_place place = {1, 1};

        for (size_t i = 0; i < offset; i++) {
                if (text[i] == '\n') {
                        place.line++;
                        place.column = 1;
                } else if (((unsigned char)text[i] & 0xc0) != 0x80) {
                        place.column++;
                }
        }
        return place;
}

/* Always false. */
static bool __attribute__((format(printf, 3, 4)))
fail(const struct parser *parser, size_t offset, const char *format, ...)
{
        struct mustache_place place = mustache_place_of(parser->text, offset);
        va_list arguments;
        char *problem;

        va_start(arguments, format);
        problem = xvasprintf(format, arguments);
        va_end(arguments);
        error_set(parser->error, ERROR_CONFIG, "%s:%u:%u: %s", parser->mustache->source, place.line,
            place.column, problem);
        free(problem);
        return false;
}

static size_t add_step(struct parser *parser, struct step step)
{
        struct mustache *mustache = parser->mustache;

        if (mustache->n_steps == mustache->capacity) {
                mustache->capacity = mustache->capacity > 0 ? 2 * mustache->capacity : 8;
                mustache->steps =
                    xrealloc(mustache->steps, mustache->capacity * sizeof *mustache->steps);
        }
        mustache->steps[mustache->n_steps] = step;
        return mustache->n_steps++;
}

static void add_text(struct parser *parser, size_t end)
{
        if (end > parser->at)
                add_step(parser, (struct step){.kind = STEP_TEXT,
                                     .text = parser->text + parser->at,
                                     .length = end - parser->at,
                                     .offset = parser->at});
}

static bool is_blank(char byte)
{
        return byte == ' ' || byte == '\t';
}

static bool is_space(char byte)
{
        return is_blank(byte) || byte == '\r' || byte == '\n';
}

/* "a.b.c" or "." */
static bool check_name(const struct parser *parser, const struct tag *tag)
{
        if (tag->name_length == 0)
                return fail(parser, tag->start, "the tag has no name");
        if (tag->name_length > MUSTACHE_MAX_NAME_BYTES)
                return fail(parser, tag->start, "the name is longer than %d bytes",
                    MUSTACHE_MAX_NAME_BYTES);
        for (size_t i = 0; i < tag->name_length; i++) {
                unsigned char byte = (unsigned char)tag->name[i];
                if (byte <= ' ' || byte == 0x7f || byte == '{' || byte == '}')
                        return fail(parser, tag->start,
                            "a name has no blanks, line ends or braces; is a }} missing?");
        }
        if (tag->name_length > 1 &&
            (tag->name[0] == '.' || tag->name[tag->name_length - 1] == '.' ||
                memmem(tag->name, tag->name_length, "..", 2) != NULL))
                return fail(parser, tag->start, "a misplaced dot in \"%.*s\"",
                    (int)tag->name_length, tag->name);
        return true;
}

static bool open_section(struct parser *parser, const struct tag *tag)
{
        if (parser->depth == MUSTACHE_MAX_DEPTH)
                return fail(parser, tag->start, "more than %d sections inside one another",
                    MUSTACHE_MAX_DEPTH);
        parser->open[parser->depth++] =
            add_step(parser, (struct step){.kind = tag->sigil == '#' ? STEP_SECTION : STEP_INVERTED,
                                 .text = tag->name,
                                 .length = tag->name_length,
                                 .offset = tag->start});
        return true;
}

static bool close_section(struct parser *parser, const struct tag *tag)
{
        struct step *opened;

        if (parser->depth == 0)
                return fail(parser, tag->start, "{{/%.*s}} closes nothing", (int)tag->name_length,
                    tag->name);
        opened = &parser->mustache->steps[parser->open[parser->depth - 1]];
        if (opened->length != tag->name_length ||
            memcmp(opened->text, tag->name, tag->name_length) != 0)
                return fail(parser, tag->start,
                    "{{/%.*s}} stands where {{/%.*s}} must: the section opened in line %u",
                    (int)tag->name_length, tag->name, (int)opened->length, opened->text,
                    mustache_place_of(parser->text, opened->offset).line);
        opened->after = parser->mustache->n_steps;
        parser->depth--;
        return true;
}

/* Alone on its line, a tag that writes nothing itself must not leave an empty line. */
static void widen_to_line(const struct parser *parser, size_t *start, size_t *end)
{
        size_t from = *start;
        size_t to = *end;

        while (from > 0 && is_blank(parser->text[from - 1]))
                from--;
        if (from > 0 && parser->text[from - 1] != '\n')
                return;
        while (to < parser->length && is_blank(parser->text[to]))
                to++;
        if (to + 1 < parser->length && memcmp(parser->text + to, "\r\n", 2) == 0)
                to += 2;
        else if (to < parser->length && parser->text[to] == '\n')
                to++;
        else if (to < parser->length)
                return;
        *start = from;
        *end = to;
}

/* Finds where the tag at `start` ends and what it is. */
static bool read_tag(const struct parser *parser, size_t start, struct tag *out_tag)
{
        static const char sigils[] = "#^/&!>=<$";
        const char *text = parser->text;
        size_t at = start + 2;
        const char *close;
        struct tag tag = {.start = start};
        bool is_triple = at < parser->length && text[at] == '{';

        while (!is_triple && at < parser->length && is_space(text[at]))
                at++;
        if (is_triple || (at < parser->length && text[at] != '\0' && strchr(sigils, text[at])))
                tag.sigil = text[at++];

        close = memmem(text + at, parser->length - at, is_triple ? "}}}" : "}}", is_triple ? 3 : 2);
        if (close == NULL)
                return fail(parser, start, "the tag is not closed: there is no %s behind it",
                    is_triple ? "}}}" : "}}");
        tag.end = (size_t)(close - text) + (is_triple ? 3 : 2);
        while (at < (size_t)(close - text) && is_space(text[at]))
                at++;
        while ((size_t)(close - text) > at && is_space(close[-1]))
                close--;
        tag.name = text + at;
        tag.name_length = (size_t)(close - text) - at;
        *out_tag = tag;
        return true;
}

static bool add_tag(struct parser *parser, const struct tag *tag)
{
        switch (tag->sigil) {
        case '!':
                return true;
        case '>':
                return fail(parser, tag->start, "partials ({{>name}}) are not supported");
        case '=':
                return fail(parser, tag->start, "other delimiters ({{=...=}}) are not supported");
        case '<':
        case '$':
                return fail(
                    parser, tag->start, "inheritance ({{%cname}}) is not supported", tag->sigil);
        }
        if (!check_name(parser, tag))
                return false;
        switch (tag->sigil) {
        case '#':
        case '^':
                return open_section(parser, tag);
        case '/':
                return close_section(parser, tag);
        }
        add_step(parser, (struct step){.kind = tag->sigil == '\0' ? STEP_VALUE : STEP_RAW_VALUE,
                             .text = tag->name,
                             .length = tag->name_length,
                             .offset = tag->start});
        return true;
}

static bool parse_tag(struct parser *parser, size_t start)
{
        struct tag tag = {0};
        size_t text_end = start;
        size_t next;

        if (!read_tag(parser, start, &tag))
                return false;
        next = tag.end;
        if (tag.sigil != '\0' && strchr("#^/!", tag.sigil) != NULL)
                widen_to_line(parser, &text_end, &next);
        add_text(parser, text_end);
        parser->at = next;
        return add_tag(parser, &tag);
}

static bool parse(struct parser *parser)
{
        const struct step *unclosed;
        const char *open;

        while ((open = memmem(parser->text + parser->at, parser->length - parser->at, "{{", 2)) !=
               NULL)
                if (!parse_tag(parser, (size_t)(open - parser->text)))
                        return false;
        add_text(parser, parser->length);
        if (parser->depth == 0)
                return true;
        unclosed = &parser->mustache->steps[parser->open[parser->depth - 1]];
        return fail(parser, unclosed->offset, "the section is not closed: there is no {{/%.*s}}",
            (int)unclosed->length, unclosed->text);
}

struct mustache *mustache_parse(
    const char *source, const char *text, size_t length, bool is_html, struct error *error)
{
        struct mustache *mustache = xcalloc(1, sizeof *mustache);
        struct parser parser = {.mustache = mustache, .length = length, .error = error};

        mustache->source = xstrdup(source);
        mustache->text = xcalloc(length + 1, 1);
        if (length > 0)
                memcpy(mustache->text, text, length);
        mustache->is_html = is_html;
        parser.text = mustache->text;
        if (parse(&parser))
                return mustache;
        mustache_destroy(mustache);
        return NULL;
}

void mustache_destroy(struct mustache *mustache)
{
        if (mustache == NULL)
                return;
        free(mustache->source);
        free(mustache->text);
        free(mustache->steps);
        free(mustache);
}
