/* Which of several relays this is, for people: "web1/4711", host and process id. */
#pragma once

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The bytes that PostgreSQL keeps of an application_name, with its NUL. */
#define INSTANCE_SHORT_SIZE 64

/* Writes `before` and the name. Cuts a long host, so that the process id fits. */
static inline void instance_name(char *out, size_t size, const char *before)
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
