#include "sinks/redis/redis_dedup.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/bytes.h"
#include "pgcourier/event.h"
#include "pgcourier/sink.h"
#include "sinks/redis/redis_burst.h"
#include "sinks/redis/redis_command.h"
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

struct ledger_entry {
        int64_t id;
        char event_id[EVENT_ID_SIZE]; /* ids begin anew in a restored database; these do not */
};

struct redis_dedup {
        char *stream_key;
        char *owner_key;
        char *ledger_key;
        uint64_t epoch; /* 0: the lane is not ours */
        char token[64]; /* of this connection: what owner_key must hold */

        void *tree;                   /* of owned entries: delivered, and not known to be settled */
        struct ledger_entry *settled; /* those to be removed from Redis, the oldest first */
        size_t n_settled;
        size_t settled_capacity;
        size_t n_removing; /* so many of them stand in the last command */
};

/* KEYS: owner, ledger. ARGV: epoch, random. A text as the answer means that a later owner was
 * there. Adding and removing a member shows now whether we may, and not in the middle of a
 * burst. */
static const char claim_script[] =
    "local owner = redis.call('GET', KEYS[1])\n"
    "local epoch = owner and string.match(owner, '^(%d+):')\n"
    "if epoch and tonumber(epoch) > tonumber(ARGV[1]) then return owner end\n"
    "redis.call('SET', KEYS[1], ARGV[1] .. ':' .. ARGV[2])\n"
    "redis.call('SADD', KEYS[2], '-')\n"
    "redis.call('SREM', KEYS[2], '-')\n"
    "return redis.call('SMEMBERS', KEYS[2])\n";

/* KEYS: stream, owner, marks. ARGV: token, the number of entries to remove and those, then for
 * each event its entry, the number of words of its command and those. Removing comes last: after
 * a first write Redis would no longer refuse the others for lack of memory. */
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
        const struct ledger_entry *left = a;
        const struct ledger_entry *right = b;

        return (left->id > right->id) - (left->id < right->id);
}

static int compare(const void *a, const void *b)
{
        const struct ledger_entry *left = a;
        const struct ledger_entry *right = b;
        int by_id = compare_ids(a, b);

        return by_id != 0 ? by_id : strcmp(left->event_id, right->event_id);
}

static struct ledger_entry entry_of(const struct event *event)
{
        struct ledger_entry entry = {.id = event->id};

        snprintf(entry.event_id, sizeof entry.event_id, "%s", event->event_id);
        return entry;
}

static void add(struct redis_dedup *dedup, const struct ledger_entry *entry)
{
        struct ledger_entry *kept;

        if (tfind(entry, &dedup->tree, compare) != NULL)
                return;
        kept = xcalloc(1, sizeof *kept);
        *kept = *entry;
        if (tsearch(kept, &dedup->tree, compare) == NULL)
                out_of_memory();
}

static void forget_all(struct redis_dedup *dedup)
{
        tdestroy(dedup->tree, free);
        dedup->tree = NULL;
}

struct redis_dedup *redis_dedup_create(const char *stream, const char *sink)
{
        struct redis_dedup *dedup = xcalloc(1, sizeof *dedup);
        /* A name with a hash tag of its own stays with its tag, another one becomes the tag. */
        bool is_tagged = strchr(stream, '{') != NULL;
        char *slot = is_tagged ? xstrdup(stream) : xasprintf("{%s}", stream);

        dedup->stream_key = xstrdup(stream);
        dedup->owner_key = xasprintf("%s:owner:%s", slot, sink);
        dedup->ledger_key = xasprintf("%s:delivered:%s", slot, sink);
        free(slot);
        return dedup;
}

void redis_dedup_destroy(struct redis_dedup *dedup)
{
        if (dedup == NULL)
                return;
        forget_all(dedup);
        free(dedup->settled);
        free(dedup->stream_key);
        free(dedup->owner_key);
        free(dedup->ledger_key);
        free(dedup);
}

void redis_dedup_own(struct redis_dedup *dedup, uint64_t epoch)
{
        assert(epoch > 0);
        dedup->epoch = epoch;
        dedup->token[0] = '\0';
        forget_all(dedup);
}

bool redis_dedup_is_owned(const struct redis_dedup *dedup)
{
        return dedup->epoch > 0;
}

void redis_dedup_encode_claim(struct redis_dedup *dedup, struct bytes *out)
{
        char number[24];
        char nonce[40];

        snprintf(number, sizeof number, "%" PRIu64, dedup->epoch);
        snprintf(nonce, sizeof nonce, "%08" PRIx32 "%08" PRIx32 "%08" PRIx32 "%08" PRIx32,
            random_u32(), random_u32(), random_u32(), random_u32());
        snprintf(dedup->token, sizeof dedup->token, "%s:%s", number, nonce);
        forget_all(dedup);

        redis_append_count(out, '*', 7);
        REDIS_APPEND_WORD(out, 4, "EVAL");
        redis_append_word(out, claim_script, sizeof claim_script - 1);
        REDIS_APPEND_WORD(out, 1, "2");
        redis_append_text(out, dedup->owner_key);
        redis_append_text(out, dedup->ledger_key);
        redis_append_text(out, number);
        redis_append_text(out, nonce);
}

/* What is not an entry of ours was put there by hand, and means nothing. */
static void take_member(struct redis_dedup *dedup, const redisReply *member)
{
        struct ledger_entry entry = {0};
        int length = 0;

        if (member->type == REDIS_REPLY_STRING &&
            sscanf(member->str, "%" SCNd64 ":%36s%n", &entry.id, entry.event_id, &length) == 2 &&
            (size_t)length == member->len)
                add(dedup, &entry);
}

bool redis_dedup_take_claim(
    struct redis_dedup *dedup, const redisReply *reply, char *refusal, size_t size)
{
        if (reply->type == REDIS_REPLY_STRING) {
                snprintf(refusal, size,
                    "a later owner of this lane writes to the stream (%.20s, ours is %" PRIu64
                    "); if the database was restored or failed over, and no other relay runs, "
                    "delete the key %s",
                    reply->str, dedup->epoch, dedup->owner_key);
                return false;
        }
        for (size_t i = 0; i < reply->elements; i++)
                take_member(dedup, reply->element[i]);
        return true;
}

bool redis_dedup_has(const struct redis_dedup *dedup, const struct event *event)
{
        const struct ledger_entry wanted = entry_of(event);

        return tfind(&wanted, &dedup->tree, compare) != NULL;
}

static void push_settled(struct redis_dedup *dedup, const struct ledger_entry *entry)
{
        if (dedup->n_settled == dedup->settled_capacity) {
                dedup->settled_capacity =
                    dedup->settled_capacity > 0 ? 2 * dedup->settled_capacity : 256;
                dedup->settled =
                    xrealloc(dedup->settled, dedup->settled_capacity * sizeof *dedup->settled);
        }
        dedup->settled[dedup->n_settled++] = *entry;
}

void redis_dedup_settle(struct redis_dedup *dedup, const int64_t *event_ids, size_t n_events)
{
        for (size_t i = 0; i < n_events; i++) {
                const struct ledger_entry wanted = {.id = event_ids[i]};
                struct ledger_entry *const *found;

                while ((found = tfind(&wanted, &dedup->tree, compare_ids)) != NULL) {
                        struct ledger_entry *entry = *found;
                        push_settled(dedup, entry);
                        tdelete(entry, &dedup->tree, compare);
                        free(entry);
                }
        }
}

bool redis_dedup_has_settled(const struct redis_dedup *dedup)
{
        return dedup->n_settled > 0;
}

static void append_entry(struct bytes *out, const struct ledger_entry *entry)
{
        char member[MEMBER_SIZE];

        snprintf(member, sizeof member, "%" PRId64 ":%s", entry->id, entry->event_id);
        redis_append_text(out, member);
}

void redis_dedup_encode_burst(struct redis_dedup *dedup, const struct redis_ring *ring, size_t n,
    struct redis_command *command, struct bytes *out)
{
        size_t n_words = 8;

        dedup->n_removing = dedup->n_settled < MAX_REMOVED ? dedup->n_settled : MAX_REMOVED;
        n_words += dedup->n_removing;
        for (size_t i = 0; i < n; i++)
                n_words +=
                    2 + redis_command_n_words(command, redis_ring_at(ring, i)->attempt->event);

        redis_append_count(out, '*', n_words);
        REDIS_APPEND_WORD(out, 4, "EVAL");
        redis_append_word(out, burst_script, sizeof burst_script - 1);
        REDIS_APPEND_WORD(out, 1, "3");
        redis_append_text(out, dedup->stream_key);
        redis_append_text(out, dedup->owner_key);
        redis_append_text(out, dedup->ledger_key);
        redis_append_text(out, dedup->token);
        redis_append_number(out, dedup->n_removing);
        for (size_t i = 0; i < dedup->n_removing; i++)
                append_entry(out, &dedup->settled[i]);
        for (size_t i = 0; i < n; i++) {
                const struct event *event = redis_ring_at(ring, i)->attempt->event;
                const struct ledger_entry entry = entry_of(event);

                append_entry(out, &entry);
                redis_append_number(out, redis_command_n_words(command, event));
                redis_command_append_words(command, event, out);
        }
}

void redis_dedup_note_executed(struct redis_dedup *dedup)
{
        if (dedup->n_removing == 0)
                return;
        dedup->n_settled -= dedup->n_removing;
        memmove(dedup->settled, dedup->settled + dedup->n_removing,
            dedup->n_settled * sizeof *dedup->settled);
        dedup->n_removing = 0;
}

void redis_dedup_note_delivered(struct redis_dedup *dedup, const struct event *event)
{
        const struct ledger_entry entry = entry_of(event);

        add(dedup, &entry);
}
