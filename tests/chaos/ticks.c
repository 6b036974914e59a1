#include "chaos/ticks.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdlib.h>

#define LATE_MS 5000

/* No sink asks for its topic: what counts is what was inserted (trimmer.c). */
void ticks_begin(struct ticks *ticks, const struct world *world)
{
        PGconn *admin = database_connect(world->dsn);

        *ticks = (struct ticks){
            .first_s = database_integer(admin,
                "SELECT extract(epoch FROM courier.schedule('chaos', 'tick.chaos', '{}', "
                "every => '1 second', missed => 'all'))::bigint")};
        PQfinish(admin);
}

void ticks_judge(struct ticks *ticks, const struct world *world)
{
        PGconn *admin = database_connect(world->dsn);
        char *n_due = xasprintf("SELECT coalesce(extract(epoch FROM last_at)::bigint - %" PRId64
                                " + 1, 0) FROM courier.schedule",
            ticks->first_s);
        int64_t n_different =
            database_integer(admin, "SELECT count(DISTINCT scheduled_for) FROM public.written "
                                    "WHERE topic = 'tick.chaos'");
        int64_t late_ms = database_integer(admin,
            "SELECT (extract(epoch FROM clock_timestamp() - next_at) * 1000)::bigint "
            "FROM courier.schedule");

        ticks->n_due = database_integer(admin, n_due);
        ticks->n_published = database_integer(
            admin, "SELECT count(*) FROM public.written WHERE topic = 'tick.chaos'");
        ticks->n_repeated = ticks->n_published - n_different;
        ticks->n_missing = ticks->n_due - n_different;
        if (late_ms > LATE_MS)
                ticks->n_missing += late_ms / 1000;
        free(n_due);
        PQfinish(admin);
}
