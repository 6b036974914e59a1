#include "config/secret.h"

#include "base/alloc.h"
#include "base/regular_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_LINE_BYTES = 64 * 1024 };

/* One block of full size from the start: growing it would leave copies of secrets behind. */
static bool read_all(
    int file, char *data, size_t max_bytes, size_t *out_length, struct error *error)
{
        size_t length = 0;

        while (length <= max_bytes) {
                ssize_t n = read(file, data + length, max_bytes + 1 - length);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return error_set(
                            error, ERROR_CONFIG, "cannot be read: %s", strerror(errno));
                if (n == 0) {
                        *out_length = length;
                        return true;
                }
                length += (size_t)n;
        }
        return error_set(error, ERROR_CONFIG, "is larger than %zu KiB", max_bytes / 1024);
}

static void (*exposed_watcher)(const char *path); /* NULL: none */

void secret_watch_exposed(void (*on_exposed)(const char *path))
{
        exposed_watcher = on_exposed;
}

static void tell_if_exposed(int file, const char *path)
{
        struct stat status;

        if (exposed_watcher != NULL && fstat(file, &status) == 0 && (status.st_mode & S_IROTH) != 0)
                exposed_watcher(path);
}

char *secret_read_bytes(const char *path, size_t max_bytes, size_t *out_length, struct error *error)
{
        int file = regular_file_open(path, error);
        char *data;
        bool is_read;

        if (file < 0)
                return NULL;
        tell_if_exposed(file, path);
        data = xcalloc(max_bytes + 2, 1);
        is_read = read_all(file, data, max_bytes, out_length, error);
        close(file);
        if (is_read)
                return data;
        secret_free_bytes(data, max_bytes + 1);
        return NULL;
}

char *secret_read_line(const char *path, struct error *error)
{
        size_t length;
        char *data = secret_read_bytes(path, MAX_LINE_BYTES, &length, error);
        char *line = NULL;

        if (data == NULL)
                return NULL;
        if (length > 0 && data[length - 1] == '\n')
                data[--length] = '\0';
        if (length == 0)
                error_set(error, ERROR_CONFIG, "is empty");
        else if (memchr(data, '\0', length) != NULL)
                error_set(error, ERROR_CONFIG, "holds a NUL byte; it must hold one line of text");
        else if (memchr(data, '\r', length) != NULL || memchr(data, '\n', length) != NULL)
                error_set(error, ERROR_CONFIG,
                    "holds a line break (LF or CR) inside; it must hold one line of text");
        else
                line = xstrndup(data, length);
        secret_free_bytes(data, length);
        return line;
}

void secret_free(char *text)
{
        if (text != NULL)
                secret_free_bytes(text, strlen(text));
}

void secret_free_bytes(char *data, size_t length)
{
        if (data == NULL)
                return;
        explicit_bzero(data, length);
        free(data);
}
