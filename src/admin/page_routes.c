/* The live page, and the page of the portal: their files, compiled in as gzip. Nothing in them is
 * about this relay: what they show they ask for, with the token where one is needed. */
#include "admin/admin_internal.h"
#include "admin/http/answer.h"
#include "base/alloc.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Each of page/, with its type, and the pages that it belongs to: this one, and the portal. */
enum { ADMIN = 1 << PAGE_ADMIN, PORTAL = 1 << PAGE_PORTAL, BOTH = ADMIN | PORTAL };
#define FILES(EACH)                                                                                \
        EACH("", "text/html", page_index_html, ADMIN)                                              \
        EACH("style.css", "text/css", page_style_css, BOTH)                                        \
        EACH("icon.svg", "image/svg+xml", page_icon_svg, BOTH)                                     \
        EACH("actions.mjs", "text/javascript", page_actions_mjs, ADMIN)                            \
        EACH("age.mjs", "text/javascript", page_age_mjs, ADMIN)                                    \
        EACH("api.mjs", "text/javascript", page_api_mjs, ADMIN)                                    \
        EACH("app.mjs", "text/javascript", page_app_mjs, ADMIN)                                    \
        EACH("chart.mjs", "text/javascript", page_chart_mjs, ADMIN)                                \
        EACH("dead.mjs", "text/javascript", page_dead_mjs, ADMIN)                                  \
        EACH("dialog.mjs", "text/javascript", page_dialog_mjs, BOTH)                               \
        EACH("dom.mjs", "text/javascript", page_dom_mjs, BOTH)                                     \
        EACH("format.mjs", "text/javascript", page_format_mjs, BOTH)                               \
        EACH("hold.mjs", "text/javascript", page_hold_mjs, ADMIN)                                  \
        EACH("lists.mjs", "text/javascript", page_lists_mjs, ADMIN)                                \
        EACH("looks.mjs", "text/javascript", page_looks_mjs, ADMIN)                                \
        EACH("problems.mjs", "text/javascript", page_problems_mjs, ADMIN)                          \
        EACH("receiver.mjs", "text/javascript", page_receiver_mjs, ADMIN)                          \
        EACH("receivers.mjs", "text/javascript", page_receivers_mjs, ADMIN)                        \
        EACH("rows.mjs", "text/javascript", page_rows_mjs, BOTH)                                   \
        EACH("schedules.mjs", "text/javascript", page_schedules_mjs, ADMIN)                        \
        EACH("sheet.mjs", "text/javascript", page_sheet_mjs, ADMIN)                                \
        EACH("sinks.mjs", "text/javascript", page_sinks_mjs, ADMIN)                                \
        EACH("stages.mjs", "text/javascript", page_stages_mjs, ADMIN)                              \
        EACH("stream.mjs", "text/javascript", page_stream_mjs, ADMIN)                              \
        EACH("token.mjs", "text/javascript", page_token_mjs, ADMIN)                                \
        EACH("trace.mjs", "text/javascript", page_trace_mjs, ADMIN)                                \
        EACH("", "text/html", page_portal_html, PORTAL)                                            \
        EACH("portal.css", "text/css", page_portal_css, PORTAL)                                    \
        EACH("portal.mjs", "text/javascript", page_portal_mjs, PORTAL)                             \
        EACH("portal_api.mjs", "text/javascript", page_portal_api_mjs, PORTAL)                     \
        EACH("portal_lists.mjs", "text/javascript", page_portal_lists_mjs, PORTAL)                 \
        EACH("portal_change.mjs", "text/javascript", page_portal_change_mjs, PORTAL)               \
        EACH("snippets.mjs", "text/javascript", page_snippets_mjs, PORTAL)

#define DECLARE(name, type, symbol, pages)                                                         \
        extern const unsigned char symbol[];                                                       \
        extern const size_t symbol##_size;
FILES(DECLARE)

#define ROW(name, type, symbol, pages)                                                             \
        {name, type "; charset=utf-8", symbol, &symbol##_size, pages},
static const struct page_file {
        const char *name; /* "" is the page itself */
        const char *content_type;
        const unsigned char *gzip;
        const size_t *size;
        unsigned pages;
} files[] = {FILES(ROW)};

static void answer_file(struct http_call *request, const struct page_file *file, const void *body,
    size_t length, const struct http_header *headers)
{
        http_call_answer(request, &(struct http_answer){.status = 200,
                                      .content_type = file->content_type,
                                      .body = body,
                                      .body_length = length,
                                      .headers = headers});
}

/* For who reads no gzip: no browser, but people with curl. */
static void answer_inflated(struct http_call *request, const struct page_file *file)
{
        z_stream stream = {
            .next_in = (unsigned char *)(uintptr_t)file->gzip, .avail_in = (unsigned)*file->size};
        uint32_t length; /* gzip ends with it */
        unsigned char *text;

        memcpy(&length, file->gzip + *file->size - sizeof length, sizeof length);
        length = le32toh(length);
        text = xmalloc(length);
        stream.next_out = text;
        stream.avail_out = length;
        if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK)
                out_of_memory();
        if (inflate(&stream, Z_FINISH) != Z_STREAM_END)
                abort(); /* we have compressed it ourselves */
        inflateEnd(&stream);
        answer_file(request, file, text, length, NULL);
        free(text);
}

void page_answer_file(struct http_call *request, enum page page, const char *name)
{
        static const struct http_header gzip[] = {
            {"Content-Encoding", "gzip"}, {"Vary", "Accept-Encoding"}, {NULL, NULL}};
        const char *accepted = http_call_header(request, "Accept-Encoding");

        for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
                if (strcmp(files[i].name, name) != 0 || (files[i].pages & 1U << page) == 0)
                        continue;
                if (accepted != NULL && strstr(accepted, "gzip") != NULL)
                        answer_file(request, &files[i], files[i].gzip, *files[i].size, gzip);
                else
                        answer_inflated(request, &files[i]);
                return;
        }
        answer_refusal(request, 404, "the page has no such file");
}

void answer_page(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        (void)admin;
        (void)body;
        page_answer_file(request, PAGE_ADMIN, name);
}
