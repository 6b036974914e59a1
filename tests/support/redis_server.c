#include "support/redis_server.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static redisContext *connect_to(const struct redis_server *server)
{
        const struct timeval limit = {.tv_sec = 10};
        redisContext *context = redisConnectWithTimeout("127.0.0.1", server->port, limit);

        if (context == NULL || context->err != 0) {
                redisFree(context);
                return NULL;
        }
        redisSetTimeout(context, limit);
        if (server->password != NULL)
                freeReplyObject(redisCommand(context, "AUTH %s", server->password));
        return context;
}

/* It may want a password, so any answer will do but that it is still loading. */
static bool answers(void *server_)
{
        struct redis_server *server = server_;
        redisContext *context;
        redisReply *reply;
        bool is_ready;

        if (!process_is_running(&server->process)) {
                char path[128];
                snprintf(path, sizeof path, "%s/log.txt", server->folder);
                test_abort("redis-server ended at once: %s", read_file(path));
        }
        context = connect_to(server);
        if (context == NULL)
                return false;
        reply = redisCommand(context, "PING");
        is_ready = reply != NULL && strncmp(reply->str, "LOADING", 7) != 0;
        freeReplyObject(reply);
        redisFree(context);
        return is_ready;
}

void redis_server_restart(struct redis_server *server)
{
        char port[8];
        char log_path[128];
        const char *argv[64] = {"redis-server", "--port", port, "--bind", "127.0.0.1",
            "--unixsocket", server->socket_path, "--unixsocketperm", "777", "--dir", server->folder,
            "--save", "", "--appendonly", "no", "--daemonize", "no"};
        size_t n = 0;

        snprintf(port, sizeof port, "%u", server->port);
        snprintf(log_path, sizeof log_path, "%s/log.txt", server->folder);
        while (argv[n] != NULL)
                n++;
        for (const char *const *option = server->options; option != NULL && *option != NULL;
             option++) {
                if (n == sizeof argv / sizeof argv[0] - 1)
                        test_abort("too many options for redis-server");
                argv[n++] = *option;
        }
        process_start(&server->process, argv, log_path, true);
        wait_until(answers, server, 120000, "redis-server does not answer");
}

void redis_server_start(struct redis_server *server, const char *const *options)
{
        *server = (struct redis_server){.folder = temp_folder(), .port = free_port()};
        server->options = options;
        for (const char *const *option = options; option != NULL && *option != NULL; option++)
                if (strcmp(*option, "--requirepass") == 0)
                        server->password = option[1];
        snprintf(server->socket_path, sizeof server->socket_path, "%s/redis.sock", server->folder);
        redis_server_restart(server);
}

void redis_server_stop(struct redis_server *server)
{
        process_stop(&server->process);
}

void redis_server_kill(struct redis_server *server)
{
        process_kill(&server->process);
}

void redis_server_pause(struct redis_server *server)
{
        process_signal(&server->process, SIGSTOP);
}

void redis_server_resume(struct redis_server *server)
{
        process_signal(&server->process, SIGCONT);
}

void redis_server_destroy(struct redis_server *server)
{
        process_kill(&server->process);
        free(server->folder);
}

/* With a command unread, closing is a reset; one that is written later meets a broken pipe. */
static bool is_closed(const redisContext *context)
{
        return context->err == REDIS_ERR_EOF ||
               (context->err == REDIS_ERR_IO && (errno == ECONNRESET || errno == EPIPE));
}

static redisReply *ask(
    struct redis_server *server, bool may_close, const char *format, va_list arguments)
{
        redisContext *context = connect_to(server);
        redisReply *reply;

        if (context == NULL)
                test_abort("cannot connect to redis-server for %s", format);
        reply = redisvCommand(context, format, arguments);
        if (reply == NULL && !(may_close && is_closed(context)))
                test_abort("no answer to %s: %s", format, context->errstr);
        redisFree(context);
        return reply;
}

static redisReply *run(struct redis_server *server, const char *format, va_list arguments)
{
        return ask(server, false, format, arguments);
}

redisReply *redis_server_ask(struct redis_server *server, const char *format, ...)
{
        va_list arguments;
        redisReply *reply;

        va_start(arguments, format);
        reply = ask(server, true, format, arguments);
        va_end(arguments);
        return reply;
}

redisReply *redis_server_run(struct redis_server *server, const char *format, ...)
{
        va_list arguments;
        redisReply *reply;

        va_start(arguments, format);
        reply = run(server, format, arguments);
        va_end(arguments);
        return reply;
}

void redis_server_do(struct redis_server *server, const char *format, ...)
{
        va_list arguments;
        redisReply *reply;

        va_start(arguments, format);
        reply = run(server, format, arguments);
        va_end(arguments);
        if (reply->type == REDIS_REPLY_ERROR)
                test_abort("%s: %s", format, reply->str);
        freeReplyObject(reply);
}

long long redis_server_count(struct redis_server *server, const char *format, ...)
{
        va_list arguments;
        redisReply *reply;
        long long count;

        va_start(arguments, format);
        reply = run(server, format, arguments);
        va_end(arguments);
        if (reply->type != REDIS_REPLY_INTEGER)
                test_abort("%s: the answer is no number", format);
        count = reply->integer;
        freeReplyObject(reply);
        return count;
}
