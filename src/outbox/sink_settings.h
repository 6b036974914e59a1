/*
 * What of a sink's settings decides where its events go and which, in words: so
 * that two relays can find out whether they would do the same. No secrets: a
 * query of a URL, which may hold one, is only told apart.
 */
#pragma once

struct bytes;
struct sink_config;

/* A JSON object of texts: {"destination": "redis://127.0.0.1:6379/0, stream events", "topics":
 * "**", "order": "key"}, and types, headers, filter where there are any. The caller's to free. */
char *sink_settings(const struct sink_config *config);

/* A list of its patterns as an array of PostgreSQL's, for courier.mark(), which has to know what a
 * sink takes. The caller's to free. */
char *sink_patterns(char *const *patterns, unsigned n_patterns);

/* Appends what is different: "destination: A there, B here; topics: …". Nothing if it is the same,
 * or if nothing is known of the others (an empty object). */
void sink_settings_compare(struct bytes *out_words, const char *ours, const char *theirs);
