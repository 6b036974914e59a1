/*
 * The subject that an event goes to. Topic, type and key are the publisher's choice: a subject made
 * of them must never be one that a server acts on ($JS.API.STREAM.DELETE.X) nor one of our own
 * inbox, and never hold a wildcard. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct bytes;
struct error;
struct event;
struct nats_subject;
struct outcome;

enum { NATS_MAX_SUBJECT_BYTES = 1024 };

/* NULL and *error (ERROR_CONFIG) if it is no template, or a fixed subject that is not allowed.
 * `inbox` is borrowed: no event may go there. */
struct nats_subject *nats_subject_create(const char *text, const char *inbox, struct error *error);
void nats_subject_destroy(struct nats_subject *subject); /* NULL is allowed */

/* True if it comes from the event. */
bool nats_subject_is_per_event(const struct nats_subject *subject);

/* True if each event has one of its own ({{id}}). */
bool nats_subject_is_unique(const struct nats_subject *subject);

/* The event's subject, until the next call. NULL and a REJECTED *out_refusal if it has none. */
const struct bytes *nats_subject_of(
    struct nats_subject *subject, const struct event *event, struct outcome *out_refusal);

/* The same for people, cut to `size`, allowed or not. */
void nats_subject_describe(
    const struct nats_subject *subject, const struct event *event, char *text, size_t size);

/* Appends a subject with wildcards that holds all subjects of events; false if no such subject
 * is narrower than all of them. */
bool nats_subject_append_filter(const struct nats_subject *subject, struct bytes *out);

/* NULL, or why no event may go to this subject. */
const char *nats_subject_problem(const char *text, size_t length, const char *inbox);
