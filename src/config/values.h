/*
 * What a single value of the config file must look like. Each check answers
 * NULL, or what is wrong and what is allowed, quoting nothing of the value: it
 * may be a secret.
 */
#pragma once

typedef const char *value_check_fn(const char *value);

value_check_fn check_sink_name;
value_check_fn check_topic_pattern;
value_check_fn check_header_name;
value_check_fn check_stream_template;
value_check_fn check_redis_url;
value_check_fn check_http_url;
value_check_fn check_http_secret;
value_check_fn check_email_url;
value_check_fn check_email_address; /* "a@b.c" or "Name <a@b.c>" */
value_check_fn check_domain;
value_check_fn check_readable_file;

/* The domain within what check_email_address() accepts; to be freed by the caller. */
char *email_address_domain(const char *address);
