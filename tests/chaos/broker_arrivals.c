/*
 * NATS says when it stored a message in the subject that a consumer acknowledges it by, Kafka in
 * the timestamp of the record. Both are read when all is well.
 */
#include "chaos/broker_arrivals.h"

#include "base/alloc.h"
#include "support/kafka_reader.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

/* ---- NATS ------------------------------------------------------------------------------------ */

static int64_t last_sequence(struct nats_server *server)
{
        json_t *answer = nats_server_ask(server, "STREAM.INFO." BROKERS_STREAM, "");
        json_int_t last =
            json_integer_value(json_object_get(json_object_get(answer, "state"), "last_seq"));

        json_decref(answer);
        return last;
}

/* To be read; what is written goes to its file descriptor. */
static FILE *connect_to(const struct nats_server *server)
{
        const struct sockaddr_in address = {.sin_family = AF_INET,
            .sin_port = htons(server->port),
            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        const struct timeval limit = {.tv_sec = 30};
        int socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        if (connect(socket_, (const struct sockaddr *)&address, sizeof address) != 0)
                test_abort("cannot connect to NATS");
        return fdopen(socket_, "r");
}

/* A consumer that is sent everything from there on. It ends some seconds after the connection, so
 * each has a subject of its own. */
static void ask_for_all(FILE *talk, int64_t from)
{
        char *wish =
            xasprintf("{\"stream_name\":\"" BROKERS_STREAM
                      "\",\"config\":{\"deliver_subject\":\"chaos.%" PRId64
                      "\",\"ack_policy\":\"none\",\"deliver_policy\":\"by_start_sequence\","
                      "\"opt_start_seq\":%" PRId64 "}}",
                from, from);

        dprintf(fileno(talk),
            "CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB chaos.%" PRId64
            " 1\r\nSUB chaos.made 2\r\n"
            "PUB $JS.API.CONSUMER.CREATE." BROKERS_STREAM " chaos.made %zu\r\n%s\r\n",
            from, strlen(wish), wish);
        free(wish);
}

/* What follows a line MSG or HMSG, without its headers; with a NUL behind its end. */
static char *read_message(FILE *talk, const char *line)
{
        size_t n_bytes = strtoul(strrchr(line, ' '), NULL, 10);
        char *message = xcalloc(1, n_bytes + 3);
        const char *end_of_headers;

        if (fread(message, 1, n_bytes + 2, talk) != n_bytes + 2)
                test_abort("NATS ends in the middle of a message");
        message[n_bytes] = '\0';
        end_of_headers = line[0] == 'H' ? strstr(message, "\r\n\r\n") : NULL;
        if (end_of_headers != NULL)
                memmove(message, end_of_headers + 4,
                    n_bytes + 1 - (size_t)(end_of_headers + 4 - message));
        return message;
}

/* $JS.ACK.STREAM.CONSUMER.TIMES.SEQUENCE.NUMBER.NANOSECONDS.LEFT */
static int64_t note(struct arrivals *arrivals, const char *line, const char *message)
{
        const char *subject = strstr(line, "$JS.ACK." BROKERS_STREAM ".");
        int64_t sequence, at_ns;

        if (subject == NULL || sscanf(subject, "$JS.ACK.%*[^.].%*[^.].%*d.%" SCNd64 ".%*d.%" SCNd64,
                                   &sequence, &at_ns) != 2)
                test_abort("no message of a stream: %s", line);
        arrivals_note(arrivals, message, at_ns / 1000);
        return sequence;
}

void arrivals_read_nats(struct arrivals *arrivals, struct brokers *brokers)
{
        int64_t known = strtoll(arrivals->last_id, NULL, 10);
        struct nats_server *server = brokers_sound_nats(brokers);
        int64_t last = last_sequence(server);
        FILE *talk;
        char *line = NULL;
        size_t capacity = 0;

        if (last <= known)
                return;
        talk = connect_to(server);
        ask_for_all(talk, known + 1);
        while (known < last) {
                if (getline(&line, &capacity, talk) < 0)
                        test_abort("NATS does not send all of its stream");
                if (strncmp(line, "PING", 4) == 0)
                        dprintf(fileno(talk), "PONG\r\n");
                if (strstr(line, "MSG ") == NULL)
                        continue;
                char *message = read_message(talk, line);
                if (strstr(line, "chaos.made") == NULL)
                        known = note(arrivals, line, message);
                else if (strstr(message, "\"error\"") != NULL)
                        test_abort("NATS makes no consumer: %s", message);
                free(message);
        }
        snprintf(arrivals->last_id, sizeof arrivals->last_id, "%" PRId64, known);
        free(line);
        fclose(talk);
}

/* ---- Kafka ----------------------------------------------------------------------------------- */

static int by_time(const void *a_, const void *b_)
{
        const struct kafka_record *a = a_, *b = b_;

        if (a->timestamp_ms != b->timestamp_ms)
                return a->timestamp_ms < b->timestamp_ms ? -1 : 1;
        if (a->partition != b->partition)
                return a->partition < b->partition ? -1 : 1;
        return (a->offset > b->offset) - (a->offset < b->offset);
}

void arrivals_read_kafka(struct arrivals *arrivals, struct brokers *brokers)
{
        struct kafka_records records = kafka_read(brokers->kafka.brokers, BROKERS_TOPIC);

        /* Within a partition times go up. */
        qsort(records.items, records.n, sizeof *records.items, by_time);
        for (size_t i = 0; i < records.n; i++) {
                const struct kafka_record *record = &records.items[i];
                if (record->offset < brokers->kafka_offsets[record->partition])
                        continue;
                brokers->kafka_offsets[record->partition] = record->offset + 1;
                arrivals_note(arrivals, record->value, record->timestamp_ms * 1000 + 999);
        }
        kafka_records_deinit(&records);
}
