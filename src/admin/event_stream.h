/* Server-sent events: the status document once a second, deliveries as they happen. */
#pragma once

struct admin;
struct event_streams;

struct event_streams *event_streams_create(struct admin *admin);

/* After the listener has been destroyed: no stream ends any more. NULL is allowed. */
void event_streams_destroy(struct event_streams *streams);
