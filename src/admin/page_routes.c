/* The live page: its files, compiled in as gzip. Nothing in them is about this relay: what they
 * show they ask for, with the token where one is needed. */
#include "admin/admin_internal.h"
#include "admin/http/answer.h"
#include "base/alloc.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Each of page/, with its type. */
#define FILES(EACH)                                                                                \
        EACH("", "text/html", page_index_html)                                                     \
        EACH("style.css", "text/css", page_style_css)                                              \
        EACH("icon.svg", "image/svg+xml", page_icon_svg)                                           \
        EACH("actions.mjs", "text/javascript", page_actions_mjs)                                   \
        EACH("age.mjs", "text/javascript", page_age_mjs)                                           \
        EACH("api.mjs", "text/javascript", page_api_mjs)                                           \
        EACH("app.mjs", "text/javascript", page_app_mjs)                                           \
        EACH("chart.mjs", "text/javascript", page_chart_mjs)                                       \
        EACH("dead.mjs", "text/javascript", page_dead_mjs)                                         \
        EACH("dialog.mjs", "text/javascript", page_dialog_mjs)                                     \
        EACH("dom.mjs", "text/javascript", page_dom_mjs)                                           \
        EACH("format.mjs", "text/javascript", page_format_mjs)                                     \
        EACH("hold.mjs", "text/javascript", page_hold_mjs)                                         \
        EACH("lists.mjs", "text/javascript", page_lists_mjs)                                       \
        EACH("looks.mjs", "text/javascript", page_looks_mjs)                                       \
        EACH("problems.mjs", "text/javascript", page_problems_mjs)                                 \
        EACH("receiver.mjs", "text/javascript", page_receiver_mjs)                                 \
        EACH("receivers.mjs", "text/javascript", page_receivers_mjs)                               \
        EACH("rows.mjs", "text/javascript", page_rows_mjs)                                         \
        EACH("sheet.mjs", "text/javascript", page_sheet_mjs)                                       \
        EACH("sinks.mjs", "text/javascript", page_sinks_mjs)                                       \
        EACH("stages.mjs", "text/javascript", page_stages_mjs)                                     \
        EACH("stream.mjs", "text/javascript", page_stream_mjs)                                     \
        EACH("token.mjs", "text/javascript", page_token_mjs)                                       \
        EACH("trace.mjs", "text/javascript", page_trace_mjs)

#define DECLARE(name, type, symbol)                                                                \
        extern const unsigned char symbol[];                                                       \
        extern const size_t symbol##_size;
FILES(DECLARE)

#define ROW(name, type, symbol) {name, type "; charset=utf-8", symbol, &symbol##_size},
static const struct page_file {
        const char *name; /* "" is the page itself */
        const char *content_type;
        const unsigned char *gzip;
        const size_t *size;
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

void answer_page(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        static const struct http_header gzip[] = {
            {"Content-Encoding", "gzip"}, {"Vary", "Accept-Encoding"}, {NULL, NULL}};
        const char *accepted = http_call_header(request, "Accept-Encoding");

        (void)admin;
        (void)body;
        for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
                if (strcmp(files[i].name, name) != 0)
                        continue;
                if (accepted != NULL && strstr(accepted, "gzip") != NULL)
                        answer_file(request, &files[i], files[i].gzip, *files[i].size, gzip);
                else
                        answer_inflated(request, &files[i]);
                return;
        }
        answer_refusal(request, 404, "the page has no such file");
}
