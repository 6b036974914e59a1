/* What a bearer token says about itself, if it is a JWT. Pure. */
#pragma once

#include <stdint.h>

/* When it expires (its claim `exp`), in milliseconds since 1970; 0 if it does not say so. */
int64_t kafka_token_expires_ms(const char *token);
