#include "torture/arrivals.h"

#include "base/alloc.h"
#include "support/http_receiver.h"
#include "support/process.h"
#include "support/redis_server.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SINKS = 3, MAX_EVENTS = 1 << 20 };

/* Of dead letters; age is not tried here. */
static const char *const reasons[] = {"attempts", "rejected", "skipped", "too_large"};

static const char *const sink_names[N_SINKS] = {"bus", "hook", "out"};

/* What is known of one event at one sink. */
struct arrival {
        bool was_seen; /* though perhaps not taken */
        bool has_arrived;
        unsigned dead_at; /* n_reads when it was last a dead letter */
};

struct torture_arrivals {
        struct redis_server *redis;
        const char *output_path;
        PGconn *admin;
        unsigned n_reads;
        pthread_mutex_t lock;   /* the webhook's threads take notes too */
        unsigned char *n_posts; /* of each event to the webhook */

        /* How far each sink has been read. */
        char last_entry[64];
        long output_at;

        struct {
                struct arrival *events; /* MAX_EVENTS */
                unsigned lowest_missing;
                unsigned last[TORTURE_N_KEYS]; /* the latest event that came for the first time */
        } sinks[N_SINKS];
        bool was_given_up[sizeof reasons / sizeof reasons[0]];
        bool was_redriven;
        char fault[256];
};

static struct http_answer answer_post(void *owner, const struct http_request *request);

struct torture_arrivals *torture_arrivals_create(
    struct redis_server *redis, struct http_receiver *http, const char *output_path, PGconn *admin)
{
        struct torture_arrivals *arrivals = xcalloc(1, sizeof *arrivals);

        arrivals->redis = redis;
        arrivals->output_path = output_path;
        arrivals->admin = admin;
        strcpy(arrivals->last_entry, "-");
        for (unsigned i = 0; i < N_SINKS; i++)
                arrivals->sinks[i].events = xcalloc(MAX_EVENTS, sizeof(struct arrival));
        arrivals->n_posts = xcalloc(MAX_EVENTS, 1);
        pthread_mutex_init(&arrivals->lock, NULL);
        http_receiver_decide(http, answer_post, arrivals);
        return arrivals;
}

void torture_arrivals_destroy(struct torture_arrivals *arrivals)
{
        pthread_mutex_destroy(&arrivals->lock);
        for (unsigned i = 0; i < N_SINKS; i++)
                free(arrivals->sinks[i].events);
        free(arrivals->n_posts);
        free(arrivals);
}

static void set_fault(struct torture_arrivals *arrivals, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The first one counts. */
static void set_fault(struct torture_arrivals *arrivals, const char *format, ...)
{
        va_list values;

        if (arrivals->fault[0] != '\0')
                return;
        va_start(values, format);
        vsnprintf(arrivals->fault, sizeof arrivals->fault, format, values);
        va_end(values);
}

static void note_order(struct torture_arrivals *arrivals, unsigned sink, unsigned number)
{
        unsigned *last = &arrivals->sinks[sink].last[number % TORTURE_N_KEYS];
        unsigned fate = number % TORTURE_N_FATES;

        if (fate == FATE_DELAYED || fate == FATE_LATER)
                return;
        if (number < *last)
                set_fault(arrivals, "%s was given event %u after event %u of the same key",
                    sink_names[sink], number, *last);
        *last = number;
}

static void note(struct torture_arrivals *arrivals, unsigned sink, const char *payload,
    const char *header, bool was_taken)
{
        unsigned number = MAX_EVENTS;
        unsigned twin = MAX_EVENTS;
        struct arrival *event;

        if (payload == NULL || header == NULL || sscanf(payload, "\"e%u", &number) != 1 ||
            sscanf(header, "h%u", &twin) != 1 || number != twin)
                set_fault(arrivals, "%s was given half an event: payload %.40s, header %.40s",
                    sink_names[sink], payload != NULL ? payload : "missing",
                    header != NULL ? header : "missing");
        if (number >= MAX_EVENTS)
                return;
        event = &arrivals->sinks[sink].events[number];
        if (!event->was_seen)
                note_order(arrivals, sink, number);
        event->was_seen = true;
        event->has_arrived = event->has_arrived || was_taken; /* again: at least once */
}

static void read_redis(struct torture_arrivals *arrivals)
{
        redisReply *reply =
            redis_server_run(arrivals->redis, "XRANGE s.torture %s +", arrivals->last_entry);

        for (size_t i = 0; i < reply->elements; i++) {
                const redisReply *fields = reply->element[i]->element[1];
                const char *payload = NULL;
                const char *header = NULL;
                for (size_t j = 0; j + 1 < fields->elements; j += 2) {
                        if (strcmp(fields->element[j]->str, "payload") == 0)
                                payload = fields->element[j + 1]->str;
                        if (strcmp(fields->element[j]->str, "header:trace") == 0)
                                header = fields->element[j + 1]->str;
                }
                note(arrivals, 0, payload, header, true);
                snprintf(arrivals->last_entry, sizeof arrivals->last_entry, "(%s",
                    reply->element[i]->element[0]->str);
        }
        freeReplyObject(reply);
}

/* What the webhook says to an event that comes once more. */
static unsigned fate_of_post(struct torture_arrivals *arrivals, const char *payload)
{
        unsigned number;
        unsigned n;

        if (sscanf(payload, "\"e%u", &number) != 1 || number >= MAX_EVENTS)
                return 204;
        n = arrivals->n_posts[number] < TORTURE_N_TRIES ? arrivals->n_posts[number]++
                                                        : TORTURE_N_TRIES;
        if (number % TORTURE_N_FATES == FATE_UNWANTED && n < TORTURE_N_TRIES)
                return 422;
        return number % TORTURE_N_FATES == FATE_RETRIED && n == 0 ? 500 : 204;
}

static struct http_answer answer_post(void *owner, const struct http_request *request)
{
        struct torture_arrivals *arrivals = owner;
        struct http_answer answer = {0};
        char *header = http_request_header(request, "trace");
        char *redriven = http_request_header(request, "x-event-redriven");

        pthread_mutex_lock(&arrivals->lock);
        answer.status = fate_of_post(arrivals, request->body);
        note(arrivals, 1, request->body, header, answer.status == 204);
        arrivals->was_redriven = arrivals->was_redriven || redriven != NULL;
        pthread_mutex_unlock(&arrivals->lock);
        free(header);
        free(redriven);
        return answer;
}

/* A line that was cut short has not arrived. */
static void read_line(struct torture_arrivals *arrivals, const char *line, size_t length)
{
        static const char payload[] = "\"payload\": ";
        static const char header[] = "\"trace\": \"";
        const char *payload_at = memmem(line, length, payload, sizeof payload - 1);
        const char *header_at = memmem(line, length, header, sizeof header - 1);

        if (length > 0 && line[0] == '{' && line[length - 1] == '}')
                note(arrivals, 2, payload_at != NULL ? payload_at + sizeof payload - 1 : NULL,
                    header_at != NULL ? header_at + sizeof header - 1 : NULL, true);
}

static void read_stdout(struct torture_arrivals *arrivals)
{
        FILE *file = fopen(arrivals->output_path, "r");
        char *line = NULL;
        size_t capacity = 0;
        ssize_t length;

        if (file == NULL)
                return;
        fseek(file, arrivals->output_at, SEEK_SET);
        while ((length = getline(&line, &capacity, file)) > 0 && line[length - 1] == '\n') {
                read_line(arrivals, line, (size_t)length - 1);
                arrivals->output_at += length;
        }
        free(line);
        fclose(file);
}

static unsigned sink_of(const char *name)
{
        unsigned sink = 0;

        while (strcmp(sink_names[sink], name) != 0)
                sink++;
        return sink;
}

static void read_dead_letters(struct torture_arrivals *arrivals)
{
        PGresult *rows = PQexec(arrivals->admin,
            "SELECT sink, left(payload::text, 12), reason FROM courier.dead_letter");

        if (PQresultStatus(rows) != PGRES_TUPLES_OK)
                test_abort("%s", PQerrorMessage(arrivals->admin));
        for (int i = 0; i < PQntuples(rows); i++) {
                unsigned sink = sink_of(PQgetvalue(rows, i, 0));
                unsigned number = MAX_EVENTS;
                sscanf(PQgetvalue(rows, i, 1), "\"e%u", &number);
                if (number >= MAX_EVENTS)
                        test_abort("a dead letter without a number");
                if (arrivals->sinks[sink].events[number].dead_at == arrivals->n_reads)
                        set_fault(arrivals, "event %u is twice a dead letter of %s", number,
                            sink_names[sink]);
                arrivals->sinks[sink].events[number].dead_at = arrivals->n_reads;
        }
        for (int i = 0; i < PQntuples(rows); i++)
                for (size_t j = 0; j < sizeof reasons / sizeof reasons[0]; j++)
                        if (strcmp(PQgetvalue(rows, i, 2), reasons[j]) == 0)
                                arrivals->was_given_up[j] = true;
        PQclear(rows);
}

unsigned torture_arrivals_read(
    struct torture_arrivals *arrivals, unsigned n_events, unsigned *out_example)
{
        unsigned n_missing = 0;

        pthread_mutex_lock(&arrivals->lock);
        arrivals->n_reads++;
        read_dead_letters(arrivals);
        read_redis(arrivals);
        read_stdout(arrivals);
        for (unsigned i = 0; i < N_SINKS; i++) {
                unsigned *lowest = &arrivals->sinks[i].lowest_missing;
                while (arrivals->sinks[i].events[*lowest].has_arrived)
                        (*lowest)++;
                for (unsigned number = *lowest; number < n_events; number++) {
                        const struct arrival *event = &arrivals->sinks[i].events[number];
                        if (event->has_arrived || event->dead_at == arrivals->n_reads)
                                continue;
                        n_missing++;
                        *out_example = number;
                }
        }
        pthread_mutex_unlock(&arrivals->lock);
        return n_missing;
}

void torture_arrivals_bury(struct torture_arrivals *arrivals)
{
        pthread_mutex_lock(&arrivals->lock);
        arrivals->n_reads++;
        read_dead_letters(arrivals);
        database_exec(arrivals->admin, "DELETE FROM courier.dead_letter");
        for (unsigned i = 0; i < N_SINKS; i++)
                for (unsigned number = 0; number < MAX_EVENTS; number++)
                        if (arrivals->sinks[i].events[number].dead_at == arrivals->n_reads)
                                arrivals->sinks[i].events[number].has_arrived = true;
        pthread_mutex_unlock(&arrivals->lock);
}

const char *torture_arrivals_untried(const struct torture_arrivals *arrivals)
{
        for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
                if (!arrivals->was_given_up[i])
                        return reasons[i];
        return arrivals->was_redriven ? NULL : "redriven";
}

bool torture_arrivals_take_fault(struct torture_arrivals *arrivals, char *sentence, size_t size)
{
        pthread_mutex_lock(&arrivals->lock);
        snprintf(sentence, size, "%s", arrivals->fault);
        arrivals->fault[0] = '\0';
        pthread_mutex_unlock(&arrivals->lock);
        return sentence[0] != '\0';
}
