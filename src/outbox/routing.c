#include "outbox/routing.h"

#include "base/alloc.h"
#include "text/topic_pattern.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Of pgcourier's own events. */
#define OWN_PREFIX "courier."

static bool is_own(const char *text)
{
        return strncmp(text, OWN_PREFIX, sizeof OWN_PREFIX - 1) == 0;
}

/* Exclusions count whatever they begin with: `!**.failed` leaves out our own events, too. */
static bool takes_own_topic(const struct routing *routing, const char *topic)
{
        bool is_taken = false;

        for (size_t i = 0; i < routing->n_topics; i++) {
                const char *entry = routing->topics[i];

                if (*entry == '!' && topic_pattern_matches(entry + 1, topic))
                        return false;
                if (is_own(entry) && topic_pattern_matches(entry, topic))
                        is_taken = true;
        }
        return is_taken;
}

bool routing_matches_topic(const struct routing *routing, const char *topic)
{
        if (routing->is_receiver && is_own(topic))
                return takes_own_topic(routing, topic);
        return topic_patterns_match(routing->topics, routing->n_topics, topic);
}

static bool header_condition_holds(const char *condition, const struct event *event)
{
        size_t name_length = strcspn(condition, "=");
        const char *value = condition[name_length] == '=' ? condition + name_length + 1 : NULL;

        for (size_t i = 0; i < event->n_headers; i++) {
                const struct event_header *header = &event->headers[i];

                if (strncmp(header->name, condition, name_length) == 0 &&
                    header->name[name_length] == '\0')
                        return value == NULL || strcmp(header->value, value) == 0;
        }
        return false;
}

bool routing_matches(const struct routing *routing, const struct event *event)
{
        if (!routing_matches_topic(routing, event->topic))
                return false;
        if (routing->n_types > 0 && (event->type == NULL || !topic_patterns_match(routing->types,
                                                                routing->n_types, event->type)))
                return false;
        for (size_t i = 0; i < routing->n_headers; i++)
                if (!header_condition_holds(routing->headers[i], event))
                        return false;
        return true;
}

/* The union of several routings is not asked for with more different patterns than this. */
#define MAX_UNION 64

/* A longer regular expression may take PostgreSQL long to compile, or be refused. */
#define MAX_REGEX_BYTES 4096

/* The parameters of a set of topic patterns, each pattern in the cheapest form. A pattern `prefix*`
 * takes two: it matches a topic that is LIKE `prefix%` (LIKES_WITHIN) and not LIKE `prefix%.%`
 * (LIKES_BEYOND). */
enum pattern_param { LITERALS, LIKES, LIKES_WITHIN, LIKES_BEYOND, REGEX };

/* Borrowed texts, each once. */
struct text_set {
        const char **texts; /* owned */
        size_t n_texts;
};

static int compare_texts(const void *a, const void *b)
{
        return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void text_set_add(struct text_set *set, char *const *entries, size_t n_entries)
{
        set->texts = xrealloc(set->texts, (set->n_texts + n_entries + 1) * sizeof *set->texts);
        for (size_t i = 0; i < n_entries; i++)
                set->texts[set->n_texts++] = entries[i];
}

static void text_set_sort(struct text_set *set)
{
        size_t n_kept = 0;

        if (set->n_texts == 0)
                return;
        qsort(set->texts, set->n_texts, sizeof *set->texts, compare_texts);
        for (size_t i = 0; i < set->n_texts; i++)
                if (n_kept == 0 || strcmp(set->texts[i], set->texts[n_kept - 1]) != 0)
                        set->texts[n_kept++] = set->texts[i];
        set->n_texts = n_kept;
}

static void text_set_deinit(struct text_set *set)
{
        free(set->texts);
}

static bool text_set_has(const struct text_set *set, const char *text)
{
        return set->n_texts > 0 &&
               bsearch(&text, set->texts, set->n_texts, sizeof *set->texts, compare_texts) != NULL;
}

static bool is_literal(const char *pattern)
{
        return strchr(pattern, '*') == NULL;
}

/* Its last characters, and no star before. */
static bool is_prefix_and(const char *pattern, const char *stars)
{
        return strcmp(pattern + strcspn(pattern, "*"), stars) == 0;
}

/* The prefix of a pattern, and then `rest`. */
static void add_like(struct array_literal *likes, const char *pattern, const char *rest)
{
        struct bytes like = {0};

        for (; *pattern != '*'; pattern++) {
                if (*pattern == '%' || *pattern == '_' || *pattern == '\\')
                        bytes_append(&like, "\\", 1);
                bytes_append(&like, pattern, 1);
        }
        bytes_append_text(&like, rest);
        array_add_text(likes, like.data);
        bytes_deinit(&like);
}

/* One more alternative. Behind a backslash, all that is no letter or digit stands for itself. */
static void add_regex(struct bytes *regex, const char *pattern)
{
        bytes_append_text(regex, regex->length == 0 ? "^(?:" : "|");
        while (*pattern != '\0') {
                if (pattern[0] == '*' && pattern[1] == '*') {
                        bytes_append_text(regex, ".*");
                        pattern += 2;
                } else if (pattern[0] == '*') {
                        bytes_append_text(regex, "[^.]*");
                        pattern++;
                } else {
                        unsigned char c = (unsigned char)*pattern;
                        if (c < 0x80 && isalnum(c) == 0)
                                bytes_append(regex, "\\", 1);
                        bytes_append(regex, pattern++, 1);
                }
        }
}

/* False if it is too long to be used. */
static bool end_regex(struct routing_params *params, int param)
{
        struct bytes *regex = &params->texts[param].bytes;

        if (regex->length == 0)
                return true;
        bytes_append_text(regex, ")$");
        if (regex->length > MAX_REGEX_BYTES)
                return false;
        params->values[param] = regex->data;
        return true;
}

static void end_array(struct routing_params *params, int param)
{
        params->values[param] = array_end(&params->texts[param]);
}

/* A shorter prefix with a single `*` whose LIKES_BEYOND would exclude what this pattern matches. In
 * the sorted set it stands before. */
static bool is_within_another(const struct text_set *patterns, size_t i, size_t skip)
{
        const char *pattern = patterns->texts[i] + skip;

        for (size_t j = 0; j < i; j++) {
                const char *other = patterns->texts[j] + skip;
                size_t length = strcspn(other, "*");

                if (strcmp(other + length, "*") == 0 && strncmp(pattern, other, length) == 0 &&
                    strchr(pattern + length, '.') != NULL)
                        return true;
        }
        return false;
}

/* Those that exclude, or the others, from `first` on. False if they cannot be asked for. */
static bool add_patterns(
    struct routing_params *params, int first, const struct text_set *patterns, bool exclude)
{
        for (size_t i = 0; i < patterns->n_texts; i++) {
                const char *pattern = patterns->texts[i] + exclude;

                if ((*patterns->texts[i] == '!') != exclude)
                        continue;
                if (is_literal(pattern)) {
                        array_add_text(&params->texts[first + LITERALS], pattern);
                } else if (is_prefix_and(pattern, "**")) {
                        add_like(&params->texts[first + LIKES], pattern, "%");
                } else if (is_prefix_and(pattern, "*") &&
                           !is_within_another(patterns, i, exclude)) {
                        add_like(&params->texts[first + LIKES_WITHIN], pattern, "%");
                        add_like(&params->texts[first + LIKES_BEYOND], pattern, "%.%");
                } else {
                        add_regex(&params->texts[first + REGEX].bytes, pattern);
                }
        }
        for (int i = LITERALS; i < REGEX; i++)
                if (params->texts[first + i].bytes.length > 0)
                        end_array(params, first + i);
        return end_regex(params, first + REGEX);
}

static void add_topics(struct routing_params *params, const struct text_set *patterns)
{
        if (text_set_has(patterns, "**")) {
                params->is_any_topic = true;
        } else if (!add_patterns(params, ROUTE_TOPICS, patterns, false)) {
                params->is_any_topic = true;
                params->is_exact = false;
        }
}

static void add_types(struct routing_params *params, const struct text_set *patterns)
{
        for (size_t i = 0; i < patterns->n_texts; i++) {
                const char *pattern = patterns->texts[i];

                if (*pattern == '!')
                        continue;
                if (is_literal(pattern))
                        array_add_text(&params->texts[ROUTE_TYPES], pattern);
                else
                        add_regex(&params->texts[ROUTE_TYPE_REGEX].bytes, pattern);
        }
        if (end_regex(params, ROUTE_TYPE_REGEX))
                end_array(params, ROUTE_TYPES);
        else
                params->is_exact = false;
}

static void add_type_exclusions(struct routing_params *params, const struct text_set *patterns)
{
        for (size_t i = 0; i < patterns->n_texts; i++)
                if (*patterns->texts[i] == '!')
                        add_regex(
                            &params->texts[ROUTE_NOT_TYPE_REGEX].bytes, patterns->texts[i] + 1);
        if (!end_regex(params, ROUTE_NOT_TYPE_REGEX))
                params->is_exact = false;
}

static void add_headers(struct routing_params *params, const struct routing *routing)
{
        if (routing->n_headers == 0)
                return;
        for (size_t i = 0; i < routing->n_headers; i++) {
                const char *condition = routing->headers[i];
                size_t name_length = strcspn(condition, "=");
                char *name = xstrndup(condition, name_length);

                array_add_text(&params->texts[ROUTE_HEADER_NAMES], name);
                array_add_text(&params->texts[ROUTE_HEADER_VALUES],
                    condition[name_length] == '=' ? condition + name_length + 1 : NULL);
                free(name);
        }
        end_array(params, ROUTE_HEADER_NAMES);
        end_array(params, ROUTE_HEADER_VALUES);
}

/* All that one routing says. Of a receiver, the topics that begin with "courier." are left to
 * routing_matches(). */
static void add_one(struct routing_params *params, const struct routing *routing)
{
        struct text_set topics = {0}, types = {0};

        params->is_exact = !routing->is_receiver;
        text_set_add(&topics, routing->topics, routing->n_topics);
        text_set_sort(&topics);
        add_topics(params, &topics);
        if (!add_patterns(params, ROUTE_NOT_TOPICS, &topics, true))
                params->is_exact = false;
        if (routing->n_types > 0) {
                text_set_add(&types, routing->types, routing->n_types);
                text_set_sort(&types);
                add_types(params, &types);
                add_type_exclusions(params, &types);
        }
        add_headers(params, routing);
        text_set_deinit(&topics);
        text_set_deinit(&types);
}

static void add_union(
    struct routing_params *params, const struct routing *const *routings, size_t n_routings)
{
        struct text_set topics = {0}, types = {0};
        bool have_types = true;

        for (size_t i = 0; i < n_routings; i++) {
                text_set_add(&topics, routings[i]->topics, routings[i]->n_topics);
                text_set_add(&types, routings[i]->types, routings[i]->n_types);
                have_types = have_types && routings[i]->n_types > 0;
        }
        text_set_sort(&topics);
        text_set_sort(&types);
        if (topics.n_texts <= MAX_UNION)
                add_topics(params, &topics);
        else
                params->is_any_topic = true;
        if (have_types && types.n_texts <= MAX_UNION)
                add_types(params, &types);
        text_set_deinit(&topics);
        text_set_deinit(&types);
}

void routing_params_init(
    struct routing_params *params, const struct routing *const *routings, size_t n_routings)
{
        *params = (struct routing_params){0};
        if (n_routings == 0)
                return;
        if (n_routings == 1)
                add_one(params, routings[0]);
        else
                add_union(params, routings, n_routings);
}

void routing_params_deinit(struct routing_params *params)
{
        for (int i = 0; i < N_ROUTE_PARAMS; i++)
                array_deinit(&params->texts[i]);
        *params = (struct routing_params){0};
}
