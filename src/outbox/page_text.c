#include "outbox/page_text.h"

#include "base/alloc.h"
#include "base/bytes.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char page_sql[]; /* page.sql, embedded at build time */

static const char *const param_names[N_PAGE_PARAMS] = {
    [PAGE_FROM_SNAPSHOT] = "from_snapshot",
    [PAGE_FROM_FLOOR] = "from_floor",
    [PAGE_UNTIL_SNAPSHOT] = "until_snapshot",
    [PAGE_STRAGGLERS] = "stragglers",
    [PAGE_STRAGGLER_FLOOR] = "straggler_floor",
    [PAGE_LAST_ID] = "last_id",
    [PAGE_ABOVE] = "above",
    [PAGE_UPTO] = "upto",
    [PAGE_MAX_EVENTS] = "max_events",
    [PAGE_MAX_EVENT_BYTES] = "max_event_bytes",
    [PAGE_SINK] = "sink",
    [PAGE_N_SHARDS] = "n_shards",
    [PAGE_SHARDS] = "shards",
    [PAGE_ROUTE + ROUTE_TOPICS] = "topics",
    [PAGE_ROUTE + ROUTE_TOPICS + 1] = "topic_likes",
    [PAGE_ROUTE + ROUTE_TOPICS + 2] = "topic_likes_within",
    [PAGE_ROUTE + ROUTE_TOPICS + 3] = "topic_likes_beyond",
    [PAGE_ROUTE + ROUTE_TOPICS + 4] = "topic_regex",
    [PAGE_ROUTE + ROUTE_NOT_TOPICS] = "not_topics",
    [PAGE_ROUTE + ROUTE_NOT_TOPICS + 1] = "not_topic_likes",
    [PAGE_ROUTE + ROUTE_NOT_TOPICS + 2] = "not_topic_likes_within",
    [PAGE_ROUTE + ROUTE_NOT_TOPICS + 3] = "not_topic_likes_beyond",
    [PAGE_ROUTE + ROUTE_NOT_TOPICS + 4] = "not_topic_regex",
    [PAGE_ROUTE + ROUTE_TYPES] = "types",
    [PAGE_ROUTE + ROUTE_TYPE_REGEX] = "type_regex",
    [PAGE_ROUTE + ROUTE_NOT_TYPE_REGEX] = "not_type_regex",
    [PAGE_ROUTE + ROUTE_HEADER_NAMES] = "header_names",
    [PAGE_ROUTE + ROUTE_HEADER_VALUES] = "header_values",
};

/* A condition on an event, which there is if there is a value for the parameter. */
struct fragment {
        int param;
        const char *sql;
};

/* Of each group one must hold. */
static const struct fragment topic_fragments[] = {
    {ROUTE_TOPICS, "topic = ANY ($topics::text[])"},
    {ROUTE_TOPICS + 1, "topic LIKE ANY ($topic_likes::text[])"},
    {ROUTE_TOPICS + 2, "topic LIKE ANY ($topic_likes_within::text[])"
                       " AND NOT topic LIKE ANY ($topic_likes_beyond::text[])"},
    {ROUTE_TOPICS + 4, "topic ~ $topic_regex::text"},
    {0, NULL},
};
static const struct fragment not_topic_fragments[] = {
    {ROUTE_NOT_TOPICS, "topic = ANY ($not_topics::text[])"},
    {ROUTE_NOT_TOPICS + 1, "topic LIKE ANY ($not_topic_likes::text[])"},
    {ROUTE_NOT_TOPICS + 2, "topic LIKE ANY ($not_topic_likes_within::text[])"
                           " AND NOT topic LIKE ANY ($not_topic_likes_beyond::text[])"},
    {ROUTE_NOT_TOPICS + 4, "topic ~ $not_topic_regex::text"},
    {0, NULL},
};
static const struct fragment type_fragments[] = {
    {ROUTE_TYPES, "type = ANY ($types::text[])"},
    {ROUTE_TYPE_REGEX, "type ~ $type_regex::text"},
    {0, NULL},
};

/* All of these must. */
static const struct fragment other_fragments[] = {
    {ROUTE_NOT_TYPE_REGEX, "type !~ $not_type_regex::text"},
    {ROUTE_HEADER_NAMES,
        "NOT EXISTS (SELECT FROM unnest($header_names::text[], $header_values::text[])"
        " AS condition (name, value)"
        " WHERE (headers ? name AND (value IS NULL OR headers ->> name = value)) IS NOT TRUE)"},
    {0, NULL},
};

static const char chosen_shards[] =
    " AND courier.shard_of(key, $n_shards::integer, id) = ANY ($shards::integer[])";

/* As courier.had_passed(), which the planner would not inline. */
static const char not_passed[] =
    " AND NOT EXISTS (SELECT FROM courier.shard_end AS ended WHERE ended.sink = $sink"
    " AND ended.number = courier.shard_of(key, ended.shards, id)"
    " AND courier.has_passed(ended.from_snapshot, ended.until_snapshot, ended.last_id, id, txid))";

static bool has_condition(const struct page_shape *shape, int param)
{
        return (shape->conditions >> param & 1) != 0;
}

static void append_group(struct bytes *sql, const struct page_shape *shape, const char *begin,
    const struct fragment *fragments)
{
        bool any = false;

        for (; fragments->sql != NULL; fragments++) {
                if (!has_condition(shape, fragments->param))
                        continue;
                bytes_append_text(sql, any ? " OR " : begin);
                bytes_append_text(sql, fragments->sql);
                any = true;
        }
        if (any)
                bytes_append_text(sql, ")");
}

static void append_conditions(struct bytes *sql, const struct page_shape *shape)
{
        size_t before = sql->length;

        if (!shape->is_any_topic) {
                append_group(sql, shape, "AND (", topic_fragments);
                if (sql->length == before)
                        bytes_append_text(sql, "AND false");
        }
        if (shape->chooses_shards)
                bytes_append_text(sql, chosen_shards);
        if (shape->leaves_out)
                bytes_append_text(sql, not_passed);
        append_group(sql, shape, " AND NOT (", not_topic_fragments);
        append_group(sql, shape, " AND (", type_fragments);
        for (const struct fragment *one = other_fragments; one->sql != NULL; one++) {
                if (!has_condition(shape, one->param))
                        continue;
                bytes_append_text(sql, " AND ");
                bytes_append_text(sql, one->sql);
        }
}

static void append_cell(struct bytes *sql, const struct page_shape *shape)
{
        if (shape->cell >= 0)
                bytes_printf(sql, "AND id >= %" PRId64 " AND id <= %" PRId64 "\n",
                    page_cell_end(shape->cell - 1) + 1, page_cell_end(shape->cell));
}

static bool begins_with(const char *text, const char *beginning)
{
        return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* `name` goes on to the end of its line. */
static bool is_asked_for(const struct page_shape *shape, const char *name)
{
        if (begins_with(name, "opening\n"))
                return shape->is_opening;
        if (begins_with(name, "going_on\n"))
                return !shape->is_opening;
        if (begins_with(name, "shards\n"))
                return shape->tells_shards;
        if (begins_with(name, "stragglers\n"))
                return shape->rows == PAGE_ROWS_AND_STRAGGLERS;
        assert(begins_with(name, "defined\n"));
        return shape->rows != PAGE_ROWS_NEW;
}

/* Without its comments and the lines that are not asked for, which may stand within each other. */
static void choose_lines(struct bytes *out, const struct page_shape *shape)
{
        unsigned depth = 0, n_skipped = 0; /* how many of the innermost are not asked for */

        for (const char *line = page_sql; *line != '\0'; line = strchr(line, '\n') + 1) {
                const char *words = line + strspn(line, " ");

                if (begins_with(line, "--if ")) {
                        depth++;
                        n_skipped += n_skipped > 0 || !is_asked_for(shape, line + 5);
                } else if (begins_with(line, "--end")) {
                        depth--;
                        n_skipped -= n_skipped > 0;
                } else if (n_skipped > 0 || begins_with(words, "--")) {
                        continue;
                } else if (begins_with(words, "$conditions\n")) {
                        append_conditions(out, shape);
                        bytes_append_text(out, "\n");
                } else if (begins_with(words, "$cell\n")) {
                        append_cell(out, shape);
                } else {
                        bytes_append(out, words, strcspn(words, "\n") + 1);
                }
        }
        assert(depth == 0);
}

static enum page_param find_param(const char *name, size_t length)
{
        for (int param = 0; param < N_PAGE_PARAMS; param++)
                if (strlen(param_names[param]) == length &&
                    strncmp(param_names[param], name, length) == 0)
                        return (enum page_param)param;
        abort(); /* page.sql and the fragments are our own */
}

static int number_of(struct page_text *text, enum page_param param)
{
        for (int i = 0; i < text->n_params; i++)
                if (text->params[i] == param)
                        return i + 1;
        text->params[text->n_params++] = param;
        return text->n_params;
}

static void number_params(struct page_text *text, const char *from)
{
        struct bytes sql = {0};

        while (*from != '\0') {
                size_t length = strcspn(from, "$");

                bytes_append(&sql, from, length);
                from += length;
                if (*from == '\0')
                        break;
                length = strspn(++from, "abcdefghijklmnopqrstuvwxyz_");
                bytes_printf(&sql, "$%d", number_of(text, find_param(from, length)));
                from += length;
        }
        text->sql = sql.data;
}

void page_text_render(struct page_text *text, const struct page_shape *shape)
{
        struct bytes chosen = {0};

        *text = (struct page_text){0};
        choose_lines(&chosen, shape);
        number_params(text, chosen.data);
        bytes_deinit(&chosen);
}

void page_text_deinit(struct page_text *text)
{
        free(text->sql);
        *text = (struct page_text){0};
}

struct page_shape page_shape_of(const struct routing_params *route)
{
        struct page_shape shape = {.is_any_topic = route->is_any_topic};

        for (int i = 0; i < N_ROUTE_PARAMS; i++)
                if (route->values[i] != NULL)
                        shape.conditions |= UINT32_C(1) << i;
        return shape;
}

static bool names_cell(const struct page_shape *shape)
{
        return shape->cell >= 0;
}

/* But for the cell that they name. */
static bool are_alike(const struct page_shape *a, const struct page_shape *b)
{
        return a->is_opening == b->is_opening && a->rows == b->rows &&
               a->tells_shards == b->tells_shards && a->chooses_shards == b->chooses_shards &&
               a->leaves_out == b->leaves_out && a->is_any_topic == b->is_any_topic &&
               a->conditions == b->conditions && names_cell(a) == names_cell(b);
}

void page_statements_deinit(struct page_statements *pages)
{
        for (size_t i = 0; i < pages->n_forms; i++) {
                page_text_deinit(&pages->forms[i]->text);
                free(pages->forms[i]);
        }
        free(pages->forms);
        *pages = (struct page_statements){0};
}

void page_statements_begin_session(struct page_statements *pages)
{
        pages->session++;
        pages->cell = 0; /* the sequence may have been set back meanwhile, by a rebase */
}

static void render(struct page_statement *form, const struct page_shape *shape)
{
        page_text_deinit(&form->text);
        form->shape = *shape;
        page_text_render(&form->text, shape);
        form->statement = (struct pg_statement){
            .name = form->name, .sql = form->text.sql, .n_params = form->text.n_params};
}

static struct page_statement *add(struct page_statements *pages, const struct page_shape *shape)
{
        struct page_statement *form = xcalloc(1, sizeof *form);

        snprintf(form->name, sizeof form->name, "page_%zu", pages->n_forms);
        render(form, shape);
        pages->forms =
            xrealloc(pages->forms, (pages->n_forms + 1) * sizeof(struct page_statement *));
        pages->forms[pages->n_forms++] = form;
        return form;
}

/* There are few: a sink needs about four, and most have the same conditions. */
static struct page_statement *find(struct page_statements *pages, const struct page_shape *shape)
{
        for (size_t i = 0; i < pages->n_forms; i++)
                if (are_alike(&pages->forms[i]->shape, shape))
                        return pages->forms[i];
        return add(pages, shape);
}

static void deallocate(struct pg_conn *conn, const struct page_statement *form)
{
        char sql[48];

        snprintf(sql, sizeof sql, "DEALLOCATE %s", form->name);
        pg_conn_ask(conn, sql, NULL, NULL);
}

const struct page_statement *page_statements_get(
    struct page_statements *pages, struct pg_conn *conn, const struct page_shape *wanted)
{
        struct page_shape shape = *wanted;
        struct page_statement *form;

        if (shape.cell < pages->cell)
                shape.cell = -1;
        else
                pages->cell = shape.cell;
        form = find(pages, &shape);
        if (form->shape.cell != shape.cell) {
                if (form->session == pages->session)
                        deallocate(conn, form);
                form->session = 0;
                render(form, &shape);
        }
        if (form->session != pages->session) {
                pg_conn_prepare(conn, &form->statement);
                form->session = pages->session;
        }
        return form;
}
