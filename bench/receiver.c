/*
 * The webhook receiver of the benchmark, fast enough not to be what is measured:
 *
 *   receiver PORT DELAY_MS FILE [CERTIFICATE]
 *
 * Whatever is posted to PORT, at any address of the machine, is answered with 200 after DELAY_MS; by
 * TLS if there is a CERTIFICATE: a PEM file that holds its key, too. Connections are kept.
 * A connection to PORT+1 is never answered. Nothing listens on PORT+2.
 *
 * FILE is shared memory for the program that measures: the number of requests, then a record of each. A path
 * that ends in a number names the receiver, and a body may hold "at" (microseconds) and "n".
 */
#define _GNU_SOURCE /* accept4(), epoll_pwait2() */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define REQUEST_MAX    8192
#define RECORDS_MAX    (8u << 20)
#define ANSWERS_MAX    65536 /* that wait for their time; one for each connection is enough */
#define CONNS_MAX      65536
#define EVENTS_AT_ONCE 256

struct record {
        int64_t at_us;
        int64_t arrived_us;
        int32_t n;
        int32_t receiver;
};

struct log {
        uint64_t n_records;
        uint64_t n_connections;
        struct record records[RECORDS_MAX];
};

enum conn_kind { CONN_NONE, CONN_LISTENER, CONN_SILENT_LISTENER, CONN_TALKING, CONN_SILENT };

struct conn {
        enum conn_kind kind;
        uint32_t generation; /* an answer that comes due may belong to an earlier connection */
        SSL *ssl;            /* NULL: no TLS */
        size_t n_bytes;
        char *bytes; /* of REQUEST_MAX; kept for the next connection */
};

struct answer {
        int64_t due_us;
        int fd;
        uint32_t generation;
};

static struct conn conns[CONNS_MAX];
static struct answer answers[ANSWERS_MAX]; /* a ring: all wait equally long */
static size_t first_answer, n_answers;
static struct log *log_;
static int64_t delay_us;
static int poll_fd;
static SSL_CTX *tls; /* NULL: none */

static void die(const char *what)
{
        perror(what);
        exit(1);
}

static int64_t wall_us(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static void watch(int fd, enum conn_kind kind)
{
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

        if (fd < 0 || fd >= CONNS_MAX)
                die("a socket");
        conns[fd].kind = kind;
        conns[fd].generation++;
        conns[fd].n_bytes = 0;
        if (conns[fd].bytes == NULL && (conns[fd].bytes = malloc(REQUEST_MAX + 1)) == NULL)
                die("malloc");
        if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
                die("epoll_ctl");
}

static void listen_on(unsigned long port, enum conn_kind kind)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        int one = 1;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 4096) != 0)
                die("listen");
        watch(fd, kind);
}

static void begin_tls(int fd)
{
        SSL *ssl = SSL_new(tls);

        if (ssl == NULL || SSL_set_fd(ssl, fd) != 1)
                die("TLS");
        SSL_set_accept_state(ssl);
        conns[fd].ssl = ssl;
}

static void accept_all(int listener, enum conn_kind kind)
{
        int one = 1;
        int fd;

        while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                log_->n_connections++;
                watch(fd, kind);
                if (tls != NULL && kind == CONN_TALKING)
                        begin_tls(fd);
        }
}

static void hang_up(int fd)
{
        SSL_free(conns[fd].ssl);
        conns[fd].ssl = NULL;
        conns[fd].kind = CONN_NONE;
        conns[fd].generation++;
        close(fd);
}

static void send_answer(int fd)
{
        static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        SSL *ssl = conns[fd].ssl;
        ssize_t n = ssl != NULL ? SSL_write(ssl, ok, sizeof ok - 1) : write(fd, ok, sizeof ok - 1);

        if (n != sizeof ok - 1)
                hang_up(fd);
}

static void send_due_answers(void)
{
        int64_t now_us = n_answers > 0 ? wall_us() : 0;

        while (n_answers > 0 && answers[first_answer].due_us <= now_us) {
                struct answer due = answers[first_answer];
                first_answer = (first_answer + 1) % ANSWERS_MAX;
                n_answers--;
                if (conns[due.fd].generation == due.generation)
                        send_answer(due.fd);
        }
}

/* Until something has come or the first answer is due, whichever is earlier. */
static int wait_for_events(struct epoll_event *events)
{
        int64_t rest_us = n_answers > 0 ? answers[first_answer].due_us - wall_us() : 0;
        struct timespec rest = {0};

        if (n_answers == 0)
                return epoll_wait(poll_fd, events, EVENTS_AT_ONCE, -1);
        if (rest_us > 0)
                rest = (struct timespec){rest_us / 1000000, rest_us % 1000000 * 1000};
        return epoll_pwait2(poll_fd, events, EVENTS_AT_ONCE, &rest, NULL);
}

static void answer_later(int fd, int64_t now_us)
{
        if (n_answers == ANSWERS_MAX)
                die("too many requests at once");
        answers[(first_answer + n_answers++) % ANSWERS_MAX] = (struct answer){
            .due_us = now_us + delay_us, .fd = fd, .generation = conns[fd].generation};
}

static int64_t number_after(const char *text, const char *name)
{
        const char *at = strstr(text, name);

        return at != NULL ? strtoll(at + strlen(name), NULL, 10) : 0;
}

static void note_request(const char *head, const char *body, int64_t now_us)
{
        const char *path_end = strstr(head, " HTTP/");
        const char *number = path_end;

        while (number != NULL && number > head && number[-1] >= '0' && number[-1] <= '9')
                number--;
        if (log_->n_records == RECORDS_MAX)
                die("too many requests");
        log_->records[log_->n_records] = (struct record){.at_us = number_after(body, "\"at\":"),
            .arrived_us = now_us,
            .n = (int32_t)number_after(body, "\"n\":"),
            .receiver = number != NULL ? (int32_t)strtol(number, NULL, 10) : 0};
        __atomic_store_n(&log_->n_records, log_->n_records + 1, __ATOMIC_RELEASE);
}

/* Most clients write it with capitals, and asking for any case would cost those. */
static size_t content_length(const char *head)
{
        int64_t length = number_after(head, "Content-Length:");

        return (size_t)(length > 0 ? length : number_after(head, "content-length:"));
}

/* One request, if it is there in full; how many bytes it has. */
static size_t take_request(struct conn *conn, int64_t now_us)
{
        char *end;
        size_t n_bytes;

        conn->bytes[conn->n_bytes] = '\0';
        end = strstr(conn->bytes, "\r\n\r\n");
        if (end == NULL)
                return 0;
        end += 4;
        n_bytes = (size_t)(end - conn->bytes) + content_length(conn->bytes);
        if (n_bytes > conn->n_bytes)
                return 0;
        note_request(conn->bytes, end, now_us);
        return n_bytes;
}

/* How many bytes; 0: none yet; -1: the connection has ended. */
static ssize_t read_some(int fd)
{
        struct conn *conn = &conns[fd];
        char *end = conn->bytes + conn->n_bytes;
        size_t room = REQUEST_MAX - conn->n_bytes;
        ssize_t n;

        if (conn->ssl == NULL) {
                n = read(fd, end, room);
                return n > 0 ? n : n < 0 && errno == EAGAIN ? 0 : -1;
        }
        n = SSL_read(conn->ssl, end, (int)room);
        if (n > 0)
                return n;
        return SSL_get_error(conn->ssl, (int)n) == SSL_ERROR_WANT_READ ? 0 : -1;
}

static void read_requests(int fd)
{
        struct conn *conn = &conns[fd];
        ssize_t n_read = read_some(fd);
        int64_t now_us = wall_us();
        size_t n_taken;

        if (n_read < 0)
                hang_up(fd);
        if (n_read <= 0)
                return;
        if (conn->kind == CONN_SILENT)
                return;
        conn->n_bytes += (size_t)n_read;
        while (conn->n_bytes > 0 && conn->kind == CONN_TALKING &&
               (n_taken = take_request(conn, now_us)) > 0) {
                conn->n_bytes -= n_taken;
                memmove(conn->bytes, conn->bytes + n_taken, conn->n_bytes);
                if (delay_us > 0)
                        answer_later(fd, now_us);
                else
                        send_answer(fd);
        }
}

static void handle(int fd)
{
        switch (conns[fd].kind) {
        case CONN_LISTENER:
                accept_all(fd, CONN_TALKING);
                return;
        case CONN_SILENT_LISTENER:
                accept_all(fd, CONN_SILENT);
                return;
        case CONN_TALKING:
        case CONN_SILENT:
                read_requests(fd);
                return;
        case CONN_NONE:
                return;
        }
}

static void open_log(const char *path)
{
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

        if (fd < 0 || ftruncate(fd, sizeof(struct log)) != 0)
                die(path);
        log_ = mmap(NULL, sizeof(struct log), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (log_ == MAP_FAILED)
                die(path);
        close(fd);
}

static void allow_many_files(void)
{
        struct rlimit files;

        getrlimit(RLIMIT_NOFILE, &files);
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
}

static void use_tls(const char *certificate)
{
        tls = SSL_CTX_new(TLS_server_method());
        if (tls == NULL || SSL_CTX_use_certificate_chain_file(tls, certificate) != 1 ||
            SSL_CTX_use_PrivateKey_file(tls, certificate, SSL_FILETYPE_PEM) != 1)
                die(certificate);
        SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS);
}

int main(int n_args, char **args)
{
        struct epoll_event events[EVENTS_AT_ONCE];
        unsigned long port;

        if (n_args != 4 && n_args != 5) {
                fprintf(stderr, "usage: receiver PORT DELAY_MS FILE [CERTIFICATE]\n");
                return 2;
        }
        port = strtoul(args[1], NULL, 10);
        delay_us = strtol(args[2], NULL, 10) * 1000;
        allow_many_files();
        open_log(args[3]);
        if (n_args == 5)
                use_tls(args[4]);
        poll_fd = epoll_create1(0);
        listen_on(port, CONN_LISTENER);
        listen_on(port + 1, CONN_SILENT_LISTENER);
        for (;;) {
                int n = wait_for_events(events);
                for (int i = 0; i < n; i++)
                        handle(events[i].data.fd);
                send_due_answers();
        }
}
