#include "cli/libraries.h"

#include "base/alloc.h"

#include <ares.h>
#include <curl/curl.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <uv.h>

/* Of OpenSSL, which also passes the line that asks. It means nothing by zero bytes. */
static void *openssl_malloc(size_t size, const char *file, int line)
{
        (void)file;
        (void)line;
        return size > 0 ? xmalloc(size) : NULL;
}

static void openssl_free(void *block, const char *file, int line)
{
        (void)file;
        (void)line;
        free(block);
}

static void *openssl_realloc(void *block, size_t size, const char *file, int line)
{
        if (size > 0)
                return xrealloc(block, size);
        openssl_free(block, file, line);
        return NULL;
}

void libraries_share_allocator(void)
{
        json_set_alloc_funcs(xmalloc, free);
        ares_library_init_mem(ARES_LIB_INIT_ALL, xmalloc, free, xrealloc);
        uv_replace_allocator(xmalloc, xrealloc, xcalloc, free);
        /* Refused if something has used OpenSSL already; then that goes on as it did. */
        (void)CRYPTO_set_mem_functions(openssl_malloc, openssl_realloc, openssl_free);
}

bool libraries_init_curl(void)
{
        return curl_global_init_mem(
                   CURL_GLOBAL_DEFAULT, xmalloc, free, xrealloc, xstrdup, xcalloc) == CURLE_OK;
}
