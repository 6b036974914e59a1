#include "choice.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

static const struct {
        const char *name;
        enum kind kind;
        int error;
} kinds[] = {
    {"allocation", ALLOCATION, ENOMEM},
    {"receive-reset", RECEIVE, ECONNRESET},
    {"receive-less", RECEIVE_LESS, 0},
    {"send-pipe", SEND, EPIPE},
    {"send-less", SEND_LESS, 0},
    {"send-again", SEND_NOTHING, EAGAIN},
    {"connect-refused", CONNECT, ECONNREFUSED},
    {"connect-again", CONNECT, EAGAIN},
    {"watch-memory", WATCH, ENOMEM},
    {"descriptor-limit", DESCRIPTOR, EMFILE},
    {"thread-limit", THREAD, EAGAIN},
    {"write-full", WRITE, ENOSPC},
    {"libpq", LIBPQ, ENOMEM},
};

enum kind chosen;
static int chosen_error;
static unsigned long chosen_n;
static uint64_t chosen_hash; /* 0: by number */
static bool lists_all;
static bool also_later;
int log_file = -1;
static atomic_bool counts;
static atomic_ulong n_calls;
static atomic_bool has_failed;
_Thread_local bool is_inside;

/* The return addresses from here on outwards. Not backtrace(): it loads a library, and what the
 * loader keeps of that looks like a leak. */
struct stack {
        uintptr_t addresses[48];
        unsigned depth;
};

static _Unwind_Reason_Code on_frame(struct _Unwind_Context *frame, void *owner)
{
        struct stack *stack = owner;

        if (stack->depth == sizeof stack->addresses / sizeof *stack->addresses)
                return _URC_END_OF_STACK;
        stack->addresses[stack->depth++] = _Unwind_GetIP(frame);
        return _URC_NO_REASON;
}

static struct stack stack_here(void)
{
        struct stack stack = {.depth = 0};

        _Unwind_Backtrace(on_frame, &stack);
        return stack;
}

/* Of the places in the files, so that it is the same in the next run, wherever they are loaded. Not
 * dladdr(), which also looks for the symbol: this is asked for every call. */
static uint64_t hash_stack(const struct stack *stack)
{
        uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */

        for (unsigned i = 0; i < stack->depth; i++) {
                uintptr_t offset = stack->addresses[i];
                struct dl_find_object file;
                if (_dl_find_object((void *)stack->addresses[i], &file) == 0)
                        offset -= (uintptr_t)file.dlfo_map_start;
                hash = (hash ^ offset) * 0x100000001b3u;
        }
        return hash;
}

/* Each frame as addr2line takes it: the file, and the offset in it. */
static void log_failure(const struct stack *stack)
{
        dprintf(log_file, "this call fails:\n");
        for (unsigned i = 0; i < stack->depth; i++) {
                Dl_info place;
                if (dladdr((void *)stack->addresses[i], &place) != 0)
                        dprintf(log_file, "  %s 0x%lx %s\n", place.dli_fname,
                            (unsigned long)(stack->addresses[i] - (uintptr_t)place.dli_fbase),
                            place.dli_sname != NULL ? place.dli_sname : "");
        }
}

/* True if this call is the chosen one. */
static bool is_chosen(unsigned long n)
{
        struct stack stack;
        bool is_it;

        if (!lists_all && chosen_hash == 0 && n != chosen_n)
                return false;
        stack = stack_here();
        if (lists_all) {
                dprintf(log_file, "%lu %016" PRIx64 "\n", n, hash_stack(&stack));
                return false;
        }
        is_it = chosen_hash == 0 || hash_stack(&stack) == chosen_hash;
        if (is_it && log_file >= 0)
                log_failure(&stack);
        return is_it;
}

bool fails(enum kind kind)
{
        bool is_failing;

        if (kind != chosen || !atomic_load(&counts) || is_inside)
                return false;
        if (atomic_load(&has_failed)) {
                is_failing = also_later;
        } else {
                is_inside = true;
                is_failing = is_chosen(atomic_fetch_add(&n_calls, 1) + 1) &&
                             !atomic_exchange(&has_failed, true);
                is_inside = false;
        }
        if (is_failing)
                errno = chosen_error;
        return is_failing;
}

void choose_from_environment(void)
{
        const char *setting = getenv("PGCOURIER_TORTURE");
        const char *path = getenv("PGCOURIER_TORTURE_LOG");
        const char *colon = setting != NULL ? strchr(setting, ':') : NULL;
        char *end;

        if (colon == NULL)
                return;
        if (colon[1] == '@')
                chosen_hash = strtoull(colon + 2, &end, 16);
        else
                chosen_n = strtoul(colon + 1, &end, 10);
        lists_all = chosen_hash == 0 && chosen_n == 0;
        also_later = *end == '+';
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
                if (strlen(kinds[i].name) == (size_t)(colon - setting) &&
                    strncmp(kinds[i].name, setting, (size_t)(colon - setting)) == 0) {
                        chosen = kinds[i].kind;
                        chosen_error = kinds[i].error;
                }
        if (chosen == NONE) {
                dprintf(STDERR_FILENO, "PGCOURIER_TORTURE: no such kind: %s\n", setting);
                _exit(126);
        }
        if (path != NULL)
                log_file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

void arm(bool is_armed)
{
        atomic_store(&counts, is_armed);
}
