#include "members/view.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* In the order of names: where each of the copy was before. */
struct place {
        const char *name;
        size_t before;
};

static int compare_places(const void *a, const void *b)
{
        const struct place *left = a, *right = b;

        return strcmp(left->name, right->name);
}

static struct place *sort_members(const struct view *view)
{
        struct place *places = xcalloc(view->n_members + 1, sizeof *places);

        for (size_t i = 0; i < view->n_members; i++)
                places[i] = (struct place){view->members[i].name, i};
        qsort(places, view->n_members, sizeof *places, compare_places);
        return places;
}

static struct place *sort_sinks(const struct view *view)
{
        struct place *places = xcalloc(view->n_sinks + 1, sizeof *places);

        for (size_t i = 0; i < view->n_sinks; i++)
                places[i] = (struct place){view->sinks[i].name, i};
        qsort(places, view->n_sinks, sizeof *places, compare_places);
        return places;
}

static void copy_members(struct view *copy, const struct view *from, const struct place *places)
{
        struct member *members = xcalloc(from->n_members + 1, sizeof *members);

        for (size_t i = 0; i < from->n_members; i++) {
                members[i] = from->members[places[i].before];
                members[i].name = xstrdup(members[i].name);
        }
        copy->members = members;
        copy->n_members = from->n_members;
}

static void copy_sinks(struct view *copy, const struct view *from, const struct place *members,
    const struct place *places)
{
        struct sharded_sink *sinks = xcalloc(from->n_sinks + 1, sizeof *sinks);
        bool *serves = xcalloc(from->n_members * from->n_sinks + 1, sizeof *serves);

        for (size_t i = 0; i < from->n_sinks; i++) {
                sinks[i] = from->sinks[places[i].before];
                sinks[i].name = xstrdup(sinks[i].name);
                for (size_t m = 0; m < from->n_members; m++)
                        serves[m * from->n_sinks + i] =
                            view_serves(from, members[m].before, places[i].before);
        }
        copy->sinks = sinks;
        copy->serves = serves;
        copy->n_sinks = from->n_sinks;
}

static void copy_owners(struct view *copy, const struct view *from, const struct place *members,
    const struct place *sinks)
{
        int *owners = xcalloc(from->n_shards + 1, sizeof *owners), *now_at;
        size_t n = 0;

        now_at = xcalloc(from->n_members + 1, sizeof *now_at);
        for (size_t m = 0; m < from->n_members; m++)
                now_at[members[m].before] = (int)m;
        for (size_t i = 0; i < from->n_sinks; i++) {
                const int *before = &from->owners[view_first_shard(from, sinks[i].before)];

                for (uint32_t number = 0; number < copy->sinks[i].n_shards; number++, n++)
                        owners[n] = before[number] < 0 ? before[number] : now_at[before[number]];
        }
        assert(n == from->n_shards);
        free(now_at);
        copy->owners = owners;
        copy->n_shards = n;
}

void view_copy(struct view *copy, const struct view *from)
{
        struct place *members = sort_members(from), *sinks = sort_sinks(from);

        copy_members(copy, from, members);
        copy_sinks(copy, from, members, sinks);
        copy_owners(copy, from, members, sinks);
        free(members);
        free(sinks);
        assert(view_is_sorted(copy));
}

void view_deinit(struct view *copy)
{
        for (size_t i = 0; i < copy->n_members; i++)
                free(copy->members[i].name);
        for (size_t i = 0; i < copy->n_sinks; i++)
                free(copy->sinks[i].name);
        free(copy->members);
        free(copy->sinks);
        free(copy->serves);
        free(copy->owners);
        *copy = (struct view){0};
}

bool view_is_sorted(const struct view *view)
{
        for (size_t i = 1; i < view->n_members; i++)
                if (strcmp(view->members[i - 1].name, view->members[i].name) >= 0)
                        return false;
        for (size_t i = 1; i < view->n_sinks; i++)
                if (strcmp(view->sinks[i - 1].name, view->sinks[i].name) >= 0)
                        return false;
        return true;
}

int view_find_member(const struct view *view, const char *name)
{
        size_t from = 0, to = view->n_members;

        while (from < to) {
                size_t middle = (from + to) / 2;
                int order = strcmp(view->members[middle].name, name);

                if (order == 0)
                        return (int)middle;
                if (order < 0)
                        from = middle + 1;
                else
                        to = middle;
        }
        return -1;
}

int view_find_sink(const struct view *view, const char *name)
{
        size_t from = 0, to = view->n_sinks;

        while (from < to) {
                size_t middle = (from + to) / 2;
                int order = strcmp(view->sinks[middle].name, name);

                if (order == 0)
                        return (int)middle;
                if (order < 0)
                        from = middle + 1;
                else
                        to = middle;
        }
        return -1;
}

size_t view_first_shard(const struct view *view, size_t sink)
{
        size_t first = 0;

        for (size_t i = 0; i < sink; i++)
                first += view->sinks[i].n_shards;
        return first;
}

bool view_serves(const struct view *view, size_t member, size_t sink)
{
        return view->serves[member * view->n_sinks + sink];
}
