/* The headers of one webhook request: pure, without I/O. */
#pragma once

#include "pgcourier/event.h"
#include "pgcourier/outcome.h"

#include <curl/curl.h>

struct error;
struct http_config;
struct webhook_signer;

/* False, with *error set (ERROR_CONFIG), if the config wants an event header passed on whose name
 * is not one of HTTP, or that would replace one of ours. */
bool http_headers_check_names(const struct http_config *config, struct error *error);

/*
 * All headers for `event`, for CURLOPT_HTTPHEADER; freed with curl_slist_free_all(). `signer` is
 * NULL for unsigned requests, `now_s` the time of this attempt in unix seconds. NULL, with
 * *out_rejected set, if HTTP cannot carry one of the event's values.
 */
struct curl_slist *http_headers_make(const struct http_config *config, const struct event *event,
    const struct webhook_signer *signer, int64_t now_s, struct outcome *out_rejected);
