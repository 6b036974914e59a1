#include "config/config_keys.h"

#include "config/config.h"
#include "text/topic_pattern.h"

#include <stdlib.h>

#define MEMBER(type, member)                                                                       \
        .offset = offsetof(type, member), .member_bytes = sizeof(((type *)NULL)->member)
#define COUNTED(type, member, count) MEMBER(type, member), .count_offset = offsetof(type, count)
#define BLOCK(name, type, rows)                                                                    \
        const struct config_block name = {                                                         \
            .keys = (rows), .n_keys = sizeof(rows) / sizeof *(rows), .struct_bytes = sizeof(type)}

#define P(member) MEMBER(struct postgres_config, member)
static const struct config_key postgres_keys[] = {
    {"dsn", KEY_TEXT, P(dsn), .is_required = true, .is_secret = true,
        .help =
            "how to reach the database: a libpq connection string or URI; without sslmode in it, "
            "a server on another machine is spoken to with verify-full"},
    {"dsn_file", KEY_FILE_OF, P(dsn), .help = "a file that holds dsn"},
    {"password", KEY_TEXT, P(password), .is_secret = true,
        .help = "the password, if dsn has none; without it libpq looks in its usual places"},
    {"password_file", KEY_FILE_OF, P(password), .help = "a file that holds password"},
    {"connect_timeout", KEY_DURATION, P(connect_timeout_ms), .fallback = "5s", .min = "100ms",
        .max = "10m", .help = "how long connecting may take"},
    {"query_timeout", KEY_DURATION, P(query_timeout_ms), .fallback = "30s", .min = "100ms",
        .max = "1h",
        .help = "a statement unanswered for so long breaks the connection; the server gives up "
                "statements of the relay earlier, after two thirds of it"},
};
static BLOCK(postgres_block, struct postgres_config, postgres_keys);

#define R(member) MEMBER(struct relay_config, member)
static const struct config_key relay_keys[] = {
    {"wakeup", KEY_CHOICE, R(wakeup), .fallback = "notify", .choices = "notify, poll",
        .help =
            "what wakes a sleeping relay: LISTEN/NOTIFY, or polling (where LISTEN cannot be used)"},
    {"sweep", KEY_DURATION, R(sweep_ms), .fallback = "5s", .min = "10ms", .max = "1h",
        .help = "how often to look at the backlog without having been notified"},
    {"poll_interval", KEY_DURATION, R(poll_interval_ms), .fallback = "250ms", .min = "1ms",
        .max = "1h", .help = "how often to look at the backlog with wakeup: poll"},
    {"standby", KEY_DURATION, R(standby_ms), .fallback = "1s", .min = "10ms", .max = "1h",
        .help = "how often a standby tries for a lane that another relay owns"},
    {"drain", KEY_DURATION, R(drain_ms), .fallback = "10s", .min = "0", .max = "1h",
        .help = "how long a stopping relay waits for what is in flight"},
    {"dns_servers", KEY_TEXTS, COUNTED(struct relay_config, dns_servers, n_dns_servers),
        .max_items = 16, .check = check_dns_server,
        .help = "name servers to ask instead of the system's: address[:port]"},
    {"modules", KEY_TEXT, R(modules),
        .help = "the folder with the modules of sinks; by default the one of the installation"},
};
static BLOCK(relay_block, struct relay_config, relay_keys);

#define M(member) MEMBER(struct admin_config, member)
static const struct config_key admin_keys[] = {
    {"listen", KEY_TEXT, M(listen), .fallback = "127.0.0.1:8477", .check = check_listen_address,
        .help = "where the endpoint is: 127.0.0.1:8477, [::1]:8477 or unix:/path; where other "
                "machines can reach it, it needs a token"},
    {"token", KEY_TEXT, M(token), .is_secret = true, .check = check_admin_token,
        .help = "who sends it may pause, resume, redrive, drop and reload; without it nobody may"},
    {"token_file", KEY_FILE_OF, M(token), .help = "a file that holds token"},
    {"allowed_hosts", KEY_TEXTS, COUNTED(struct admin_config, allowed_hosts, n_allowed_hosts),
        .max_items = 64, .check = check_host_name,
        .help = "names that the endpoint is reached by, besides localhost and IP addresses: those "
                "of a reverse proxy or a Kubernetes service"},
};
static BLOCK(admin_block, struct admin_config, admin_keys);

#define B(member) MEMBER(struct outbox_config, member)
static const struct config_key outbox_keys[] = {
    {"retention", KEY_DURATION, B(retention_ms), .fallback = "7d", .min = "0", .max = "3650d",
        .help = "how long events stay in the outbox; longer while a sink still needs them"},
    {"retention_max", KEY_DURATION, B(retention_max_ms), .fallback = "0", .min = "0",
        .max = "3650d",
        .help = "drop events after so long even if a sink has not had them, which loses them for "
                "it; 0: never; not below retention"},
};
static BLOCK(outbox_block, struct outbox_config, outbox_keys);

static const struct config_key log_keys[] = {
    {"level", KEY_TEXT, MEMBER(struct config, log_level), .fallback = "info",
        .choices = "debug, info, warn, error",
        .help = "the least important messages that are written"},
    {"format", KEY_CHOICE, MEMBER(struct config, log_format), .fallback = "logfmt",
        .choices = "logfmt, json", .help = "what a line is: logfmt, or one JSON object"},
};
static BLOCK(log_block, struct config, log_keys);

#define T(member) MEMBER(struct retry_config, member)
static const struct config_key retry_keys[] = {
    {"first", KEY_DURATION, T(first_ms), .fallback = "1s", .min = "1ms", .max = "1h",
        .help = "the delay before the second attempt"},
    {"factor", KEY_NUMBER, T(factor), .fallback = "3", .min = "1", .max = "10",
        .help = "how much longer each further delay is"},
    {"max", KEY_DURATION, T(max_ms), .fallback = "1h", .min = "1ms", .max = "30d",
        .help = "the longest delay; not below first"},
    {"delays", KEY_DURATIONS, COUNTED(struct retry_config, delays_ms, n_delays), .max_items = 100,
        .min = "1ms", .max = "30d",
        .help = "instead of first, factor and max: the delay after each failed attempt"},
    {"attempts", KEY_INTEGER, T(attempts), .fallback = "20", .min = "0", .max = "1000000",
        .help = "give up after so many; 0: any number"},
    {"max_age", KEY_DURATION, T(max_age_ms), .fallback = "3d", .min = "0", .max = "365d",
        .help = "give up when the delays add up to more than this; 0: any"},
};
static BLOCK(retry_block, struct retry_config, retry_keys);

#define D(member) MEMBER(struct redis_config, member)
static const struct config_key redis_keys[] = {
    {"url", KEY_TEXT, D(url), .is_secret = true, .check = check_redis_url,
        .help = "redis://[user[:password]@]host[:port][/db], rediss://… for TLS, or "
                "unix:///path/to.sock[?db=N]"},
    {"sentinels", KEY_TEXTS, COUNTED(struct redis_config, sentinels, n_sentinels),
        .check = check_redis_host,
        .help = "instead of url: host[:port] of each Sentinel, to be asked for the master"},
    {"master", KEY_TEXT, D(master), .help = "the name by which the sentinels know the master"},
    {"sentinel_user", KEY_TEXT, D(sentinel_user), .help = "the ACL user at the sentinels"},
    {"sentinel_password", KEY_TEXT, D(sentinel_password), .is_secret = true,
        .help = "the password at the sentinels; none by default"},
    {"sentinel_password_file", KEY_FILE_OF, D(sentinel_password),
        .help = "a file that holds sentinel_password"},
    {"cluster", KEY_TEXTS, COUNTED(struct redis_config, cluster, n_cluster),
        .check = check_redis_host,
        .help = "instead of url: host[:port] of some nodes of a Redis Cluster"},
    {"tls", KEY_BOOL, D(tls), .fallback = "false",
        .help = "TLS to the sentinels and the master, or to the cluster; with url: rediss://"},
    {"ca_file", KEY_TEXT, D(ca_file), .check = check_readable_file,
        .help = "certificates to trust instead of the system's (PEM)"},
    {"cert_file", KEY_TEXT, D(cert_file), .check = check_readable_file,
        .help = "our own certificate, if Redis asks for one (PEM)"},
    {"key_file", KEY_TEXT, D(key_file), .check = check_readable_file,
        .help = "the key of cert_file (PEM), without a passphrase"},
    {"db", KEY_INTEGER, D(db), .fallback = "0", .min = "0", .max = "2147483647",
        .help = "the database, with sentinels; url has its own place for it"},
    {"user", KEY_TEXT, D(user), .help = "the ACL user, if url has none"},
    {"password", KEY_TEXT, D(password), .is_secret = true, .help = "the password, if url has none"},
    {"password_file", KEY_FILE_OF, D(password), .help = "a file that holds password"},
    {"mode", KEY_CHOICE, D(mode), .fallback = "stream", .choices = "stream, pubsub",
        .help = "stream: append to a stream; pubsub: publish to whoever listens just then"},
    {"stream", KEY_TEXT, D(stream), .fallback = "events:{{topic}}", .check = check_stream_template,
        .help = "the stream's key: a fixed text, perhaps followed by {{topic}}, {{type}}, {{key}}"},
    {"channel", KEY_TEXT, D(channel), .fallback = "events:{{topic}}",
        .check = check_stream_template, .help = "the channel with mode: pubsub; as stream"},
    {"max_streams", KEY_INTEGER, D(max_streams), .fallback = "1000", .min = "0", .max = "1000000",
        .help = "so many different streams or channels at most; 0: any number"},
    {"maxlen", KEY_INTEGER, D(maxlen), .fallback = "0", .min = "0", .max = "9223372036854775807",
        .help = "trim the stream to about so many entries; 0: never"},
    {"minid", KEY_DURATION, D(minid_ms), .fallback = "0", .min = "0", .max = "3650d",
        .help = "trim about what is older than this; 0: never; not together with maxlen"},
    {"layout", KEY_CHOICE, D(layout), .fallback = "native",
        .choices = "native, debezium-extended, debezium-compact",
        .help = "the fields of an entry: ours, or those of Debezium Server's Redis sink"},
    {"format", KEY_CHOICE, D(format), .fallback = "native", .choices = "native, cloudevents",
        .help = "cloudevents: the event as CloudEvents JSON in one field"},
    {"source", KEY_TEXT, D(source), .fallback = "pgcourier", .check = check_event_source,
        .help = "the source of CloudEvents: a URI, or a relative one"},
    {"wait_replicas", KEY_INTEGER, D(wait_replicas), .fallback = "0", .min = "0", .max = "100",
        .help = "an event is delivered when so many replicas have it (WAIT); 0: do not ask"},
    {"wait_timeout", KEY_DURATION, D(wait_timeout_ms), .fallback = "1s", .min = "1ms", .max = "1h",
        .help = "how long to wait for them; shorter than timeout"},
    {"exactly_once", KEY_BOOL, D(exactly_once), .fallback = "false",
        .help = "remember in Redis what was delivered, so that no crash of ours repeats it; needs "
                "a fixed stream"},
    {"connect_timeout", KEY_DURATION, D(connect_timeout_ms), .fallback = "5s", .min = "1ms",
        .max = "10m", .help = "how long connecting may take"},
    {"timeout", KEY_DURATION, D(timeout_ms), .fallback = "5s", .min = "1ms", .max = "1h",
        .help = "a command unanswered for so long breaks the connection"},
};
static BLOCK(redis_block, struct redis_config, redis_keys);

static const struct config_key http_set_header_keys[] = {
    {"name", KEY_TEXT, MEMBER(struct http_set_header, name), .is_required = true,
        .check = check_header_name, .help = "the header's name"},
    {"value", KEY_TEXT, MEMBER(struct http_set_header, value), .is_required = true,
        .is_secret = true, .check = check_header_value, .help = "its value"},
    {"value_file", KEY_FILE_OF, MEMBER(struct http_set_header, value),
        .help = "a file that holds value"},
};
static BLOCK(http_set_header_block, struct http_set_header, http_set_header_keys);

static const struct config_key http_auth_keys[] = {
    {"user", KEY_TEXT, MEMBER(struct http_auth, user), .check = check_auth_user,
        .help = "the name to log in with (Authorization: Basic); needs a password"},
    {"password", KEY_TEXT, MEMBER(struct http_auth, password), .is_secret = true,
        .check = check_header_value, .help = "the password to log in with"},
    {"password_file", KEY_FILE_OF, MEMBER(struct http_auth, password),
        .help = "a file that holds password"},
    {"bearer", KEY_TEXT, MEMBER(struct http_auth, bearer), .is_secret = true,
        .check = check_auth_bearer,
        .help = "a token to log in with (Authorization: Bearer), instead of user and password"},
    {"bearer_file", KEY_FILE_OF, MEMBER(struct http_auth, bearer),
        .help = "a file that holds bearer"},
};
static BLOCK(http_auth_block, struct http_auth, http_auth_keys);

static const struct config_key http_batch_keys[] = {
    {"events", KEY_INTEGER, MEMBER(struct http_batch, events), .fallback = "100", .min = "1",
        .max = "1000", .help = "the most events of one request"},
    {"bytes", KEY_SIZE, MEMBER(struct http_batch, bytes), .fallback = "256KiB", .min = "1KiB",
        .max = "64MiB", .help = "the size of their payloads; a larger event goes alone"},
    {"linger", KEY_DURATION, MEMBER(struct http_batch, linger_ms), .fallback = "50ms", .min = "0",
        .max = "10s", .help = "how long a request waits for more events"},
};
static BLOCK(http_batch_block, struct http_batch, http_batch_keys);

#define H(member) MEMBER(struct http_config, member)
static const struct config_key http_keys[] = {
    {"url", KEY_TEXT, H(url), .is_secret = true, .check = check_http_url,
        .help = "where events are posted: http://host… or https://host…"},
    {"url_file", KEY_FILE_OF, H(url), .help = "a file that holds url"},
    {"endpoints", KEY_CHOICE, H(endpoints), .fallback = "none", .choices = "none, table",
        .help = "table: instead of one url, every row of courier.endpoint is a receiver"},
    {"disable_after", KEY_DURATION, H(disable_after_ms), .fallback = "5d", .min = "0",
        .max = "365d",
        .help =
            "with endpoints: table, a receiver that failed for so long is disabled; 0: none is"},
    {"signing", KEY_CHOICE, H(signing), .fallback = "standard",
        .choices = "standard, github, stripe, none",
        .help = "how requests are signed when there is a secret: as in Standard Webhooks, or as "
                "GitHub or Stripe do it"},
    {"secret", KEY_TEXT, H(secret), .is_secret = true,
        .help = "what to sign with; signing: standard wants whsec_ and base64 of 24 to 64 bytes"},
    {"secret_file", KEY_FILE_OF, H(secret), .help = "a file that holds secret"},
    {"secrets", KEY_TEXTS, COUNTED(struct http_config, secrets, n_secrets), .max_items = 10,
        .is_secret = true,
        .help = "instead of secret, several of them, the newest first: each one signs"},
    {"secrets_file", KEY_LINES_OF, COUNTED(struct http_config, secrets, n_secrets),
        .help = "a file that holds secrets, one per line"},
    {"headers", KEY_TEXTS, COUNTED(struct http_config, headers, n_headers),
        .check = check_header_name,
        .help = "names of event headers that are passed on as HTTP headers"},
    {"set_headers", KEY_BLOCKS, COUNTED(struct http_config, set_headers, n_set_headers),
        .block = &http_set_header_block, .help = "headers that every request carries"},
    {"auth", KEY_BLOCK, H(auth), .block = &http_auth_block,
        .help = "the credentials that every request carries"},
    {"body", KEY_CHOICE, H(body), .fallback = "raw",
        .choices = "raw, standard, cloudevents, cloudevents-structured",
        .help = "raw: the payload as it was published; standard: wrapped as Standard Webhooks "
                "recommend; the others: CloudEvents, in headers or as one JSON object"},
    {"source", KEY_TEXT, H(source), .fallback = "pgcourier", .check = check_ce_source,
        .help = "the source attribute of CloudEvents"},
    {"batch", KEY_OPTIONAL_BLOCK, H(batch), .block = &http_batch_block,
        .help = "several events in one request, as a JSON array; {} for its defaults"},
    {"on_410", KEY_CHOICE, H(on_410), .fallback = "pause", .choices = "pause, dead, retry",
        .help = "what 410 Gone means: pause the receiver, give the event up, or try again"},
    {"accept_409", KEY_BOOL, H(accept_409), .fallback = "false",
        .help = "409 Conflict means that the receiver has the event already: delivered"},
    {"http_version", KEY_CHOICE, H(http_version), .fallback = "1.1", .choices = "1.1, 2",
        .help = "2: HTTP/2 with https receivers that offer it, else 1.1"},
    {"gzip", KEY_BOOL, H(gzip), .fallback = "false",
        .help = "compress bodies (Content-Encoding: gzip)"},
    {"fresh_connections", KEY_BOOL, H(fresh_connections), .fallback = "false",
        .help = "a new connection for each request, so that none is ever repeated unasked"},
    {"proxy", KEY_TEXT, H(proxy), .is_secret = true, .check = check_http_proxy,
        .help = "the proxy to go through: http://[user:password@]host:port; the environment's is "
                "never used"},
    {"proxy_file", KEY_FILE_OF, H(proxy), .help = "a file that holds proxy"},
    {"connect_timeout", KEY_DURATION, H(connect_timeout_ms), .fallback = "5s", .min = "1ms",
        .max = "10m", .help = "how long connecting may take"},
    {"timeout", KEY_DURATION, H(timeout_ms), .fallback = "15s", .min = "1ms", .max = "1h",
        .help = "how long a whole request may take"},
    {"ca_file", KEY_TEXT, H(ca_file), .check = check_readable_file,
        .help = "certificates to trust instead of the system's (PEM)"},
    {"cert_file", KEY_TEXT, H(cert_file), .check = check_readable_file,
        .help = "the certificate to show to receivers that ask for one (PEM); needs key_file"},
    {"key_file", KEY_TEXT, H(key_file), .check = check_readable_file,
        .help = "its private key, not encrypted (PEM)"},
    {"block_metadata", KEY_BOOL, H(block_metadata), .fallback = "true",
        .help = "never connect to the metadata addresses of clouds, nor to link-local ones"},
    {"allow_networks", KEY_TEXTS, COUNTED(struct http_config, allow_networks, n_allow_networks),
        .max_items = 1000, .check = check_network,
        .help = "networks that may be connected to though they are not public: 10.0.0.0/8"},
    {"allow_ports", KEY_TEXTS, COUNTED(struct http_config, allow_ports, n_allow_ports),
        .max_items = 1000, .check = check_port,
        .help = "ports besides 80 and 443 that URLs from a table may name"},
    {"https_only", KEY_BOOL, H(https_only), .fallback = "false",
        .help = "refuse http:// in URLs from a table"},
};
static BLOCK(http_block, struct http_config, http_keys);

#define L(member) MEMBER(struct email_relay_config, member)
static const struct config_key email_relay_keys[] = {
    {"url", KEY_TEXT, L(url), .is_required = true, .check = check_email_url,
        .help = "smtp://host[:port] or smtps://host[:port]"},
    {"user", KEY_TEXT, L(user), .help = "the name to log in with there"},
    {"password", KEY_TEXT, L(password), .is_secret = true, .help = "the password to log in with"},
    {"password_file", KEY_FILE_OF, L(password), .help = "a file that holds password"},
};
static BLOCK(email_relay_block, struct email_relay_config, email_relay_keys);

#define E(member) MEMBER(struct email_config, member)
static const struct config_key email_keys[] = {
    {"url", KEY_TEXT, E(url), .check = check_email_url,
        .help = "smtp://host[:port] or smtps://host[:port]; either this or relays is required"},
    {"relays", KEY_BLOCKS, COUNTED(struct email_config, relays, n_relays),
        .block = &email_relay_block,
        .help =
            "instead of url: up to 8 mail servers, of which the first that can be reached takes "
            "the mail"},
    {"relay_backoff", KEY_DURATION, E(relay_backoff_ms), .fallback = "5s", .min = "1ms",
        .max = "5m",
        .help = "a relay that failed is left out for so long; doubles with each failure, up to 60 "
                "times this"},
    {"from", KEY_TEXT, E(from), .is_required = true, .check = check_email_address,
        .help = "the sender: name@domain, or Name <name@domain>"},
    {"user", KEY_TEXT, E(user), .help = "the name to log in with"},
    {"password", KEY_TEXT, E(password), .is_secret = true, .help = "the password to log in with"},
    {"password_file", KEY_FILE_OF, E(password), .help = "a file that holds password"},
    {"message_id_domain", KEY_TEXT, E(message_id_domain), .check = check_domain,
        .help = "the right side of each Message-ID; by default the domain of from"},
    {"templates", KEY_TEXT, E(templates), .check = check_folder,
        .help = "a folder of templates: NAME.subject, NAME.txt and NAME.html; read at start"},
    {"max_attachment_bytes", KEY_SIZE, E(max_attachment_bytes), .fallback = "10MiB", .min = "0",
        .max = "1GiB", .help = "the size of all attachments of one message"},
    {"tls", KEY_CHOICE, E(tls), .fallback = "auto", .choices = "auto, required, none",
        .help = "auto: required unless the server is on this machine"},
    {"connect_timeout", KEY_DURATION, E(connect_timeout_ms), .fallback = "10s", .min = "1ms",
        .max = "10m", .help = "how long connecting may take"},
    {"timeout", KEY_DURATION, E(timeout_ms), .fallback = "120s", .min = "1ms", .max = "1h",
        .help = "how long sending one message may take"},
    {"ca_file", KEY_TEXT, E(ca_file), .check = check_readable_file,
        .help = "certificates to trust instead of the system's (PEM)"},
    {"cert_file", KEY_TEXT, E(cert_file), .check = check_readable_file,
        .help = "the certificate to show to a server that asks for one (PEM)"},
    {"key_file", KEY_TEXT, E(key_file), .check = check_readable_file,
        .help = "the private key of cert_file, if it is not in there (PEM)"},
    {"ehlo", KEY_TEXT, E(ehlo), .check = check_domain,
        .help = "the name to greet mail servers with; by default this machine's"},
    {"max_mails_per_connection", KEY_INTEGER, E(max_mails_per_connection), .fallback = "100",
        .min = "0", .max = "1000000", .help = "mails sent over one connection; 0: any number"},
    {"idle", KEY_DURATION, E(idle_ms), .fallback = "30s", .min = "1s", .max = "1h",
        .help = "how long a connection is kept for the next mail"},
    {"domain_rate", KEY_NUMBER, E(domain_rate), .fallback = "0", .min = "0", .max = "100000",
        .help = "mails per second to each recipient domain; 0: any number"},
    {"domain_concurrency", KEY_INTEGER, E(domain_concurrency), .fallback = "0", .min = "0",
        .max = "16", .help = "mails at the same time to each recipient domain; 0: no limit"},
    {"domain_backoff", KEY_DURATION, E(domain_backoff_ms), .fallback = "10s", .min = "0",
        .max = "1h",
        .help = "how long a recipient domain that puts mail off rests; doubles each time, up to 60 "
                "times this; 0: never"},
    {"on_unknown", KEY_CHOICE, E(on_unknown), .fallback = "retry", .choices = "retry, reject",
        .help = "no answer came to a mail that was sent: send it again, or give it up"},
};
static BLOCK(email_block, struct email_config, email_keys);

static const struct config_key stdout_keys[] = {
    {"payload", KEY_BOOL, MEMBER(struct stdout_config, payload), .fallback = "true",
        .help = "print payloads; false leaves only each event's name and identity"},
};
static BLOCK(stdout_block, struct stdout_config, stdout_keys);

#define O(member) MEMBER(struct module_config, member)
static const struct config_key module_keys[] = {
    {"file", KEY_TEXT, O(file), .is_required = true, .check = check_module_file,
        .help = "the module's file name in the folder relay.modules"},
    {"endpoints", KEY_CHOICE, O(endpoints), .fallback = "none", .choices = "none, table",
        .help = "table: each row of courier.endpoint with this sink's name is a receiver of its "
                "own, if the module can do that"},
    {"disable_after", KEY_DURATION, O(disable_after_ms), .fallback = "5d", .min = "0",
        .max = "365d",
        .help =
            "with endpoints: table, a receiver that failed for so long is disabled; 0: none is"},
    {"options", KEY_OPTIONS, O(options),
        .help = "the module's own options: names and single values"},
};
static BLOCK(module_block, struct module_config, module_keys);

static const struct config_key rate_keys[] = {
    {"per_second", KEY_NUMBER, MEMBER(struct rate_config, per_second), .fallback = "0", .min = "0",
        .max = "1000000", .help = "so many attempts a second; 0: any number"},
    {"burst", KEY_INTEGER, MEMBER(struct rate_config, burst), .fallback = "0", .min = "0",
        .max = "1000000", .help = "so many at once after a pause; 0: as many as in a second"},
};
static BLOCK(rate_block, struct rate_config, rate_keys);

#define S(member) MEMBER(struct sink_config, member)
static const struct config_key sink_keys[] = {
    {"name", KEY_TEXT, S(name), .is_required = true, .check = check_sink_name,
        .help = "the sink's name in the database, in logs and in metrics; never change it"},
    {"topics", KEY_TEXTS, COUNTED(struct sink_config, topics, n_topics), .is_required = true,
        .max_items = 1000, .check = topic_pattern_check,
        .help = "patterns of the topics it takes; * stands for any run of characters without a "
                "dot, ** for any run at all; an entry that begins with ! excludes"},
    {"types", KEY_TEXTS, COUNTED(struct sink_config, types, n_types), .max_items = 1000,
        .check = topic_pattern_check,
        .help = "patterns of the types it takes; without them, events of any type or none"},
    {"match_headers", KEY_TEXTS, COUNTED(struct sink_config, match_headers, n_match_headers),
        .max_items = 100, .check = check_header_condition,
        .help =
            "headers that an event must have: name=value, or name for any value; all must hold"},
    {"filter", KEY_TEXT, S(filter), .check = check_filter,
        .help = "a jsonpath predicate that must be true of the payload, as in $.amount > 100"},
    {"start", KEY_CHOICE, S(start), .fallback = "now", .choices = "now, beginning",
        .help = "where a new sink begins: with events from now on, or with all that are kept"},
    {"order", KEY_CHOICE, S(order), .fallback = "key", .choices = "key, none",
        .help = "key: events of one key are delivered one after another; none: as fast as they go"},
    {"max_in_flight", KEY_INTEGER, S(max_in_flight), .fallback = "1000", .min = "2",
        .max = "100000", .help = "events that are claimed and not settled at the same time"},
    {"max_in_flight_bytes", KEY_SIZE, S(max_in_flight_bytes), .fallback = "16MiB", .min = "64KiB",
        .max = "1GiB", .help = "the size of their payloads"},
    {"concurrency", KEY_INTEGER, S(concurrency), .fallback = "0", .min = "0", .max = "1024",
        .help = "attempts in flight at the same time; 0: 16 of http, 2 of email (which may have up "
                "to 16), any number of the others"},
    {"rate", KEY_BLOCK, S(rate), .block = &rate_block,
        .help = "how many attempts may start in a second"},
    {"retry", KEY_BLOCK, S(retry), .block = &retry_block,
        .help = "when an event whose delivery failed is tried again, and when it is given up"},
    {"park_after", KEY_DURATION, S(park_after_ms), .fallback = "1s", .min = "1ms", .max = "1h",
        .help = "a delivery under way for so long that holds up others is parked meanwhile"},
    {"max_parked", KEY_INTEGER, S(max_parked), .fallback = "100000", .min = "1",
        .max = "1000000000",
        .help = "with so many deliveries parked nothing new is read until some are through"},
    {"max_event_bytes", KEY_SIZE, S(max_event_bytes), .fallback = "1MiB", .min = "0", .max = "1GiB",
        .help = "a larger payload is a dead letter at once; 0: any size"},
    {"redis", KEY_OPTIONAL_BLOCK, S(redis), .block = &redis_block,
        .help = "append to a Redis Stream"},
    {"http", KEY_OPTIONAL_BLOCK, S(http), .block = &http_block, .help = "post to a webhook"},
    {"email", KEY_OPTIONAL_BLOCK, S(email), .block = &email_block, .help = "send as e-mail"},
    {"stdout", KEY_OPTIONAL_BLOCK, S(stdout_), .block = &stdout_block,
        .help = "print as JSON lines"},
    {"module", KEY_OPTIONAL_BLOCK, S(module), .block = &module_block,
        .help = "hand to a module: a kind of sink in a shared object"},
};
static BLOCK(sink_block, struct sink_config, sink_keys);

#define C(member) MEMBER(struct config, member)
static const struct config_key root_keys[] = {
    {"postgres", KEY_BLOCK, C(postgres), .block = &postgres_block,
        .help = "the database that holds the outbox"},
    {"relay", KEY_BLOCK, C(relay), .block = &relay_block, .help = "how the relay works"},
    {"admin", KEY_OPTIONAL_BLOCK, C(admin), .block = &admin_block,
        .help = "the endpoint with the live page, health, metrics and what can be changed at run "
                "time; left out, there is none"},
    {"outbox", KEY_BLOCK, C(outbox), .block = &outbox_block,
        .help = "how long events are kept in the database"},
    /* Its keys are members of struct config itself. */
    {"log", KEY_BLOCK, .offset = 0, .member_bytes = sizeof(struct config), .block = &log_block,
        .help = "what is logged"},
    {"sinks", KEY_BLOCKS, COUNTED(struct config, sinks, n_sinks), .is_required = true,
        .block = &sink_block,
        .help = "the destinations, each of exactly one kind: redis, http, email, stdout or "
                "module"},
};
BLOCK(config_root, struct config, root_keys);

enum key_shape key_shape(enum key_type type)
{
        switch (type) {
        case KEY_TEXT:
        case KEY_FILE_OF:
        case KEY_LINES_OF:
        case KEY_CHOICE:
        case KEY_BOOL:
        case KEY_INTEGER:
        case KEY_NUMBER:
        case KEY_DURATION:
        case KEY_SIZE:
                return SHAPE_SCALAR;
        case KEY_TEXTS:
        case KEY_DURATIONS:
                return SHAPE_TEXTS;
        case KEY_BLOCK:
        case KEY_OPTIONAL_BLOCK:
                return SHAPE_BLOCK;
        case KEY_BLOCKS:
                return SHAPE_BLOCKS;
        case KEY_OPTIONS:
                return SHAPE_OPTIONS;
        }
        abort();
}
