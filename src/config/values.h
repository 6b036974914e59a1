/*
 * What a single value of the config file must look like. Each check answers
 * NULL, or what is wrong and what is allowed, quoting nothing of the value: it
 * may be a secret.
 */
#pragma once

#include <stdbool.h>

typedef const char *value_check_fn(const char *value);

value_check_fn check_sink_name;
value_check_fn check_sink_pattern; /* of names; text/topic_pattern.h */
value_check_fn check_relay_name;
value_check_fn check_header_condition; /* "name=value", or "name" */
value_check_fn check_filter;           /* as far as it can be told without PostgreSQL */
value_check_fn check_header_name;
value_check_fn check_stream_template;
value_check_fn check_event_source;
value_check_fn check_redis_url;
value_check_fn check_redis_host; /* host[:port] */
value_check_fn check_http_url;
value_check_fn check_http_secret; /* of signing: standard */
value_check_fn check_http_proxy;
value_check_fn check_header_value;
value_check_fn check_auth_user;
value_check_fn check_auth_bearer;
value_check_fn check_ce_source;
value_check_fn check_email_url;
value_check_fn check_email_address; /* "a@b.c" or "Name <a@b.c>" */
value_check_fn check_domain;
value_check_fn check_readable_file;
value_check_fn check_dns_server;     /* "ip", "ip:port", "[ip6]:port" */
value_check_fn check_listen_address; /* text/network.h */
value_check_fn check_admin_token;
value_check_fn check_portal_url;
value_check_fn check_portal_right;
value_check_fn check_host_name; /* as a Host header has it, without a port */
value_check_fn check_network;   /* text/network.h */
value_check_fn check_port;
value_check_fn check_folder;
value_check_fn check_module_file; /* a name without a path */

/* Of the brokers: broker_values.c. */
value_check_fn check_nats_server;         /* [nats://|tls://]host[:port] */
value_check_fn check_nats_subject;        /* a template */
value_check_fn check_nats_inbox;          /* what subjects begin with */
value_check_fn check_nats_stream;         /* the name of a stream, or of a domain */
value_check_fn check_nats_stream_subject; /* with wildcards */
value_check_fn check_amqp_server;         /* [amqp://|amqps://]host[:port] */
value_check_fn check_amqp_name;           /* of what AMQP has at most 255 bytes of */
value_check_fn check_amqp_routing_key;    /* a template */
value_check_fn check_kafka_broker;        /* host[:port] */
value_check_fn check_kafka_topic;         /* a template */
value_check_fn check_kafka_property;      /* "name=value" */

/* Whether what check_nats_subject() accepts is another subject for each event. */
bool nats_subject_has_id(const char *value);

/* The domain within what check_email_address() accepts; to be freed by the caller. */
char *email_address_domain(const char *address);
