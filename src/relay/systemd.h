/*
 * The relay as a service of systemd: says when it is ready, reloads and stops,
 * gives signs of life from the loop's own timer, so that a loop that hangs
 * gives none, and one line of words for `systemctl status`.
 *
 * Where no service manager listens all of this does nothing.
 */
#pragma once

#include <uv.h>

struct bytes;
struct service;

/* Appends what the relay is doing now, in words, for one line. */
typedef void service_words_fn(void *owner, struct bytes *out_words);

struct service *service_create(uv_loop_t *loop, service_words_fn *words, void *owner);
void service_destroy(struct service *service);

/* Not ready yet, or not any more, because of this. Borrowed for the call. */
void service_waiting(struct service *service, const char *reason);

/* Connected, and all is checked. May be said again. */
void service_ready(struct service *service);

/* The configuration is being loaded again; and that is over, well or not. Nothing before it is ready. */
void service_reloading(struct service *service);
void service_reloaded(struct service *service);

void service_stopping(struct service *service);
