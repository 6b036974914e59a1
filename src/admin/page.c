/* The live page: its files, compiled in. Nothing in them is about this relay: what they show they ask
 * for, with the token where one is needed. */
#include "admin/admin_parts.h"
#include "admin/answer.h"

#include <string.h>

extern const char admin_page_html[];
extern const char admin_page_css[];

static const struct page_file {
        const char *name; /* "" is the page itself */
        const char *content_type;
        const char *text;
} files[] = {
    {"", "text/html; charset=utf-8", admin_page_html},
    {"style.css", "text/css; charset=utf-8", admin_page_css},
};

void answer_page(
    struct admin *admin, struct http_request *request, const char *name, const json_t *body)
{
        (void)admin;
        (void)body;
        for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
                if (strcmp(files[i].name, name) != 0)
                        continue;
                http_request_answer(request, &(struct http_answer){.status = 200,
                                                 .content_type = files[i].content_type,
                                                 .body = files[i].text,
                                                 .body_length = strlen(files[i].text)});
                return;
        }
        answer_refusal(request, 404, "the page has no such file");
}
