#include "loop/http/listen_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BACKLOG = 64, UNIX_MODE = 0660 };

static bool fail(struct error *error, const struct listen_address *address, const char *what)
{
        int why = errno;
        enum error_kind kind = ERROR_CONFIG;
        const char *hint = "";

        if (why == EACCES || why == EPERM)
                kind = ERROR_PERMISSION;
        else if (why == EADDRINUSE || why == EMFILE || why == ENFILE || why == ENOBUFS)
                kind = ERROR_TEMPORARY;
        if (why == EADDRINUSE)
                hint = ": another process listens there; end it, or choose another admin.listen";
        else if (why == EADDRNOTAVAIL)
                hint = ": this machine has no such address; change admin.listen";
        if (address->path[0] != '\0')
                return error_set(error, kind, "admin.listen: cannot %s unix:%s: %s%s", what,
                    address->path, strerror(why), hint);
        return error_set(error, kind, "admin.listen: cannot %s %s port %u: %s%s", what,
            address->host, address->port, strerror(why), hint);
}

/* Only a socket on which no process answers is replaced. */
static bool clear_path(const struct listen_address *address, struct error *error)
{
        struct sockaddr_storage to;
        socklen_t length = listen_address_socket(address, &to);
        struct stat status;
        int probe;
        bool is_stale;

        if (lstat(address->path, &status) != 0)
                return errno == ENOENT || fail(error, address, "look at");
        if (!S_ISSOCK(status.st_mode))
                return error_set(error, ERROR_CONFIG,
                    "admin.listen: %s is there and is no socket; move it away, or choose another "
                    "path",
                    address->path);
        probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (probe < 0)
                return fail(error, address, "probe");
        is_stale = connect(probe, (struct sockaddr *)&to, length) != 0 && errno == ECONNREFUSED;
        close(probe);
        if (is_stale)
                return unlink(address->path) == 0 || fail(error, address, "replace");
        errno = EADDRINUSE;
        return fail(error, address, "listen on");
}

/* No client can connect before listen(), so the mode is right before the first one does. */
static bool bind_and_listen(int file, const struct listen_address *address, struct error *error)
{
        struct sockaddr_storage to;
        socklen_t length = listen_address_socket(address, &to);
        const int on = 1;

        if (address->path[0] == '\0')
                setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (to.ss_family == AF_INET6)
                setsockopt(file, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
        if (bind(file, (struct sockaddr *)&to, length) != 0)
                return fail(error, address, "listen on");
        if (address->path[0] != '\0' && chmod(address->path, UNIX_MODE) != 0)
                return fail(error, address, "set the mode of");
        return listen(file, BACKLOG) == 0 || fail(error, address, "listen on");
}

bool listen_socket_open(
    struct listen_socket *out_socket, const struct listen_address *address, struct error *error)
{
        struct sockaddr_storage to;
        struct stat status;
        int file;

        if (address->path[0] != '\0' && !clear_path(address, error))
                return false;
        listen_address_socket(address, &to);
        file = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (file < 0)
                return fail(error, address, "listen on");
        if (!bind_and_listen(file, address, error)) {
                close(file);
                return false;
        }
        *out_socket = (struct listen_socket){.file = file, .address = *address};
        if (address->path[0] != '\0' && lstat(address->path, &status) == 0) {
                out_socket->device = status.st_dev;
                out_socket->inode = status.st_ino;
                out_socket->changed = status.st_ctim;
        }
        return true;
}

static bool is_ours(const struct listen_socket *socket, const struct stat *status)
{
        return status->st_dev == socket->device && status->st_ino == socket->inode &&
               status->st_ctim.tv_sec == socket->changed.tv_sec &&
               status->st_ctim.tv_nsec == socket->changed.tv_nsec;
}

void listen_socket_remove(const struct listen_socket *socket)
{
        const char *path = socket->address.path;
        struct stat status;

        if (path[0] != '\0' && lstat(path, &status) == 0 && is_ours(socket, &status))
                unlink(path);
}
