#include "base/instance.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void instance_name(char *out, size_t size, const char *before)
{
        char host[256] = "";
        char pid[24];
        size_t n_taken;

        gethostname(host, sizeof host - 1);
        snprintf(pid, sizeof pid, "/%ld", (long)getpid());
        n_taken = strlen(before) + strlen(pid) + 1;
        snprintf(
            out, size, "%s%.*s%s", before, (int)(size > n_taken ? size - n_taken : 0), host, pid);
}
