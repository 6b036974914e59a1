/*
 * The outbox as the relay sees it: lanes to own, pages to read, cursors to
 * settle. One connection (`work`) carries it all; a lane belongs to the
 * session that holds its advisory lock, and the same session writes its
 * cursor, so a relay that lost its connection cannot settle.
 *
 * Answers come from the loop, in the order of the calls, and not at all once
 * the session is lost: on_down then stands for everything outstanding.
 */
#pragma once

#include "base/error.h"
#include "config/config.h"
#include "outbox/attempt_log.h"
#include "outbox/cursor.h"
#include "outbox/page.h"
#include "outbox/parked.h"
#include "outbox/pause.h"
#include "outbox/settlement.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct outbox;
struct lane_store;
struct filter_queue;
struct routing;
struct view;

struct outbox_events {
        void (*on_up)(void *owner); /* a session that may be used */
        /* Borrowed. Comes once before each on_up, so that nothing paused ever starts, and answers
         * outbox_read_pauses(). May be NULL. */
        void (*on_pauses)(void *owner, const struct pause_list *pauses);
        /* After each on_pauses: whether some attachment has marks. May be NULL. */
        void (*on_marks)(void *owner, bool has_marks);
        /* After each on_pauses, for each sink that is to be divided anew: its lanes are to be given
         * back. May be NULL. */
        void (*on_division)(void *owner, const char *sink);
        /* Members or shards have changed hands. Only heard if outbox_listen() was called. May be
         * NULL. */
        void (*on_members_news)(void *owner);
        /* Borrowed; NULL: as before. */
        void (*on_members)(void *owner, const struct view *view);
        void (*on_down)(void *owner, const struct error *error, int64_t retry_ms);
        /* The session is closed for good: waiting does not help (schema, cluster). */
        void (*on_refused)(void *owner, const struct error *error);
        /* Pauses, parked rows, schedules or receivers were changed by hand. Only heard if
         * outbox_listen() was called. May be NULL. */
        void (*on_control)(void *owner);
        /* Answers outbox_tick(): until the next tick of a schedule; 0: at once, -1: none. */
        void (*on_tick)(void *owner, int64_t next_ms);
        /* Filters cannot be asked, or can be again; the queue goes on by itself. */
        void (*on_filters_down)(void *owner, const struct error *error, int64_t retry_ms);
        void (*on_filters_up)(void *owner);
        /* So many attempts are missing in courier.attempt, for this reason. May be NULL. */
        void (*on_attempts_lost)(void *owner, uint64_t n_attempts, const char *words);
        /* Answers outbox_check_filter(): why not, in words, or NULL. */
        void (*on_filter_checked)(void *owner, const char *words);
};

struct outbox *outbox_create(uv_loop_t *loop, const struct postgres_config *config,
    const struct outbox_events *events, void *owner);

/* The relays of a database know each other (courier.member). */
struct membership {
        const char
            *name; /* what the relay is to be called; another of that name is called name/2 */
        const char *host;   /* where it runs */
        uint32_t weight;    /* its share of the shards */
        const char *shards; /* the sinks that it serves, each with its number of shards: JSON */
};

/* Every session is to join from now on, and the one at hand, if it is up, tells what has changed.
 * The texts are copied. */
void outbox_join(struct outbox *outbox, const struct membership *membership);

/* Its name as a member; empty: it is none, or not yet. */
const char *outbox_member(const struct outbox *outbox);

/* The others are to take its shards, because it ends. */
void outbox_leave(struct outbox *outbox);

/* Who is there, and who has which shard; the second asks less while that is as before. Both are
 * answered by on_members. */
void outbox_read_members(struct outbox *outbox);
void outbox_look_at_members(struct outbox *outbox);

/* Is there anything new? */
struct outbox_news {
        /* A writer has rung: there may be. */
        void (*on_rung)(void *owner);
        /* A lane polls (asks for what is beyond all that it has read), and none did before; and all
         * polls have been answered. `n_news`: the most events that one of them found, those for
         * other sinks included; `n_ours`: the most that are for its own. */
        void (*on_polling)(void *owner);
        void (*on_polled)(void *owner, uint64_t n_news, uint64_t n_ours);
};

/* Before outbox_open(): every session is to LISTEN; `news` NULL: or not any more. */
void outbox_listen(struct outbox *outbox, const struct outbox_news *news, void *owner);
void outbox_open(struct outbox *outbox);

/* From the next connection on. */
void outbox_configure(struct outbox *outbox, const struct postgres_config *config);

bool outbox_is_up(const struct outbox *outbox);

/* What tells the session's server from any other; NULL while there is no session. */
const char *outbox_server(const struct outbox *outbox);

/* What filters are asked through, in this session as long as it lasts. */
struct filter_queue *outbox_filter_queue(struct outbox *outbox);

/* Does PostgreSQL take the text for a jsonpath predicate? Answered by on_filter_checked. */
void outbox_check_filter(struct outbox *outbox, const char *filter);

/* Publishes the events of all schedules that are due; answered by on_tick. */
void outbox_tick(struct outbox *outbox);

/* Gives up all lanes; no answer and no event comes any more. */
void outbox_close(struct outbox *outbox);
void outbox_destroy(struct outbox *outbox); /* NULL is allowed */

/* Answered by on_pauses. */
void outbox_read_pauses(struct outbox *outbox);

/* The relay's own pause of a sink, as opposed to an operator's. Writing one again changes its
 * reason, and nothing at all if that is the same. Not answered; each makes on_control ring, here
 * and in every other relay. */
void outbox_write_pause(struct outbox *outbox, const char *sink, const char *reason);
void outbox_remove_pause(struct outbox *outbox, const char *sink);

/*
 * Before any lane of a sink is claimed, its relays agree on its number of shards
 * (courier.agree_shards()). Embedded in the object that asks, which stays until the answer comes or
 * the session is lost.
 */
enum agreement_verdict {
        AGREEMENT_READY,    /* the lanes may be claimed */
        AGREEMENT_CHANGING, /* some relay has not given its lanes back yet: ask again */
        AGREEMENT_OLDER,    /* another relay's configuration is newer: ask again, later */
};

struct agreement {
        struct outbox *outbox; /* borrowed, as the next two */
        const char *sink;
        const char
            *filter;       /* refused with the session if PostgreSQL does not take it; NULL: none */
        uint32_t n_shards; /* in our configuration */
        bool fans_out;
        enum start start;          /* where a new sink begins */
        const char *settings_here; /* sink_settings() */
        void (*on_agreed)(void *owner);
        void *owner; /* borrowed */

        /* The answer. */
        enum agreement_verdict verdict;
        uint32_t n_in_force;
        char *newest_end; /* owned; a snapshot, see lane_store_leave_out(); NULL: none */
        char *settings;   /* owned; what is noted of the sink; NULL: ours, or nothing */
};

/* No lane of the sink is this session's. */
void agreement_ask(struct agreement *agreement);
void agreement_deinit(struct agreement *agreement);

/* One lane's side in the database. At most one call of each kind is outstanding. */
struct lane_store_settings {
        const char *sink; /* borrowed for the life of the store */
        int32_t lane;
        uint32_t n_shards; /* of the sink; for a lane that is not covered */
        /* What is noted of the sink when the lane is taken: sink_settings(); borrowed for the life
         * of the store; NULL: nothing. */
        const char *settings;
        const char *topics; /* with it: sink_patterns() */
        const char *types;
        /* Another lane's lock covers it: the session that holds that lock may claim this lane. */
        bool is_covered;
        /* Its lock covers others, and nothing is delivered from its cursor, which keeps no
         * events. */
        bool is_owner_lane;
        /* Its settles are on disk when they are answered, whatever happens to the server then. */
        bool is_durable;
        /* Where a covered lane begins that has no cursor yet: at a snapshot, with a floor read
         * after that; NULL: with the first event. */
        const char *start_snapshot;
        int64_t start_floor;
};

struct lane_store_events {
        /* Both are borrowed. */
        void (*on_owned)(
            void *owner, const struct cursor *cursor, const struct parked_keys *parked);
        void (*on_owned_elsewhere)(void *owner);
        /* The sink was divided anew: it has to be agreed on again. */
        void (*on_gone)(void *owner);
        /* Where a page ends is known before its events are read: the next one may be asked for in
         * here already, so that the database works meanwhile. n_events and bytes are what it holds
         * at most. Borrowed; on_page follows at once. May be NULL. */
        void (*on_page_end)(void *owner, const struct page *page);
        void (*on_page)(void *owner, struct page *page); /* the page is now the receiver's */
        /* In place of on_page: this statement failed by itself, the session goes on. The next one
         * asks for less; when, is for the receiver to decide. */
        void (*on_page_failed)(void *owner, const struct error *error);
        void (*on_parked)(void *owner, struct parked_batch *batch); /* now the receiver's */
        /* Those of the sink's lanes that have something parked which is due or will be, in their
         * order. Borrowed. NULL: lane_store_read_due() is never called. */
        void (*on_due)(void *owner, const struct due_lane *lanes, size_t n_lanes);
        /* Before on_settled: for so many verdicts there was no row, because it was removed by hand.
         * May be NULL. */
        void (*on_missing)(void *owner, uint64_t n_verdicts);
        void (*on_settled)(void *owner, enum cursor_room room);
        void (*on_released)(void *owner); /* NULL: lane_store_release() is never called */
};

struct lane_store *lane_store_create(struct outbox *outbox,
    const struct lane_store_settings *settings, const struct lane_store_events *events,
    void *owner);

/* NULL is allowed. No answer may be on its way: the lane was released, or never claimed, or the
 * outbox is closed. */
void lane_store_destroy(struct lane_store *store);

/* Takes the lane's lock and reads its cursor, and what is parked. Its sink was agreed on; the
 * cursor of a covered lane is made first, if that is new. Answered by on_owned, on_owned_elsewhere
 * or on_gone. */
void lane_store_claim(struct lane_store *store);

/* Gives the lane back: any session may claim it. Answered by on_released, and as answers come in
 * the order of the calls, none of this store is on its way then. To be called when nothing else of
 * it is outstanding that is answered by a call. */
void lane_store_release(struct lane_store *store);

/* Of the last claim that was granted: each is higher than those before it. */
uint64_t lane_store_epoch(const struct lane_store *store);

/* Which events the pages have that are read from now on: those that one of the routings matches;
 * filters are not asked. With one routing a page holds just these. With several it may hold more:
 * the receiver asks routing_matches(). The routings are borrowed until the next call. */
void lane_store_route(
    struct lane_store *store, const struct routing *const *routings, size_t n_routings);

/* The sink has several shards: pages have the events of these, as an array in SQL (NULL: of all),
 * and tell of each which shard it is of (page::shards). */
void lane_store_choose(struct lane_store *store, uint32_t n_shards, const char *shards);

/* Former shards of the sink had some events behind them, which are left out (courier.shard_end):
 * none is there once a lane is past this snapshot. NULL: none at all. */
void lane_store_leave_out(struct lane_store *store, const char *newest_end);

/* Answered by on_page. The lane has been routed. */
void lane_store_read(struct lane_store *store, const struct page_request *request);

/* Claims parked deliveries; answered by on_parked. Nothing is written: what is not settled stays
 * parked. */
void lane_store_read_parked(struct lane_store *store, const struct parked_request *request);

/* When the lanes of the store's sink have something to claim; answered by on_due. */
void lane_store_read_due(struct lane_store *store);

/* Makes a complete cursor and its verdicts durable, in one transaction; answered by on_settled. If
 * another relay took the lane since, the session breaks instead. The settlement is borrowed for the
 * call. One without verdicts goes out with outbox_flush(), in one statement with those of all other
 * lanes. */
void lane_store_settle(struct lane_store *store, const struct settlement *settlement);

/* How the lane delivers, for people; each settle from now on writes it along. */
struct lane_pace {
        int64_t delivered_us; /* when its destination last took an event, wall clock */
        double rate;          /* events a second in the last minutes */
        int32_t p50_us;       /* how long they took; -1: not known */
        int32_t p99_us;
};
void lane_store_note_pace(struct lane_store *store, const struct lane_pace *pace);

/* To be kept in courier.attempt: written with the next settle of any lane, or after a second. The
 * record is borrowed for the call. */
void lane_store_note_attempt(struct lane_store *store, const struct attempt_record *record);

/* To be called before the loop waits. */
void outbox_flush(struct outbox *outbox);
