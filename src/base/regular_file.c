#include "base/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static _Thread_local struct {
        regular_file_watch_fn *watch; /* or NULL */
        void *owner;
} watcher;

void regular_file_watch(regular_file_watch_fn *watch, void *owner)
{
        watcher.watch = watch;
        watcher.owner = owner;
}

int regular_file_stat(const char *path, struct stat *out_status)
{
        if (watcher.watch != NULL)
                watcher.watch(watcher.owner, path);
        return stat(path, out_status);
}

static int fail_with_errno(struct error *error)
{
        enum error_kind kind = ERROR_CONFIG;

        if (errno == EACCES || errno == EPERM)
                kind = ERROR_PERMISSION;
        else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
                kind = ERROR_TEMPORARY; /* about this machine, not about the file */
        error_set(error, kind, "cannot be read: %s", strerror(errno));
        return -1;
}

static const char *name_kind(mode_t mode)
{
        if (S_ISDIR(mode))
                return "a folder";
        if (S_ISFIFO(mode))
                return "a named pipe";
        if (S_ISSOCK(mode))
                return "a socket";
        return "a device";
}

static bool refuse_others(mode_t mode, struct error *error)
{
        return S_ISREG(mode) ||
               error_set(error, ERROR_CONFIG, "is %s; it must be a regular file", name_kind(mode));
}

int regular_file_open(const char *path, struct error *error)
{
        struct stat status;
        int file;

        if (regular_file_stat(path, &status) != 0)
                return fail_with_errno(error);
        if (!refuse_others(status.st_mode, error))
                return -1;
        file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (file < 0)
                return fail_with_errno(error);
        /* Another one may have taken its place. */
        if (fstat(file, &status) == 0 && refuse_others(status.st_mode, error))
                return file;
        close(file);
        return -1;
}

bool regular_file_check(const char *path, struct error *error)
{
        struct stat status;

        return regular_file_stat(path, &status) != 0 || refuse_others(status.st_mode, error);
}
