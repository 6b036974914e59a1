/* What a relay claims and gives, among others that come, go, drain and fail to take. */
#include "members/turns.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MOST_MEMBERS = 4, MOST_SHARDS = 128 };

/* The relay is "me"; its peers are "peer" and "rival", which is not always there. */
enum { ME, PEER, RIVAL };

static struct turns *turns;
static struct member members[MOST_MEMBERS];
static struct sharded_sink sinks[2];
static bool serves[MOST_MEMBERS * 2];
static int owners[MOST_SHARDS];
static struct view view;
static int64_t now_ms;

static void begin(void)
{
        static char names[][8] = {"me", "peer", "rival"}, orders[] = "orders", mail[] = "mail";

        for (size_t m = 0; m < 3; m++)
                members[m] = (struct member){.name = names[m], .weight = 1};
        sinks[0] = (struct sharded_sink){.name = orders, .n_shards = 8};
        sinks[1] = (struct sharded_sink){.name = mail, .n_shards = 0};
        memset(serves, true, sizeof serves);
        for (size_t i = 0; i < MOST_SHARDS; i++)
                owners[i] = NOBODY;
        view = (struct view){.n_members = 1,
            .n_sinks = 1,
            .n_shards = 8,
            .members = members,
            .sinks = sinks,
            .serves = serves,
            .owners = owners};
        now_ms = 1000;
        turns = turns_create("me");
}

static void end(void)
{
        turns_destroy(turns);
}

TestSuite(turns, .init = begin, .fini = end);

static void see(void)
{
        turns_see(turns, &view, now_ms);
}

static void see_after(int64_t ms)
{
        now_ms += ms;
        see();
}

static int *owner_of(const struct turn *turn)
{
        return &owners[turn->number + (strcmp(turn->sink, "mail") == 0 ? sinks[0].n_shards : 0)];
}

static unsigned claim(bool is_granted)
{
        struct turn turn;
        unsigned n = 0;

        for (; turns_next(turns, now_ms, &turn) == TURN_CLAIM; n++) {
                turns_claimed(turns, turn.sink, turn.number, is_granted);
                if (is_granted)
                        *owner_of(&turn) = ME;
        }
        cr_expect_eq(turn.kind, TURN_NOTHING);
        return n;
}

/* Gives what it would, without an end of it. Returns how many. */
static unsigned give(struct turn *out_turns)
{
        struct turn turn;
        unsigned n = 0;

        for (; turns_next(turns, now_ms, &turn) == TURN_GIVE; n++)
                out_turns[n] = turn;
        cr_expect_eq(turn.kind, TURN_NOTHING);
        return n;
}

static void give_and_let_take(unsigned n_expected, int taker)
{
        struct turn given[MOST_SHARDS];
        unsigned n = give(given);

        cr_expect_eq(n, n_expected, "%u at %d ms", n, (int)now_ms);
        for (unsigned i = 0; i < n; i++) {
                turns_given(turns, given[i].sink, given[i].number);
                *owner_of(&given[i]) = taker;
        }
        see();
}

static void own_all(void)
{
        see();
        claim(true);
        see();
}

Test(turns, claims_all_at_once_while_alone)
{
        see();
        cr_expect_eq(claim(true), 8);
        cr_expect_eq(turns_owned(turns), 8);
        see_after(200);
        cr_expect_eq(claim(true), 0);
}

Test(turns, claims_nothing_before_it_is_a_member_itself)
{
        view.members = &members[PEER];
        see();
        cr_expect_eq(claim(true), 0);
}

Test(turns, claims_its_share_of_what_nobody_has)
{
        view.n_members = 2;
        see();
        cr_expect_eq(claim(true), 4);
}

Test(turns, claims_what_a_member_leaves_as_soon_as_it_is_gone)
{
        view.n_members = 2;
        for (size_t i = 0; i < 8; i++)
                owners[i] = i % 2 == 0 ? ME : PEER;
        see();
        cr_expect_eq(claim(true), 0);
        view.n_members = 1;
        for (size_t i = 1; i < 8; i += 2)
                owners[i] = NOBODY;
        see_after(200);
        cr_expect_eq(claim(true), 4);
}

Test(turns, claims_nothing_of_a_session_that_still_has_it)
{
        for (size_t i = 0; i < 8; i++)
                owners[i] = STRANGER;
        see();
        cr_expect_eq(claim(true), 0);
        owners[3] = NOBODY;
        see_after(10 * TURNS_LATE_MS);
        cr_expect_eq(claim(true), 1);
}

Test(turns, claims_nothing_of_a_sink_that_it_does_not_serve)
{
        serves[ME] = false;
        see();
        cr_expect_eq(claim(true), 0);
        see_after(10 * TURNS_LATE_MS);
        cr_expect_eq(claim(true), 0);
}

Test(turns, waits_for_a_new_view_after_a_refusal)
{
        see();
        cr_expect_eq(claim(false), 8);
        cr_expect_eq(claim(false), 0);
        see_after(200);
        cr_expect_eq(claim(true), 8);
}

Test(turns, gives_to_a_member_that_joins_when_it_was_seen_for_a_while)
{
        own_all();
        view.n_members = 2;
        see_after(5000);
        give_and_let_take(0, PEER);
        see_after(TURNS_READY_MS - 1);
        give_and_let_take(0, PEER);
        see_after(1);
        give_and_let_take(4, PEER);
        see_after(200);
        give_and_let_take(0, PEER);
        cr_expect_eq(turns_owned(turns), 4);
}

Test(turns, gives_a_few_at_a_time)
{
        sinks[0].n_shards = 24;
        view.n_shards = 24;
        own_all();
        view.n_members = 2;
        see_after(200);
        see_after(TURNS_READY_MS);
        give_and_let_take(4, PEER);
        give_and_let_take(4, PEER);
        give_and_let_take(4, PEER);
        give_and_let_take(0, PEER);
}

Test(turns, gives_an_eighth_at_a_time_where_that_is_more)
{
        sinks[0].n_shards = 80;
        view.n_shards = 80;
        own_all();
        view.n_members = 2;
        see_after(200);
        see_after(TURNS_READY_MS);
        give_and_let_take(10, PEER);
        give_and_let_take(8, PEER);
}

Test(turns, gives_no_more_until_what_was_given_is_taken)
{
        struct turn given[MOST_SHARDS];
        uint32_t first;

        sinks[0].n_shards = 24;
        view.n_shards = 24;
        own_all();
        view.n_members = 2;
        see_after(200);
        see_after(TURNS_READY_MS);
        cr_expect_eq(give(given), 4);
        first = given[0].number;
        turns_given(turns, "orders", first);
        owners[first] = NOBODY;
        see_after(200);
        cr_expect_eq(give(given), 0);
        owners[first] = PEER;
        see_after(200);
        cr_expect_eq(give(given), 1);
}

Test(turns, gives_nothing_while_others_come_and_go)
{
        own_all();
        view.n_members = 3;
        see_after(200);
        see_after(TURNS_READY_MS);
        view.n_members = 2;
        see_after(0);
        give_and_let_take(0, PEER);
        see_after(TURNS_READY_MS - 1);
        give_and_let_take(0, PEER);
        see_after(1);
        give_and_let_take(4, PEER);
}

Test(turns, goes_on_giving_while_a_member_is_not_ready_that_changes_nothing)
{
        own_all();
        view.n_members = 2;
        serves[RIVAL] = false;
        see_after(200);
        see_after(TURNS_READY_MS - 1);
        view.n_members = 3;
        see_after(1);
        give_and_let_take(4, PEER);
}

Test(turns, watches_a_member_the_longer_the_more_often_it_has_left)
{
        own_all();
        for (int64_t for_ms = TURNS_READY_MS; for_ms < TURNS_READY_MAX_MS; for_ms *= 2) {
                view.n_members = 2;
                see_after(200);
                see_after(for_ms - 1);
                give_and_let_take(0, PEER);
                view.n_members = 1;
                see_after(0);
        }
        view.n_members = 2;
        see_after(TURNS_LEFT_MS);
        see_after(TURNS_READY_MS);
        give_and_let_take(4, PEER);
}

Test(turns, gives_all_as_soon_as_it_drains)
{
        sinks[0].n_shards = 6;
        view.n_shards = 6;
        view.n_members = 2;
        for (size_t i = 0; i < 6; i++)
                owners[i] = i == 5 ? PEER : NOBODY;
        see();
        cr_expect_eq(claim(true), 3);
        for (size_t i = 0; i < 6; i++)
                if (owners[i] == NOBODY)
                        owners[i] = PEER;
        see_after(TURNS_READY_MS);
        members[ME].is_draining = true;
        see_after(200);
        give_and_let_take(3, PEER);
        cr_expect_eq(turns_owned(turns), 0);
}

Test(turns, waits_for_a_member_that_has_just_come_although_it_drains)
{
        own_all();
        view.n_members = 2;
        members[ME].is_draining = true;
        see_after(200);
        give_and_let_take(0, PEER);
        see_after(TURNS_READY_MS - 1);
        give_and_let_take(0, PEER);
        see_after(1);
        give_and_let_take(4, PEER);
}

Test(turns, keeps_all_when_it_drains_alone)
{
        own_all();
        members[ME].is_draining = true;
        see_after(10 * TURNS_READY_MS);
        give_and_let_take(0, PEER);
        cr_expect_eq(turns_owned(turns), 8);
}

Test(turns, claims_nothing_while_it_drains_and_others_do_not)
{
        view.n_members = 2;
        members[ME].is_draining = true;
        see();
        cr_expect_eq(claim(true), 0);
}

/* Shards that the peer does not take; with a rival, each takes those that it is nearer to. */
static void let_the_peer_be_late(void)
{
        view.n_members = 2;
        see();
        claim(true);
        see_after(TURNS_LATE_MS - 1);
        cr_expect_eq(claim(true), 0);
        see_after(1);
}

Test(turns, takes_over_what_the_right_owner_does_not_take)
{
        let_the_peer_be_late();
        cr_expect_eq(claim(true), 4);
}

Test(turns, takes_over_later_what_others_are_nearer_to)
{
        unsigned n_first;

        view.n_members = 3;
        sinks[0].n_shards = 64;
        view.n_shards = 64;
        see();
        claim(true);
        see_after(TURNS_LATE_MS);
        n_first = claim(true);
        cr_expect(n_first > 10 && n_first < 32, "about half of %u", n_first);
        see_after(TURNS_LATE_MS);
        cr_expect_gt(claim(true), 10);
        cr_expect_eq(turns_owned(turns), 64);
}

Test(turns, tries_a_member_that_was_late_again_with_one_shard)
{
        let_the_peer_be_late();
        claim(true);
        see_after(TURNS_LATE_PAUSE_MS - 1);
        give_and_let_take(0, PEER);
        see_after(1);
        give_and_let_take(1, NOBODY);
        see_after(TURNS_LATE_MS);
        cr_expect_eq(claim(true), 1);

        see_after(2 * TURNS_LATE_PAUSE_MS - 1);
        give_and_let_take(0, PEER);
        see_after(1);
        give_and_let_take(1, PEER);
        give_and_let_take(3, PEER);
}

Test(turns, takes_back_what_it_gave_to_a_member_that_is_gone)
{
        own_all();
        view.n_members = 2;
        see_after(200);
        see_after(TURNS_READY_MS);
        give_and_let_take(4, NOBODY);
        cr_expect_eq(claim(true), 0);
        view.n_members = 1;
        see_after(200);
        cr_expect_eq(claim(true), 4);
}

Test(turns, has_nothing_after_it_has_lost_its_session)
{
        own_all();
        turns_lose(turns);
        cr_expect_eq(turns_owned(turns), 0);
        cr_expect_eq(claim(true), 0, "there is no view");
        for (size_t i = 0; i < 8; i++)
                owners[i] = NOBODY;
        see_after(200);
        cr_expect_eq(claim(true), 8);
}

Test(turns, keeps_what_it_has_when_sinks_come_and_go)
{
        own_all();
        view.n_sinks = 2;
        sinks[1].n_shards = 3;
        view.n_shards = 11;
        see_after(200);
        cr_expect_eq(claim(true), 3);
        cr_expect_eq(turns_owned(turns), 11);

        sinks[0].n_shards = 5;
        view.n_sinks = 1;
        view.n_shards = 5;
        see_after(200);
        cr_expect_eq(claim(true), 0);
        cr_expect_eq(turns_owned(turns), 5);
}
