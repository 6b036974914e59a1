#include "outbox/page.h"

#include <stdlib.h>
#include <string.h>

static int compare_texts(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

ptrdiff_t page_find_filter(const struct page *page, const char *filter)
{
        char *const *found;

        if (page->n_filters == 0)
                return -1;
        found =
            bsearch(&filter, page->filters, page->n_filters, sizeof *page->filters, compare_texts);
        return found != NULL ? found - page->filters : -1;
}

bool page_filter_holds(const struct page *page, size_t event, ptrdiff_t filter)
{
        size_t row_bytes = (page->n_filters + 7) / 8;

        return filter >= 0 &&
               (page->filter_bits[event * row_bytes + (size_t)filter / 8] >> filter % 8 & 1) != 0;
}
