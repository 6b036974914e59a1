#include "outbox/page_statements.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>

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
}

static struct page_statement *add(struct page_statements *pages, const struct page_shape *shape)
{
        struct page_statement *form = xcalloc(1, sizeof *form);

        form->shape = *shape;
        page_text_render(&form->text, shape);
        snprintf(form->name, sizeof form->name, "page_%zu", pages->n_forms);
        form->statement = (struct pg_statement){
            .name = form->name, .sql = form->text.sql, .n_params = form->text.n_params};
        pages->forms =
            xrealloc(pages->forms, (pages->n_forms + 1) * sizeof(struct page_statement *));
        pages->forms[pages->n_forms++] = form;
        return form;
}

/* There are few: a sink needs about four, and most have the same conditions. */
static struct page_statement *find(struct page_statements *pages, const struct page_shape *shape)
{
        for (size_t i = 0; i < pages->n_forms; i++)
                if (page_shapes_are_equal(&pages->forms[i]->shape, shape))
                        return pages->forms[i];
        return add(pages, shape);
}

const struct page_statement *page_statements_get(
    struct page_statements *pages, struct pg_conn *conn, const struct page_shape *shape)
{
        struct page_statement *form = find(pages, shape);

        if (form->session != pages->session) {
                pg_conn_prepare(conn, &form->statement);
                form->session = pages->session;
        }
        return form;
}
