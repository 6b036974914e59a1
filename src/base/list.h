/*
 * An intrusive doubly linked list. A `struct list` is either a head or a link
 * inside an object; a link that is in no list points at itself.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list {
        struct list *prev;
        struct list *next;
};

#define list_owner(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* The loop body may remove `link` from its list. */
#define list_for_each(link, head)                                                                  \
        for (struct list *link = (head)->next, *link##_next = link->next; link != (head);          \
             link = link##_next, link##_next = link->next)

static inline void list_init(struct list *list)
{
        list->prev = list;
        list->next = list;
}

static inline bool list_is_empty(const struct list *list)
{
        return list->next == list;
}

/* Inserts `link` just before `place`; with a head as place, at the end of the list. */
static inline void list_insert_before(struct list *place, struct list *link)
{
        link->prev = place->prev;
        link->next = place;
        place->prev->next = link;
        place->prev = link;
}

static inline void list_push_back(struct list *head, struct list *link)
{
        list_insert_before(head, link);
}

static inline void list_push_front(struct list *head, struct list *link)
{
        list_insert_before(head->next, link);
}

static inline void list_remove(struct list *link)
{
        link->prev->next = link->next;
        link->next->prev = link->prev;
        list_init(link);
}

/* To the end of the other list. */
static inline void list_move_all(struct list *from, struct list *to)
{
        while (!list_is_empty(from)) {
                struct list *link = from->next;
                list_remove(link);
                list_push_back(to, link);
        }
}
