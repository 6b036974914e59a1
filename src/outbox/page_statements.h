/*
 * The forms of page.sql that this program has needed so far. Each is prepared when a session needs
 * it for the first time.
 */
#pragma once

#include "outbox/page_text.h"
#include "pg/pg_conn.h"

#include <stddef.h>

struct page_statement {
        struct page_shape shape;
        struct page_text text;
        char name[16];
        struct pg_statement statement; /* made of these */
        uint64_t session;              /* the last one in which it was prepared */
};

struct page_statements {
        struct page_statement **forms; /* owned */
        size_t n_forms;
        uint64_t session; /* the one at hand: 1 is the first */
};

void page_statements_deinit(struct page_statements *pages);

/* Nothing is prepared in the session that begins now. */
void page_statements_begin_session(struct page_statements *pages);

/* Of this shape, and prepared. */
const struct page_statement *page_statements_get(
    struct page_statements *pages, struct pg_conn *conn, const struct page_shape *shape);
