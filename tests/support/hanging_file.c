/*
 * A library for LD_PRELOAD that makes the file PGCOURIER_HANGING_FILE one of a file system that
 * does not answer, as long as there is a file of that name with ".hangs" behind it.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void wait_for_it(const char *path)
{
        const char *hanging = getenv("PGCOURIER_HANGING_FILE");
        char flag[4096];

        if (hanging == NULL || strcmp(path, hanging) != 0)
                return;
        snprintf(flag, sizeof flag, "%s.hangs", path);
        while (access(flag, F_OK) == 0)
                usleep(10 * 1000);
}

int stat(const char *restrict path, struct stat *restrict out_status)
{
        wait_for_it(path);
        return fstatat(AT_FDCWD, path, out_status, 0);
}

int open(const char *path, int flags, ...)
{
        va_list arguments;
        mode_t mode;

        va_start(arguments, flags);
        mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
        va_end(arguments);
        wait_for_it(path);
        return openat(AT_FDCWD, path, flags, mode);
}
