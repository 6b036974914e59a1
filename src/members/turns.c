#include "members/turns.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "members/placement.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum shard_state { ELSEWHERE, CLAIMING, OURS, GIVING, GIVEN };

struct shard {
        size_t sink; /* in the view */
        uint32_t number;
        enum shard_state state;
        bool is_known;           /* a view has come since our last answer */
        int64_t free_since_ms;   /* as the views show it; -1: somebody has it */
        int64_t wanted_since_ms; /* since then the same member should take it */
};

/* What is known of a member beyond the view. */
struct acquaintance {
        int64_t seen_ms, ready_ms;
        int64_t late_ms; /* until then it is given nothing, because it was late */
        unsigned n_late; /* since it last took a shard of late_sink */
        size_t late_sink;
};

struct departure {
        uint64_t name_hash;
        int64_t at_ms;
};

struct turns {
        char *name;
        struct view view; /* owned; without members: none was seen in this session */
        int self;         /* our member in it, or NOBODY */
        struct shard *shards;
        struct acquaintance *acquaintances;                /* of each member in the view */
        struct departure departures[TURNS_MAX_DEPARTURES]; /* a ring */
        size_t n_departures;
        int64_t calm_since_ms; /* the last change among those that are ready */

        bool is_decided;      /* the two below fit the view */
        int *live;            /* who should own each shard; kept until the next decision */
        int *settled;         /* the same without those that are not ready; may be `live` */
        int64_t unsettled_ms; /* until then `settled` is right; -1: for good */

        size_t n_ours, n_under_way;
        size_t at; /* the shard to look at next */
};

struct turns *turns_create(const char *name)
{
        struct turns *turns = xcalloc(1, sizeof *turns);

        turns->name = xstrdup(name);
        turns->self = NOBODY;
        return turns;
}

static void forget_decision(struct turns *turns)
{
        if (turns->settled != turns->live)
                free(turns->settled);
        free(turns->live);
        turns->live = turns->settled = NULL;
        turns->is_decided = false;
}

static void forget_view(struct turns *turns)
{
        forget_decision(turns);
        view_deinit(&turns->view);
        free(turns->shards);
        free(turns->acquaintances);
        turns->shards = NULL;
        turns->acquaintances = NULL;
        turns->self = NOBODY;
        turns->at = 0;
}

void turns_destroy(struct turns *turns)
{
        if (turns == NULL)
                return;
        forget_view(turns);
        free(turns->name);
        free(turns);
}

void turns_lose(struct turns *turns)
{
        forget_view(turns);
        turns->n_ours = turns->n_under_way = 0;
}

size_t turns_owned(const struct turns *turns)
{
        return turns->n_ours;
}

/* ---- states ---------------------------------------------------------------------------------- */

static bool is_ours(enum shard_state state)
{
        return state == OURS || state == GIVING;
}

static bool is_under_way(enum shard_state state)
{
        return state == GIVING || state == GIVEN;
}

/* The only function that assigns a shard's state. */
static void enter(struct turns *turns, struct shard *shard, enum shard_state next)
{
        turns->n_ours += is_ours(next);
        turns->n_ours -= is_ours(shard->state);
        turns->n_under_way += is_under_way(next);
        turns->n_under_way -= is_under_way(shard->state);
        shard->state = next;
}

static struct shard *find_shard(const struct turns *turns, const char *sink, uint32_t number)
{
        int at = view_find_sink(&turns->view, sink);

        if (at < 0 || number >= turns->view.sinks[at].n_shards)
                return NULL;
        return &turns->shards[view_first_shard(&turns->view, (size_t)at) + number];
}

void turns_claimed(struct turns *turns, const char *sink, uint32_t number, bool is_granted)
{
        struct shard *shard = find_shard(turns, sink, number);

        if (shard == NULL || shard->state != CLAIMING)
                return;
        shard->is_known = false;
        enter(turns, shard, is_granted ? OURS : ELSEWHERE);
}

void turns_given(struct turns *turns, const char *sink, uint32_t number)
{
        struct shard *shard = find_shard(turns, sink, number);

        if (shard == NULL)
                return;
        assert(shard->state == GIVING);
        shard->is_known = false;
        enter(turns, shard, GIVEN);
}

void turns_lost(struct turns *turns, const char *sink, uint32_t number)
{
        struct shard *shard = find_shard(turns, sink, number);

        if (shard == NULL || shard->state == ELSEWHERE || shard->state == GIVEN)
                return;
        shard->is_known = false;
        enter(turns, shard, shard->state == GIVING ? GIVEN : ELSEWHERE);
}

bool turns_is_ours(const struct turns *turns, const char *sink, uint32_t number)
{
        const struct shard *shard = find_shard(turns, sink, number);

        return shard != NULL && shard->state == OURS;
}

static bool is_another_there(const struct turns *turns)
{
        for (size_t i = 0; i < turns->view.n_members; i++)
                if ((int)i != turns->self && !turns->view.members[i].is_draining)
                        return true;
        return false;
}

bool turns_has_left(const struct turns *turns)
{
        return turns->n_ours == 0 || turns->self == NOBODY || !is_another_there(turns);
}

/* ---- members --------------------------------------------------------------------------------- */

static void note_departure(struct turns *turns, const char *name, int64_t now_ms)
{
        turns->departures[turns->n_departures++ % TURNS_MAX_DEPARTURES] =
            (struct departure){hash_text(name), now_ms};
}

/* How long a member that comes is watched. */
static int64_t watch_ms(const struct turns *turns, const char *name, int64_t now_ms)
{
        size_t n =
            turns->n_departures < TURNS_MAX_DEPARTURES ? turns->n_departures : TURNS_MAX_DEPARTURES;
        int64_t for_ms = TURNS_READY_MS;

        for (size_t i = 0; i < n && for_ms < TURNS_READY_MAX_MS; i++)
                if (turns->departures[i].name_hash == hash_text(name) &&
                    now_ms - turns->departures[i].at_ms < TURNS_LEFT_MS)
                        for_ms *= 2;
        return for_ms;
}

static bool is_ready(const struct turns *turns, size_t member, int64_t now_ms)
{
        return (int)member == turns->self || turns->acquaintances[member].ready_ms <= now_ms;
}

/* ---- views ----------------------------------------------------------------------------------- */

static bool is_same_member(
    const struct turns *turns, const struct view *next, size_t before, size_t now)
{
        const struct member *a = &turns->view.members[before], *b = &next->members[now];

        return a->weight == b->weight && a->is_draining == b->is_draining &&
               memcmp(&turns->view.serves[before * next->n_sinks],
                   &next->serves[now * next->n_sinks], next->n_sinks) == 0;
}

static bool has_same_sinks(const struct view *a, const struct view *b)
{
        if (a->n_sinks != b->n_sinks)
                return false;
        for (size_t i = 0; i < a->n_sinks; i++)
                if (a->sinks[i].n_shards != b->sinks[i].n_shards ||
                    strcmp(a->sinks[i].name, b->sinks[i].name) != 0)
                        return false;
        return true;
}

static void take_member(
    struct turns *turns, struct acquaintance *now, const struct view *next, size_t before)
{
        int late_sink;

        *now = turns->acquaintances[before];
        if (now->n_late == 0)
                return;
        late_sink = view_find_sink(next, turns->view.sinks[now->late_sink].name);
        if (late_sink < 0)
                now->n_late = 0;
        else
                now->late_sink = (size_t)late_sink;
}

/* Fills out_now_at[before]: where each member of the view before is in the next one. Returns false
 * if all is as before. */
static bool take_members(
    struct turns *turns, const struct view *next, int *out_now_at, int64_t now_ms)
{
        struct acquaintance *acquaintances = xcalloc(next->n_members + 1, sizeof *acquaintances);
        bool is_first = turns->view.n_members == 0, is_same = has_same_sinks(&turns->view, next);
        bool is_changed = !is_same, is_calm = is_same;

        for (size_t m = 0; m < next->n_members; m++) {
                const char *name = next->members[m].name;
                int before = view_find_member(&turns->view, name);
                int64_t for_ms = is_first ? 0 : watch_ms(turns, name, now_ms);

                is_changed |= before < 0;
                if (before >= 0)
                        take_member(turns, &acquaintances[m], next, (size_t)before);
                else
                        acquaintances[m] =
                            (struct acquaintance){.seen_ms = now_ms, .ready_ms = now_ms + for_ms};
        }
        for (size_t m = 0; m < turns->view.n_members; m++) {
                out_now_at[m] = view_find_member(next, turns->view.members[m].name);
                if (out_now_at[m] < 0)
                        note_departure(turns, turns->view.members[m].name, now_ms);
                else if (is_same && is_same_member(turns, next, m, (size_t)out_now_at[m]))
                        continue;
                is_changed = true;
                if (is_ready(turns, m, now_ms))
                        is_calm = false;
        }
        if (is_first || !is_calm)
                turns->calm_since_ms = now_ms;
        free(turns->acquaintances);
        turns->acquaintances = acquaintances;
        return is_changed;
}

static int renumbered(int member, const int *now_at)
{
        return member < 0 ? member : now_at[member] < 0 ? STRANGER : now_at[member];
}

/* In terms of the next view, what is known of the shards of one sink. */
static void carry_sink(struct turns *turns, size_t before, const int *now_at, struct shard *shards,
    int *owners, int *live, uint32_t n_shards)
{
        size_t first = view_first_shard(&turns->view, before);

        for (uint32_t i = 0; i < n_shards && i < turns->view.sinks[before].n_shards; i++) {
                struct shard *shard = &turns->shards[first + i];

                shards[i].state = shard->state;
                shards[i].is_known = shard->is_known;
                shards[i].free_since_ms = shard->free_since_ms;
                shards[i].wanted_since_ms = shard->wanted_since_ms;
                shard->state = ELSEWHERE;
                owners[i] = renumbered(turns->view.owners[first + i], now_at);
                if (turns->live != NULL)
                        live[i] = renumbered(turns->live[first + i], now_at);
        }
}

/* Replaces what is known by the same in terms of the next view, which has other members or sinks.
 * Shards that it does not list are forgotten. */
static void carry_over(struct turns *turns, const struct view *next, const int *now_at)
{
        struct shard *shards = xcalloc(next->n_shards + 1, sizeof *shards);
        int *owners = xcalloc(next->n_shards + 1, sizeof *owners);
        int *live = xcalloc(next->n_shards + 1, sizeof *live);
        size_t n = 0;

        for (size_t sink = 0; sink < next->n_sinks; sink++) {
                int before = view_find_sink(&turns->view, next->sinks[sink].name);
                size_t first = n;

                for (uint32_t i = 0; i < next->sinks[sink].n_shards; i++, n++) {
                        shards[n] = (struct shard){.sink = sink, .number = i, .free_since_ms = -1};
                        owners[n] = live[n] = STRANGER;
                }
                if (before >= 0)
                        carry_sink(turns, (size_t)before, now_at, &shards[first], &owners[first],
                            &live[first], next->sinks[sink].n_shards);
        }
        for (size_t i = 0; i < turns->view.n_shards; i++)
                if (is_ours(turns->shards[i].state) || is_under_way(turns->shards[i].state))
                        enter(turns, &turns->shards[i], ELSEWHERE);
        forget_decision(turns);
        free(turns->shards);
        free(turns->view.owners);
        turns->shards = shards;
        turns->view.owners = owners;
        turns->live = turns->settled = live;
        turns->at = 0;
}

static void see_owner(struct turns *turns, size_t number, int before, int owner, int64_t now_ms)
{
        struct shard *shard = &turns->shards[number];
        int wanted = turns->live == NULL ? STRANGER : turns->live[number];

        shard->is_known = true;
        if (owner != NOBODY)
                shard->free_since_ms = -1;
        else if (shard->free_since_ms < 0)
                shard->free_since_ms = shard->wanted_since_ms = now_ms;
        if (shard->state == GIVEN && owner != NOBODY && owner != turns->self)
                enter(turns, shard, ELSEWHERE);
        if (owner == before)
                return;
        if (owner >= 0 && turns->acquaintances[owner].late_sink == shard->sink)
                turns->acquaintances[owner].n_late = 0;
        /* On the way to where it should be; the decision would be the same (placement.h). */
        if (owner != wanted && (owner != NOBODY || before == wanted))
                turns->is_decided = false;
}

void turns_see(struct turns *turns, const struct view *view, int64_t now_ms)
{
        struct view next, before;
        int *now_at;

        view_copy(&next, view);
        now_at = xcalloc(turns->view.n_members + 1, sizeof *now_at);
        if (take_members(turns, &next, now_at, now_ms))
                carry_over(turns, &next, now_at);
        free(now_at);
        before = turns->view;
        turns->view = next;
        turns->self = view_find_member(&next, turns->name);
        for (size_t i = 0; i < next.n_shards; i++)
                see_owner(turns, i, before.owners[i], next.owners[i], now_ms);
        view_deinit(&before);
}

/* ---- decisions ------------------------------------------------------------------------------- */

static void decide_settled(struct turns *turns, int64_t now_ms)
{
        bool *is_counted = xcalloc(turns->view.n_members, sizeof *is_counted);

        turns->settled = turns->live;
        turns->unsettled_ms = -1;
        for (size_t m = 0; m < turns->view.n_members; m++) {
                int64_t ready_ms = turns->acquaintances[m].ready_ms;

                is_counted[m] = is_ready(turns, m, now_ms);
                if (!is_counted[m] && (turns->unsettled_ms < 0 || ready_ms < turns->unsettled_ms))
                        turns->unsettled_ms = ready_ms;
        }
        if (turns->unsettled_ms >= 0) {
                turns->settled = xcalloc(turns->view.n_shards + 1, sizeof(int));
                placement_decide(&turns->view, is_counted, turns->settled);
        }
        free(is_counted);
}

static void decide(struct turns *turns, int64_t now_ms)
{
        int *live;

        if (turns->is_decided && (turns->unsettled_ms < 0 || now_ms < turns->unsettled_ms))
                return;
        live = xcalloc(turns->view.n_shards + 1, sizeof *live);
        placement_decide(&turns->view, NULL, live);
        for (size_t i = 0; i < turns->view.n_shards; i++)
                if (turns->live == NULL || turns->live[i] != live[i])
                        turns->shards[i].wanted_since_ms = now_ms;
        forget_decision(turns);
        turns->live = live;
        decide_settled(turns, now_ms);
        turns->is_decided = true;
}

static void note_late(struct turns *turns, int member, size_t sink, int64_t now_ms)
{
        struct acquaintance *late = &turns->acquaintances[member];
        int64_t pause_ms = TURNS_LATE_PAUSE_MS;

        if (now_ms < late->late_ms)
                return;
        for (unsigned i = 0; i < late->n_late && pause_ms < TURNS_LATE_MAX_MS; i++)
                pause_ms *= 2;
        late->n_late++;
        late->late_ms = now_ms + pause_ms;
        late->late_sink = sink;
}

/* Nobody has it, although another member should take it. Is it for us now? */
static bool is_left_to_us(struct turns *turns, size_t number, int64_t now_ms)
{
        struct shard *shard = &turns->shards[number];
        int64_t for_ms = now_ms - shard->free_since_ms;

        if (for_ms < TURNS_LATE_MS)
                return false;
        if (now_ms - shard->wanted_since_ms >= TURNS_LATE_MS)
                note_late(turns, turns->live[number], shard->sink, now_ms);
        if (shard->state == GIVEN)
                enter(turns, shard, ELSEWHERE);
        return for_ms / TURNS_LATE_MS > placement_rank(&turns->view, shard->sink, shard->number,
                                            turns->self, turns->live[number]);
}

static bool wants_claim(struct turns *turns, size_t number, int64_t now_ms)
{
        const struct shard *shard = &turns->shards[number];

        if (shard->state != ELSEWHERE && shard->state != GIVEN)
                return false;
        if (!shard->is_known || shard->free_since_ms < 0 ||
            !view_serves(&turns->view, (size_t)turns->self, shard->sink))
                return false;
        return turns->live[number] == turns->self || is_left_to_us(turns, number, now_ms);
}

static bool is_giving_to(const struct turns *turns, int member)
{
        for (size_t i = 0; i < turns->view.n_shards; i++)
                if (is_under_way(turns->shards[i].state) && turns->live[i] == member)
                        return true;
        return false;
}

static bool may_give_to(const struct turns *turns, int member, int64_t now_ms)
{
        const struct acquaintance *taker = &turns->acquaintances[member];

        if (now_ms - taker->seen_ms < TURNS_READY_MS || now_ms < taker->late_ms)
                return false;
        return taker->n_late == 0 || !is_giving_to(turns, member);
}

static bool wants_give(const struct turns *turns, size_t number, int64_t now_ms)
{
        int to = turns->live[number];
        size_t most = turns->n_ours / TURNS_GIVES_PART;

        if (turns->shards[number].state != OURS || turns->view.owners[number] != turns->self)
                return false;
        if (to < 0 || to == turns->self ||
            turns->n_under_way >= (most > TURNS_GIVES ? most : TURNS_GIVES))
                return false;
        if (!turns->view.members[turns->self].is_draining &&
            (turns->settled[number] != to || now_ms - turns->calm_since_ms < TURNS_READY_MS))
                return false;
        return may_give_to(turns, to, now_ms);
}

static enum turn_kind turn_of(struct turns *turns, size_t number, int64_t now_ms)
{
        if (wants_claim(turns, number, now_ms)) {
                enter(turns, &turns->shards[number], CLAIMING);
                return TURN_CLAIM;
        }
        if (wants_give(turns, number, now_ms)) {
                enter(turns, &turns->shards[number], GIVING);
                return TURN_GIVE;
        }
        return TURN_NOTHING;
}

enum turn_kind turns_next(struct turns *turns, int64_t now_ms, struct turn *out_turn)
{
        *out_turn = (struct turn){.kind = TURN_NOTHING};
        if (turns->self == NOBODY)
                return TURN_NOTHING;
        decide(turns, now_ms);
        for (size_t i = 0; i < turns->view.n_shards && out_turn->kind == TURN_NOTHING; i++) {
                const struct shard *shard = &turns->shards[turns->at];

                out_turn->kind = turn_of(turns, turns->at, now_ms);
                out_turn->sink = turns->view.sinks[shard->sink].name;
                out_turn->number = shard->number;
                if (out_turn->kind == TURN_GIVE)
                        out_turn->to = turns->view.members[turns->live[turns->at]].name;
                turns->at = (turns->at + 1) % turns->view.n_shards;
        }
        return out_turn->kind;
}
