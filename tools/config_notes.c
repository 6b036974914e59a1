/* What the documentation says of a key instead of its help: with marks, links and what takes more than a
 * line. A row of this table that names no key is an error of `pgcourier-tools config-docs`. */
#include "tools.h"

#include <stddef.h>
#include <string.h>

static const struct config_note {
        const char *block; /* "sinks[].http" */
        const char *key;
        const char *text; /* Markdown */
} notes[] = {
    {"postgres", "dsn",
        "how to reach the database: a libpq connection string or URI; with several hosts the one "
        "that accepts writes is used"},
    {"postgres", "query_timeout",
        "a statement unanswered for so long breaks the connection; the server itself ends the "
        "relay's statements after 30 s"},
    {"relay", "wakeup",
        "what wakes a sleeping relay: LISTEN/NOTIFY on a second connection, or polling"},
    {"relay", "sweep",
        "how often to look at the backlog without having been notified; up to an eighth sooner, so "
        "that relays do not march in step"},
    {"relay", "poll_interval",
        "the same with `wakeup: poll`, and at least so often while the second connection is lost"},
    {"relay", "dns_servers",
        "name servers to ask instead of the system's: `192.0.2.53`, `192.0.2.53:5353`, "
        "`2001:db8::53` or `[2001:db8::53]:5353`; see [addresses](sinks.md#addresses)"},
    {"relay", "modules",
        "the folder with the [modules](writing-a-sink.md) of sinks; by default the one of the "
        "installation, which `pgcourier version` prints"},
    {"log", "level", "the least important messages that are written; `--log-level` goes before it"},
    {"sinks[]", "name",
        "the sink's name in the database and in logs: 1 to 63 of a-z, 0-9, `-` and `_`, the first "
        "a letter or digit. It names the cursor: a sink with a new name is a new sink"},
    {"sinks[]", "topics",
        "patterns of the topics it takes: `*` stands for any run of characters without a dot, `**` "
        "for any run at all, everything else for itself; an entry that begins with `!` excludes. "
        "Up to 1000"},
    {"sinks[]", "types",
        "patterns of the types it takes, by the same rules; without them, events of any type or "
        "none"},
    {"sinks[]", "filter",
        "a jsonpath predicate that must be true of the payload, as in `$.amount > 100`; PostgreSQL "
        "evaluates it"},
    {"sinks[]", "start",
        "where a new sink begins: with what commits from its first claim on, or with all that the "
        "table holds. Without effect once the sink has a cursor"},
    {"sinks[]", "max_in_flight",
        "events that are claimed and not settled at the same time; what a crash repeats at most"},
    {"sinks[]", "max_in_flight_bytes",
        "the size of their payloads; one event larger than half of it is taken alone"},
    {"sinks[]", "concurrency",
        "attempts in flight at the same time. `0`: 16 of `http`, 2 of `email` (which may have up "
        "to 16), any number of `redis` and `stdout`, whose limit is `max_in_flight`; a `module` "
        "says it itself"},
    {"sinks[]", "park_after",
        "a delivery that is still under way after so long and holds up others is parked meanwhile"},
    {"sinks[]", "max_parked",
        "with so many deliveries parked (those that only wait for `deliver_at` do not count) "
        "nothing new is read until some are through"},
    {"sinks[]", "max_event_bytes",
        "an event with a larger payload becomes a dead letter without an attempt; `0`: any size"},
    {"sinks[].rate", "per_second", "so many attempts a second, retries included; `0`: any number"},
    {"sinks[].rate", "burst",
        "so many may start at once after a pause; `0`: as many as in a second"},
    {"sinks[].retry", "delays",
        "instead of `first`, `factor` and `max`: the delay after each failed attempt; 1 to 100 of "
        "them"},
    {"sinks[].retry", "attempts",
        "an event is given up after so many failed attempts; `0`: any number. With `delays` the "
        "default is `0`"},
    {"sinks[].retry", "max_age",
        "an event is given up when its delays would add up to more than this; `0`: any. With "
        "`delays` the default is `0`"},
    {"sinks[].redis", "url",
        "`redis://[user[:password]@]host[:port][/db]`, the same with `rediss://` for TLS, or "
        "`unix:///path/to.sock[?db=N]`. Exactly one of `url`, `sentinels` and `cluster` is needed"},
    {"sinks[].redis", "sentinels",
        "`host[:port]` of each Sentinel (port 26379), to be asked for the master; needs `master`"},
    {"sinks[].redis", "sentinel_user", "the ACL user at the sentinels; needs a password"},
    {"sinks[].redis", "sentinel_password", "the password at the sentinels"},
    {"sinks[].redis", "cluster", "`host[:port]` of some nodes of a Redis Cluster (port 6379)"},
    {"sinks[].redis", "tls",
        "with `sentinels` or `cluster`: TLS to all of them; with `url` write `rediss://`"},
    {"sinks[].redis", "cert_file",
        "our own certificate, if Redis asks for one (PEM); needs `key_file`"},
    {"sinks[].redis", "db",
        "the database, with `sentinels`; `url` has its own place for it, and a cluster has only 0"},
    {"sinks[].redis", "user", "the ACL user, if `url` has none; needs a password"},
    {"sinks[].redis", "stream",
        "the stream's key: a fixed text, perhaps followed by `{{topic}}`, `{{type}}` and `{{key}}` "
        "of the event"},
    {"sinks[].redis", "max_streams",
        "so many different streams or channels at most, while the relay runs; 0: any number"},
    {"sinks[].redis", "maxlen", "trim the stream to about so many entries (`MAXLEN ~`); 0: never"},
    {"sinks[].redis", "minid",
        "trim about what is older than this (`MINID ~`); 0: never; not together with `maxlen`"},
    {"sinks[].http", "endpoints",
        "`table`: instead of one `url`, every row of `courier.endpoint` is a receiver, with its "
        "own secrets and headers; then no `secret`, `secrets` or `auth` may stand here"},
    {"sinks[].http", "disable_after",
        "with `endpoints: table`, a receiver that failed for so long, without one success, is "
        "disabled; `0`: none is"},
    {"sinks[].http", "signing",
        "how requests are signed, if there is a secret; see [sinks](sinks.md#signatures)"},
    {"sinks[].http", "secret",
        "what to sign with; without one requests are not signed. `signing: standard` wants "
        "`whsec_` and base64 of 24 to 64 bytes, the others take any text"},
    {"sinks[].http", "secrets",
        "instead of `secret`: up to 10 of them, the newest first; each one signs"},
    {"sinks[].http", "secrets_file",
        "a file that holds `secrets`, one per line; empty lines do not count"},
    {"sinks[].http", "set_headers",
        "headers that every request carries; they replace event headers of the same name"},
    {"sinks[].http", "body", "the form of the request; see [sinks](sinks.md#bodies)"},
    {"sinks[].http", "source", "the `source` attribute of CloudEvents: a URI reference"},
    {"sinks[].http", "batch",
        "several events in one request; `{}` for its defaults; see [sinks](sinks.md#batches)"},
    {"sinks[].http", "on_410",
        "what `410 Gone` means: no more of anything, not this event, or try again"},
    {"sinks[].http", "fresh_connections",
        "a new connection for each request, so that none is ever repeated within one attempt; not "
        "with `http_version: 2`"},
    {"sinks[].http", "proxy",
        "`http://[user:password@]host:port` to go through; what the environment says is never "
        "used"},
    {"sinks[].http", "allow_networks",
        "networks that may be connected to though they are not public, or hold metadata: "
        "`10.0.0.0/8`, `fd12:3456::/32`, `10.1.2.3`; see [addresses](sinks.md#addresses)"},
    {"sinks[].http.set_headers[]", "value", "its value, or `value_file`"},
    {"sinks[].http.auth", "user",
        "the name to log in with (`Authorization: Basic`); without a colon"},
    {"sinks[].http.auth", "bearer", "a token to log in with (`Authorization: Bearer`)"},
    {"sinks[].email", "url", "`smtp://host[:port]` (STARTTLS, see `tls`) or `smtps://host[:port]`"},
    {"sinks[].email", "relays",
        "instead of `url`: mail servers, of which the first that can be reached takes the mail"},
    {"sinks[].email", "user", "the name to log in with; needs a password"},
    {"sinks[].email", "templates",
        "a folder of templates: `NAME.subject`, `NAME.txt` and `NAME.html`; read and checked at "
        "start and by `check`, see [sinks](sinks.md#templates)"},
    {"sinks[].email", "max_attachment_bytes",
        "the size of all attachments of one message; `0`: none. Base64 makes the payload a third "
        "larger than that, and `max_event_bytes` bounds it, too"},
    {"sinks[].email", "tls",
        "`auto`: required, unless the host is `localhost` or a loopback address: there if offered. "
        "`none` is refused together with a password, except for such a host"},
    {"sinks[].email", "on_unknown",
        "no answer came to a mail that was sent: send it again, or make it a dead letter"},
    {"sinks[].email.relays[]", "user", "the name to log in with there; needs a password"},
    {"sinks[].stdout", "payload",
        "print headers and payloads; `false` leaves only each event's name and identity"},
    {"sinks[].module", "file",
        "the module's file name in the folder `relay.modules`, without a path"},
    {"sinks[].module", "options",
        "the module's own options: names of a-z, 0-9, `-` and `_`, each with a single value, in "
        "which variables and files are filled in. The module says which there are, and which are "
        "wrong"},
};

const char *config_note_of(const char *block, const char *key)
{
        for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
                if (strcmp(notes[i].block, block) == 0 && strcmp(notes[i].key, key) == 0)
                        return notes[i].text;
        return NULL;
}

unsigned config_notes_count(void)
{
        return sizeof notes / sizeof *notes;
}
