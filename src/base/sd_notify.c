/*
 * One socket for each message: they are seconds apart, and a manager that was
 * executed anew has a new one. A name with a leading '@' is in the abstract
 * name space, where the first byte of the address is NUL.
 */
#include "base/sd_notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

bool sd_notify_is_wanted(void)
{
        const char *name = getenv("NOTIFY_SOCKET");

        return name != NULL && *name != '\0';
}

static int64_t number_in(const char *variable)
{
        const char *text = getenv(variable);
        char *end;
        long long number;

        if (text == NULL)
                return -1;
        errno = 0;
        number = strtoll(text, &end, 10);
        return *text != '\0' && *end == '\0' && errno == 0 ? number : -1;
}

int64_t sd_notify_watchdog_us(void)
{
        const int64_t interval_us = number_in("WATCHDOG_USEC");

        if (interval_us <= 0)
                return 0;
        /* The variables are inherited: they may be meant for our parent. */
        if (getenv("WATCHDOG_PID") != NULL && number_in("WATCHDOG_PID") != getpid())
                return 0;
        return interval_us;
}

/* The length of the address, or 0 and errno. */
static socklen_t find_address(struct sockaddr_un *address)
{
        const char *name = getenv("NOTIFY_SOCKET");
        size_t length = name != NULL ? strlen(name) : 0;

        if (length == 0 || (name[0] != '/' && name[0] != '@') ||
            length >= sizeof address->sun_path) {
                errno = length == 0 ? ENOENT : EINVAL;
                return 0;
        }
        *address = (struct sockaddr_un){.sun_family = AF_UNIX};
        memcpy(address->sun_path, name, length);
        if (name[0] == '@')
                address->sun_path[0] = '\0';
        return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}

bool sd_notify_send(const char *lines)
{
        const struct timeval patience = {.tv_sec = 1}; /* with a manager whose queue is full */
        const size_t length = strlen(lines);
        struct sockaddr_un address;
        const socklen_t address_length = find_address(&address);
        ssize_t n_sent;
        int kept_errno;
        int file;

        if (address_length == 0)
                return false;
        file = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (file < 0)
                return false;
        setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        n_sent =
            sendto(file, lines, length, MSG_NOSIGNAL, (struct sockaddr *)&address, address_length);
        kept_errno = errno;
        close(file);
        errno = kept_errno;
        return n_sent == (ssize_t)length;
}
