/* The lock, as PostgreSQL gives it, and the sessions that the relays hold and await it with. */
#include "simulator/bell_world.h"

#include <assert.h>
#include <string.h>

static bool is_any_shared(const struct bell_world *world)
{
        for (int w = 0; w < N_WRITERS; w++)
                if (world->writers[w].has_lock)
                        return true;
        return false;
}

/* A session that has the lock gets it again; no other does while one has it, or waits for it,
 * exclusively. */
bool server_try_shared(struct bell_world *world, struct writer *writer)
{
        if (!writer->has_lock && (world->exclusive >= 0 || world->n_queue > 0))
                return false;
        writer->has_lock = true;
        return true;
}

static void answer(struct bell_world *world, struct session *session, bool is_granted)
{
        struct relay_model *relay = &world->relays[session->relay];
        int64_t at_us = world->now_us + world_latency_us(world);

        if (at_us < relay->last_answer_us)
                at_us = relay->last_answer_us;
        relay->last_answer_us = at_us;
        world_order(world, at_us - world->now_us, ANSWER_ARRIVES, session->relay, is_granted,
            session->birth);
}

static void go_on(struct bell_world *world, int number);

static void grant_next(struct bell_world *world)
{
        struct session *session;

        if (world->exclusive >= 0 || world->n_queue == 0 || is_any_shared(world))
                return;
        world->exclusive = world->queue[0];
        memmove(world->queue, world->queue + 1, (size_t)--world->n_queue * sizeof *world->queue);
        session = &world->sessions[world->exclusive];
        session->is_waiting = false;
        session->holds = true;
        session->granted_us = world->now_us;
        answer(world, session, true);
        go_on(world, world->exclusive);
}

void server_release_shared(struct bell_world *world, struct writer *writer)
{
        writer->has_lock = false;
        grant_next(world);
}

static void leave_queue(struct bell_world *world, int number)
{
        int n = 0;

        for (int i = 0; i < world->n_queue; i++)
                if (world->queue[i] != number)
                        world->queue[n++] = world->queue[i];
        world->n_queue = n;
}

static void release(struct bell_world *world, int number)
{
        world->sessions[number].holds = false;
        if (world->exclusive == number)
                world->exclusive = -1;
        grant_next(world);
}

static void await(struct bell_world *world, int number, int64_t wait_us)
{
        struct session *session = &world->sessions[number];

        assert(!session->holds);
        session->is_waiting = true;
        session->n_waits++;
        world->queue[world->n_queue++] = number;
        world_order(world, wait_us, WAIT_ENDS, number, 0, session->n_waits);
        grant_next(world);
}

/* One statement after another. */
static void go_on(struct bell_world *world, int number)
{
        struct session *session = &world->sessions[number];

        while (session->n_commands > 0 && !session->is_waiting) {
                enum bell_wish command = session->commands[0];
                int64_t wait_us = session->command_wait_us[0];

                session->n_commands--;
                memmove(session->commands, session->commands + 1,
                    session->n_commands * sizeof *session->commands);
                memmove(session->command_wait_us, session->command_wait_us + 1,
                    session->n_commands * sizeof *session->command_wait_us);
                if (command == BELL_AWAIT)
                        await(world, number, wait_us);
                else
                        release(world, number);
        }
}

int server_open_session(struct bell_world *world, int relay)
{
        int number = world->n_sessions++;

        assert(number < MAX_SESSIONS);
        world->sessions[number] = (struct session){
            .relay = relay, .birth = world->relays[relay].doorbell_birth, .is_open = true};
        return number;
}

void server_end_session(struct bell_world *world, int number)
{
        struct session *session = &world->sessions[number];

        if (!session->is_open)
                return;
        session->is_open = false;
        session->is_waiting = false;
        session->n_commands = 0;
        leave_queue(world, number);
        release(world, number);
}

void server_take_command(struct bell_world *world, int number, unsigned birth, int64_t wait_us)
{
        struct session *session = &world->sessions[number];

        if (!session->is_open || session->birth != birth)
                return;
        assert(session->n_commands < MAX_COMMANDS);
        session->commands[session->n_commands] = wait_us > 0 ? BELL_AWAIT : BELL_GIVE_UP;
        session->command_wait_us[session->n_commands++] = wait_us;
        go_on(world, number);
}

void server_end_wait(struct bell_world *world, int number, unsigned n_waits)
{
        struct session *session = &world->sessions[number];

        if (!session->is_open || !session->is_waiting || session->n_waits != n_waits)
                return;
        session->is_waiting = false;
        leave_queue(world, number);
        answer(world, session, false);
        grant_next(world);
        go_on(world, number);
}
