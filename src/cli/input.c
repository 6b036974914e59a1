#include "base/bytes.h"
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static bool read_all(
    int file, const char *name, size_t max_bytes, struct bytes *content, struct error *error)
{
        char chunk[65536];

        for (;;) {
                ssize_t n_read = read(file, chunk, sizeof chunk);
                if (n_read == 0)
                        return true;
                if (n_read < 0 && errno == EINTR)
                        continue;
                if (n_read < 0)
                        return error_set(error, errno == EACCES ? ERROR_PERMISSION : ERROR_SYSTEM,
                            "cannot read %.200s: %s", name, strerror(errno));
                if ((size_t)n_read > max_bytes - content->length)
                        return error_set(error, ERROR_USAGE, "%.200s has more than %zu MiB", name,
                            max_bytes >> 20);
                bytes_append(content, chunk, (size_t)n_read);
        }
}

bool read_input(const char *path, size_t max_bytes, struct bytes *out_content, struct error *error)
{
        bool is_standard_input = strcmp(path, "-") == 0;
        int file = is_standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
        struct bytes content = {0};
        bool ok;

        if (file < 0)
                return error_set(error, errno == EACCES ? ERROR_PERMISSION : ERROR_SYSTEM,
                    "cannot open %.200s: %s", path, strerror(errno));
        ok =
            read_all(file, is_standard_input ? "standard input" : path, max_bytes, &content, error);
        if (!is_standard_input)
                close(file);
        if (ok)
                *out_content = content;
        else
                bytes_deinit(&content);
        return ok;
}
