#include "sinks/http/http_batcher.h"

#include "base/alloc.h"
#include "base/list.h"
#include "loop/timer.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gathered {
        struct list link;
        struct attempt *attempt;
        bool is_alone;
};

struct http_batcher {
        const struct http_batch *limits; /* borrowed */
        http_batch_due_fn *on_due;
        void *owner; /* borrowed */

        struct list gathered; /* gathered::link; those that go alone first */
        size_t n_gathered;
        size_t n_alone;
        uint64_t bytes;
        bool has_lingered;
        struct timer *linger;
};

static void on_lingered(void *owner)
{
        struct http_batcher *batcher = owner;

        batcher->has_lingered = true;
        batcher->on_due(batcher->owner);
}

struct http_batcher *http_batcher_create(
    uv_loop_t *loop, const struct http_batch *limits, http_batch_due_fn *on_due, void *owner)
{
        struct http_batcher *batcher = xcalloc(1, sizeof *batcher);

        batcher->limits = limits;
        batcher->on_due = on_due;
        batcher->owner = owner;
        list_init(&batcher->gathered);
        batcher->linger = timer_create_on(loop, on_lingered, batcher);
        return batcher;
}

void http_batcher_destroy(struct http_batcher *batcher)
{
        if (batcher == NULL)
                return;
        assert(list_is_empty(&batcher->gathered));
        timer_destroy(batcher->linger);
        free(batcher);
}

bool http_batcher_is_due(const struct http_batcher *batcher)
{
        return batcher->n_alone > 0 || batcher->n_gathered >= batcher->limits->events ||
               batcher->bytes >= batcher->limits->bytes ||
               (batcher->has_lingered && batcher->n_gathered > 0);
}

static void linger(struct http_batcher *batcher)
{
        if (!timer_is_armed(batcher->linger))
                timer_arm(batcher->linger, (uint64_t)batcher->limits->linger_ms);
}

static void wait_or_tell(struct http_batcher *batcher)
{
        if (http_batcher_is_due(batcher))
                batcher->on_due(batcher->owner);
        else
                linger(batcher);
}

static struct gathered *gather(struct http_batcher *batcher, struct attempt *attempt, bool is_alone)
{
        struct gathered *gathered = xcalloc(1, sizeof *gathered);

        gathered->attempt = attempt;
        gathered->is_alone = is_alone;
        attempt->sink_data = gathered;
        batcher->n_gathered++;
        batcher->n_alone += is_alone;
        batcher->bytes += attempt->event->payload_bytes;
        return gathered;
}

void http_batcher_add(struct http_batcher *batcher, struct attempt *attempt)
{
        list_push_back(&batcher->gathered, &gather(batcher, attempt, false)->link);
        wait_or_tell(batcher);
}

void http_batcher_add_alone(
    struct http_batcher *batcher, struct attempt *const *attempts, size_t n_attempts)
{
        for (size_t i = n_attempts; i > 0; i--)
                list_push_front(&batcher->gathered, &gather(batcher, attempts[i - 1], true)->link);
        wait_or_tell(batcher);
}

static void release(struct http_batcher *batcher, struct gathered *gathered)
{
        list_remove(&gathered->link);
        batcher->n_gathered--;
        batcher->n_alone -= gathered->is_alone;
        batcher->bytes -= gathered->attempt->event->payload_bytes;
        gathered->attempt->sink_data = NULL;
        free(gathered);
}

size_t http_batcher_take(struct http_batcher *batcher, struct attempt **out_attempts)
{
        uint64_t bytes = 0;
        size_t n = 0;

        list_for_each (link, &batcher->gathered) {
                struct gathered *gathered = list_owner(link, struct gathered, link);
                bool is_alone = gathered->is_alone;

                bytes += gathered->attempt->event->payload_bytes;
                if (n == batcher->limits->events ||
                    (n > 0 && (is_alone || bytes > batcher->limits->bytes)))
                        break;
                out_attempts[n++] = gathered->attempt;
                release(batcher, gathered);
                if (is_alone)
                        break;
        }
        if (batcher->n_gathered == 0) {
                batcher->has_lingered = false;
                timer_disarm(batcher->linger);
        } else if (!http_batcher_is_due(batcher)) {
                linger(batcher); /* it came while others made the batch due, and no timer ran */
        }
        return n;
}

/* A uuid of version 8: RFC 9562 leaves its bits to the application. */
void http_batch_id(const struct event *const *events, size_t n_events, char out_id[static 37])
{
        unsigned char hash[EVP_MAX_MD_SIZE];
        EVP_MD_CTX *context;
        bool is_hashed;

        if (n_events == 1) {
                memcpy(out_id, events[0]->event_id, 37);
                return;
        }
        context = EVP_MD_CTX_new();
        is_hashed = context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL);
        for (size_t i = 0; is_hashed && i < n_events; i++)
                is_hashed = EVP_DigestUpdate(context, events[i]->event_id, 36);
        is_hashed = is_hashed && EVP_DigestFinal_ex(context, hash, NULL);
        EVP_MD_CTX_free(context);
        if (!is_hashed)
                out_of_memory();
        hash[6] = (hash[6] & 0x0f) | 0x80;
        hash[8] = (hash[8] & 0x3f) | 0x80;
        for (size_t i = 0, at = 0; i < 16; i++) {
                if (i == 4 || i == 6 || i == 8 || i == 10)
                        out_id[at++] = '-';
                at += (size_t)snprintf(out_id + at, 37 - at, "%02x", hash[i]);
        }
}
