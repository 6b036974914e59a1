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

/* A member and a sink both begin with their names. */
static const char *name_at(const void *all, size_t size, size_t i)
{
        return *(char *const *)(const void *)((const char *)all + i * size);
}

static struct place *sort(const void *all, size_t n, size_t size)
{
        struct place *places = xcalloc(n + 1, sizeof *places);

        for (size_t i = 0; i < n; i++)
                places[i] = (struct place){name_at(all, size, i), i};
        qsort(places, n, sizeof *places, compare_places);
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
        struct place *members = sort(from->members, from->n_members, sizeof *from->members);
        struct place *sinks = sort(from->sinks, from->n_sinks, sizeof *from->sinks);

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

static bool is_sorted(const void *all, size_t n, size_t size)
{
        for (size_t i = 1; i < n; i++)
                if (strcmp(name_at(all, size, i - 1), name_at(all, size, i)) >= 0)
                        return false;
        return true;
}

bool view_is_sorted(const struct view *view)
{
        return is_sorted(view->members, view->n_members, sizeof *view->members) &&
               is_sorted(view->sinks, view->n_sinks, sizeof *view->sinks);
}

static int compare_name(const void *name, const void *named)
{
        return strcmp(name, name_at(named, 0, 0));
}

static int find(const void *all, size_t n, size_t size, const char *name)
{
        const char *found = n > 0 ? bsearch(name, all, n, size, compare_name) : NULL;

        return found != NULL ? (int)((size_t)(found - (const char *)all) / size) : -1;
}

int view_find_member(const struct view *view, const char *name)
{
        return find(view->members, view->n_members, sizeof *view->members, name);
}

int view_find_sink(const struct view *view, const char *name)
{
        return find(view->sinks, view->n_sinks, sizeof *view->sinks, name);
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
