/* What was at fault when libcurl gives up, for HTTP and for mail. */
#pragma once

#include "pgcourier/outcome.h"

#include <curl/curl.h>
#include <stdbool.h>

/* `is_sent`: some of what was to be sent went out, so it may have arrived. */
enum outcome_fault curl_fault(CURLcode code, bool is_sent);
