#include "sinks/redis/redis_dedup.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/bytes.h"
#include "pgcourier/event.h"
#include "pgcourier/sink.h"
#include "sinks/redis/redis_command.h"
#include "sinks/redis/redis_ring.h"
#include "sinks/redis/resp_write.h"

#include <assert.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        EVENT_ID_SIZE = 37,
        MEMBER_SIZE = EVENT_ID_SIZE + 24,
        MAX_REMOVED = 1000, /* by one command; Lua's stack takes about 8000 */
};

struct mark {
        int64_t id;
        char event_id[EVENT_ID_SIZE]; /* ids begin anew in a restored database; these do not */
};

struct redis_dedup {
        char *stream_key;
        char *owner_key;
        char *marks_key;
        uint64_t epoch; /* 0: the lane is not ours */
        char token[64]; /* of this connection: what owner_key must hold */

        void *tree;           /* of owned marks: delivered, and not known to be settled */
        struct mark *settled; /* those to be removed from Redis, the oldest first */
        size_t n_settled;
        size_t settled_capacity;
        size_t n_removing; /* so many of them stand in the last command */
};

/* KEYS: owner, marks. ARGV: epoch, random. A text as the answer means that a later owner was there.
 * Adding and removing a member shows now whether we may, and not in the middle of a burst. */
static const char claim_script[] =
    "local owner = redis.call('GET', KEYS[1])\n"
    "local epoch = owner and string.match(owner, '^(%d+):')\n"
    "if epoch and tonumber(epoch) > tonumber(ARGV[1]) then return owner end\n"
    "redis.call('SET', KEYS[1], ARGV[1] .. ':' .. ARGV[2])\n"
    "redis.call('SADD', KEYS[2], '-')\n"
    "redis.call('SREM', KEYS[2], '-')\n"
    "return redis.call('SMEMBERS', KEYS[2])\n";

/* KEYS: stream, owner, marks. ARGV: token, the number of marks to remove and those, then for each event
 * its mark, the number of words of its command and those. Removing comes last: after a first write
 * Redis would no longer refuse the others for lack of memory. */
static const char burst_script[] =
    "if redis.call('GET', KEYS[2]) ~= ARGV[1] then return false end\n"
    "redis.call('SCARD', KEYS[3])\n"
    "local n_removed = tonumber(ARGV[2])\n"
    "local at = 3 + n_removed\n"
    "local replies = {}\n"
    "while ARGV[at] do\n"
    "  local n = tonumber(ARGV[at + 1])\n"
    "  local reply = redis.pcall(unpack(ARGV, at + 2, at + 1 + n))\n"
    "  replies[#replies + 1] = reply\n"
    "  if type(reply) == 'table' and reply.err then break end\n"
    "  redis.call('SADD', KEYS[3], ARGV[at])\n"
    "  at = at + 2 + n\n"
    "end\n"
    "if n_removed > 0 then redis.call('SREM', KEYS[3], unpack(ARGV, 3, 2 + n_removed)) end\n"
    "return replies\n";

static int compare_ids(const void *a, const void *b)
{
        const struct mark *left = a;
        const struct mark *right = b;

        return (left->id > right->id) - (left->id < right->id);
}

static int compare(const void *a, const void *b)
{
        const struct mark *left = a;
        const struct mark *right = b;
        int by_id = compare_ids(a, b);

        return by_id != 0 ? by_id : strcmp(left->event_id, right->event_id);
}

static struct mark mark_of(const struct event *event)
{
        struct mark mark = {.id = event->id};

        snprintf(mark.event_id, sizeof mark.event_id, "%s", event->event_id);
        return mark;
}

static void add(struct redis_dedup *marks, const struct mark *mark)
{
        struct mark *kept;

        if (tfind(mark, &marks->tree, compare) != NULL)
                return;
        kept = xcalloc(1, sizeof *kept);
        *kept = *mark;
        if (tsearch(kept, &marks->tree, compare) == NULL)
                out_of_memory();
}

static void forget_all(struct redis_dedup *marks)
{
        tdestroy(marks->tree, free);
        marks->tree = NULL;
}

struct redis_dedup *redis_dedup_create(const char *stream, const char *sink)
{
        struct redis_dedup *marks = xcalloc(1, sizeof *marks);
        /* A name with a hash tag of its own stays with its tag, another one becomes the tag. */
        bool is_tagged = strchr(stream, '{') != NULL;
        char *slot = is_tagged ? xstrdup(stream) : xasprintf("{%s}", stream);

        marks->stream_key = xstrdup(stream);
        marks->owner_key = xasprintf("%s:owner:%s", slot, sink);
        marks->marks_key = xasprintf("%s:delivered:%s", slot, sink);
        free(slot);
        return marks;
}

void redis_dedup_destroy(struct redis_dedup *marks)
{
        if (marks == NULL)
                return;
        forget_all(marks);
        free(marks->settled);
        free(marks->stream_key);
        free(marks->owner_key);
        free(marks->marks_key);
        free(marks);
}

void redis_dedup_own(struct redis_dedup *marks, uint64_t epoch)
{
        assert(epoch > 0);
        marks->epoch = epoch;
        marks->token[0] = '\0';
        forget_all(marks);
}

bool redis_dedup_is_owned(const struct redis_dedup *marks)
{
        return marks->epoch > 0;
}

void redis_dedup_encode_claim(struct redis_dedup *marks, struct bytes *out)
{
        char number[24];
        char nonce[40];

        snprintf(number, sizeof number, "%" PRIu64, marks->epoch);
        snprintf(nonce, sizeof nonce, "%08" PRIx32 "%08" PRIx32 "%08" PRIx32 "%08" PRIx32,
            random_u32(), random_u32(), random_u32(), random_u32());
        snprintf(marks->token, sizeof marks->token, "%s:%s", number, nonce);
        forget_all(marks);

        redis_append_count(out, '*', 7);
        REDIS_APPEND_WORD(out, 4, "EVAL");
        redis_append_word(out, claim_script, sizeof claim_script - 1);
        REDIS_APPEND_WORD(out, 1, "2");
        redis_append_text(out, marks->owner_key);
        redis_append_text(out, marks->marks_key);
        redis_append_text(out, number);
        redis_append_text(out, nonce);
}

/* What is not a mark of ours was put there by hand, and means nothing. */
static void take_member(struct redis_dedup *marks, const redisReply *member)
{
        struct mark mark = {0};
        int length = 0;

        if (member->type == REDIS_REPLY_STRING &&
            sscanf(member->str, "%" SCNd64 ":%36s%n", &mark.id, mark.event_id, &length) == 2 &&
            (size_t)length == member->len)
                add(marks, &mark);
}

bool redis_dedup_take_claim(
    struct redis_dedup *marks, const redisReply *reply, char *refusal, size_t size)
{
        if (reply->type == REDIS_REPLY_STRING) {
                snprintf(refusal, size,
                    "a later owner of this lane writes to the stream (%.20s, ours is %" PRIu64
                    "); if the database was restored and there is none, delete the key %s",
                    reply->str, marks->epoch, marks->owner_key);
                return false;
        }
        for (size_t i = 0; i < reply->elements; i++)
                take_member(marks, reply->element[i]);
        return true;
}

bool redis_dedup_has(const struct redis_dedup *marks, const struct event *event)
{
        const struct mark wanted = mark_of(event);

        return tfind(&wanted, &marks->tree, compare) != NULL;
}

static void push_settled(struct redis_dedup *marks, const struct mark *mark)
{
        if (marks->n_settled == marks->settled_capacity) {
                marks->settled_capacity =
                    marks->settled_capacity > 0 ? 2 * marks->settled_capacity : 256;
                marks->settled =
                    xrealloc(marks->settled, marks->settled_capacity * sizeof *marks->settled);
        }
        marks->settled[marks->n_settled++] = *mark;
}

void redis_dedup_settle(struct redis_dedup *marks, const int64_t *event_ids, size_t n_events)
{
        for (size_t i = 0; i < n_events; i++) {
                const struct mark wanted = {.id = event_ids[i]};
                struct mark *const *found;

                while ((found = tfind(&wanted, &marks->tree, compare_ids)) != NULL) {
                        struct mark *mark = *found;
                        push_settled(marks, mark);
                        tdelete(mark, &marks->tree, compare);
                        free(mark);
                }
        }
}

bool redis_dedup_has_settled(const struct redis_dedup *marks)
{
        return marks->n_settled > 0;
}

static void append_mark(struct bytes *out, const struct mark *mark)
{
        char member[MEMBER_SIZE];

        snprintf(member, sizeof member, "%" PRId64 ":%s", mark->id, mark->event_id);
        redis_append_text(out, member);
}

void redis_dedup_encode_burst(struct redis_dedup *marks, const struct redis_ring *ring, size_t n,
    struct redis_command *command, struct bytes *out)
{
        size_t n_words = 8;

        marks->n_removing = marks->n_settled < MAX_REMOVED ? marks->n_settled : MAX_REMOVED;
        n_words += marks->n_removing;
        for (size_t i = 0; i < n; i++)
                n_words +=
                    2 + redis_command_n_words(command, redis_ring_at(ring, i)->attempt->event);

        redis_append_count(out, '*', n_words);
        REDIS_APPEND_WORD(out, 4, "EVAL");
        redis_append_word(out, burst_script, sizeof burst_script - 1);
        REDIS_APPEND_WORD(out, 1, "3");
        redis_append_text(out, marks->stream_key);
        redis_append_text(out, marks->owner_key);
        redis_append_text(out, marks->marks_key);
        redis_append_text(out, marks->token);
        redis_append_number(out, marks->n_removing);
        for (size_t i = 0; i < marks->n_removing; i++)
                append_mark(out, &marks->settled[i]);
        for (size_t i = 0; i < n; i++) {
                const struct event *event = redis_ring_at(ring, i)->attempt->event;
                const struct mark mark = mark_of(event);

                append_mark(out, &mark);
                redis_append_number(out, redis_command_n_words(command, event));
                redis_command_append_words(command, event, out);
        }
}

void redis_dedup_note_executed(struct redis_dedup *marks)
{
        if (marks->n_removing == 0)
                return;
        marks->n_settled -= marks->n_removing;
        memmove(marks->settled, marks->settled + marks->n_removing,
            marks->n_settled * sizeof *marks->settled);
        marks->n_removing = 0;
}

void redis_dedup_note_delivered(struct redis_dedup *marks, const struct event *event)
{
        const struct mark mark = mark_of(event);

        add(marks, &mark);
}
