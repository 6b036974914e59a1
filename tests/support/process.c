#include "support/process.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <limits.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SERVER_USER "postgres"

static char *logs[16]; /* of what was started last; the oldest is overwritten */
static unsigned n_logs;

static void note_log(const char *path)
{
        char **place = &logs[n_logs % 16];

        for (unsigned i = 0; i < 16; i++)
                if (logs[i] != NULL && strcmp(logs[i], path) == 0)
                        return;
        free(*place);
        *place = xstrdup(path);
        n_logs++;
}

void test_show_logs(void)
{
        enum { SHOWN = 4000 };

        for (unsigned i = 0; i < 16; i++) {
                char *log = logs[i] != NULL ? read_file(logs[i]) : NULL;
                size_t length = log != NULL ? strlen(log) : 0;

                if (length > 0)
                        fprintf(stderr, "end of %s:\n%s\n", logs[i],
                            length > SHOWN ? log + length - SHOWN : log);
                free(log);
        }
}

void test_abort(const char *format, ...)
{
        va_list arguments;

        test_show_logs();
        va_start(arguments, format);
        fputs("test: ", stderr);
        vfprintf(stderr, format, arguments);
        fputc('\n', stderr);
        va_end(arguments);
        abort();
}

/* The longer something takes, the less often it is looked at: so it is noticed late by a sixteenth
 * of its time at most, and looking takes no processor from what is waited for. */
static void rest(int64_t since_us)
{
        enum { SHORTEST_US = 2000, LONGEST_US = 50000 };
        int64_t pause_us = (clock_monotonic_us() - since_us) / 16;

        if (pause_us < SHORTEST_US)
                pause_us = SHORTEST_US;
        if (pause_us > LONGEST_US)
                pause_us = LONGEST_US;
        nanosleep(&(struct timespec){.tv_nsec = pause_us * 1000}, NULL);
}

/* Looked up before fork(): in the child of a process with threads, what allocates may wait for a
 * lock that no thread there will release. */
struct server_user {
        bool is_wanted;
        uid_t uid;
        gid_t gid;
        gid_t groups[32];
        int n_groups;
};

static struct server_user find_server_user(void)
{
        struct server_user found = {.is_wanted = true, .n_groups = 32};
        const struct passwd *user = getpwnam(SERVER_USER);

        if (user == NULL ||
            getgrouplist(SERVER_USER, user->pw_gid, found.groups, &found.n_groups) < 0)
                test_abort("there is no user " SERVER_USER);
        found.uid = user->pw_uid;
        found.gid = user->pw_gid;
        return found;
}

static void become_server_user(const struct server_user *user)
{
        if (setgroups((size_t)user->n_groups, user->groups) != 0 || setgid(user->gid) != 0 ||
            setuid(user->uid) != 0) {
                perror("test: cannot become the user " SERVER_USER);
                _exit(126);
        }
}

static void become_child(const char *const *argv, const char *output_path,
    const struct server_user *user, const sigset_t *signals)
{
        int output = open(
            output_path != NULL ? output_path : "/dev/null", O_WRONLY | O_CREAT | O_APPEND, 0666);
        int input = open("/dev/null", O_RDONLY);

        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        sigprocmask(SIG_SETMASK, signals, NULL);
        if (output < 0 || input < 0) {
                perror("test: cannot open a child's output");
                _exit(126);
        }
        dup2(input, STDIN_FILENO);
        dup2(output, STDOUT_FILENO);
        dup2(output, STDERR_FILENO);
        if (user->is_wanted)
                become_server_user(user);
        /* After setuid, which clears it. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        fprintf(stderr, "test: cannot run %s: %s\n", argv[0], strerror(errno));
        _exit(127);
}

static void start(
    struct process *process, const char *const *argv, const char *output_path, bool unprivileged)
{
        const char *base = strrchr(argv[0], '/');
        struct server_user user = {0};
        sigset_t all, usual;

        if (unprivileged && geteuid() == 0)
                user = find_server_user();
        snprintf(process->name, sizeof process->name, "%s", base != NULL ? base + 1 : argv[0]);
        fflush(NULL);
        /* Until exec() a child has our handlers, which would swallow its first SIGTERM. */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &usual);
        process->pid = fork();
        if (process->pid == 0)
                become_child(argv, output_path, &user, &usual);
        pthread_sigmask(SIG_SETMASK, &usual, NULL);
        if (process->pid < 0)
                test_abort("cannot fork for %s: %s", process->name, strerror(errno));
}

void process_start(
    struct process *process, const char *const *argv, const char *output_path, bool unprivileged)
{
        if (output_path != NULL)
                note_log(output_path);
        start(process, argv, output_path, unprivileged);
}

static bool reap(struct process *process, int *out_code)
{
        int status;

        if (waitpid(process->pid, &status, WNOHANG) != process->pid)
                return false;
        process->pid = 0;
        *out_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        return true;
}

bool process_is_running(struct process *process)
{
        siginfo_t state = {0};

        return process->pid != 0 &&
               waitid(P_PID, (id_t)process->pid, &state, WEXITED | WNOHANG | WNOWAIT) == 0 &&
               state.si_pid == 0;
}

/* All threads, of which kill(2) stops one after the other. */
static bool stands_still(void *process_)
{
        const struct process *process = process_;
        char *folder = xasprintf("/proc/%d/task", (int)process->pid);
        DIR *tasks = opendir(folder);
        struct dirent *task;
        bool is_still = true;

        while (is_still && tasks != NULL && (task = readdir(tasks)) != NULL) {
                char *path = xasprintf("%s/%s/stat", folder, task->d_name);
                char *text = task->d_name[0] != '.' ? read_file(path) : xstrdup(") T");
                const char *state = strrchr(text, ')');

                is_still = state == NULL || state[2] == 'T';
                free(text);
                free(path);
        }
        if (tasks != NULL)
                closedir(tasks);
        free(folder);
        return is_still;
}

void process_signal(struct process *process, int signal)
{
        if (process->pid == 0)
                return;
        kill(process->pid, signal);
        if (signal == SIGSTOP)
                wait_until(stands_still, process, 30000, "a process stands still");
}

int process_wait(struct process *process, int64_t deadline_ms)
{
        int64_t began_us = clock_monotonic_us();
        int code = 0;

        while (process->pid != 0 && !reap(process, &code)) {
                if (clock_monotonic_us() > began_us + deadline_ms * 1000)
                        test_abort(
                            "%s did not end within %lld ms", process->name, (long long)deadline_ms);
                rest(began_us);
        }
        return code;
}

int process_stop(struct process *process)
{
        process_signal(process, SIGTERM);
        return process_wait(process, 30000);
}

void process_kill(struct process *process)
{
        process_signal(process, SIGKILL);
        process_wait(process, 30000);
}

int process_run(const char *const *argv, const char *output_path, bool unprivileged)
{
        struct process process;

        start(&process, argv, output_path, unprivileged);
        return process_wait(&process, 120000);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
        (void)status;
        (void)type;
        (void)walk;
        return remove(path);
}

static char folders[32][PATH_MAX];
static int n_folders;
static pid_t folders_owner;

static void remove_folders(void)
{
        if (getpid() != folders_owner)
                return;
        for (int i = 0; i < n_folders; i++)
                nftw(folders[i], remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

char *temp_folder(void)
{
        const char *parent = getenv("TMPDIR");
        char *path;
        const struct passwd *user;

        if (folders_owner != getpid()) {
                folders_owner = getpid();
                n_folders = 0;
                atexit(remove_folders);
        }
        if (n_folders == 32)
                test_abort("too many temporary folders");
        path = folders[n_folders++];
        snprintf(path, PATH_MAX, "%s/pgcourier-test-XXXXXX", parent != NULL ? parent : "/tmp");
        if (mkdtemp(path) == NULL)
                test_abort("cannot make the folder %s: %s", path, strerror(errno));
        user = getpwnam(SERVER_USER);
        if (geteuid() == 0 && user != NULL && chown(path, user->pw_uid, user->pw_gid) != 0)
                test_abort("cannot hand %s to %s: %s", path, SERVER_USER, strerror(errno));
        return strdup(path);
}

/* By a link: spaces and colons part the paths in the variable, and that of a checkout may have some. */
void process_preload(const char *library)
{
        static char *folder;
        static pid_t owner;
        char *path;

        unsetenv("LD_PRELOAD");
        if (library == NULL)
                return;
        if (owner != getpid())
                folder = temp_folder();
        owner = getpid();
        path = xasprintf("%s%s", folder, strrchr(library, '/'));
        if (symlink(library, path) != 0 && errno != EEXIST)
                test_abort("cannot link %s to %s: %s", path, library, strerror(errno));
        setenv("LD_PRELOAD", path, 1);
        free(path);
}

static int listen_on(uint16_t port)
{
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const int reuse = 1;
        struct sockaddr_in address = {.sin_family = AF_INET,
            .sin_port = htons(port),
            .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};

        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
        if (bind(listener, (struct sockaddr *)&address, sizeof address) == 0)
                return listener;
        close(listener);
        return -1;
}

/* By a name that this process holds until it ends: others look for a port meanwhile, and a server
 * takes seconds to bind its own. */
static bool reserve(uint16_t port)
{
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        int length =
            snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "pgcourier-port-%u", port);
        int holder = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        if (bind(holder, (struct sockaddr *)&name,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0)
                return true;
        close(holder);
        return false;
}

uint16_t free_port(void)
{
        static uint32_t next;

        /* Ephemeral ports begin at 32768: one of those could be taken by any outgoing connection
         * before the server binds it. The process id spreads tests that run at the same time. */
        if (next == 0)
                next = (uint32_t)getpid() * 37u;
        for (int tries = 0; tries < 2000; tries++) {
                uint16_t port = (uint16_t)(20000 + next++ % 12000);
                int listener = reserve(port) ? listen_on(port) : -1;
                if (listener >= 0) {
                        close(listener);
                        return port;
                }
        }
        test_abort("no free port between 20000 and 32000");
}

bool port_accepts(uint16_t port)
{
        struct sockaddr_in address = {.sin_family = AF_INET,
            .sin_port = htons(port),
            .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
        int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool accepted = connect(client, (struct sockaddr *)&address, sizeof address) == 0;

        close(client);
        return accepted;
}

void wait_until(
    bool (*condition)(void *context), void *context, int64_t deadline_ms, const char *what)
{
        int64_t began_us = clock_monotonic_us();

        while (!condition(context)) {
                if (clock_monotonic_us() > began_us + deadline_ms * 1000)
                        test_abort("waited %lld ms in vain: %s", (long long)deadline_ms, what);
                rest(began_us);
        }
}

void replace_file(const char *path, const char *text)
{
        char *new_path = xasprintf("%s.new", path);
        FILE *file = fopen(new_path, "w");

        if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0 ||
            rename(new_path, path) != 0)
                test_abort("cannot write %s: %s", path, strerror(errno));
        free(new_path);
}

char *read_file(const char *path)
{
        FILE *file = fopen(path, "r");
        char *text = NULL;
        size_t capacity = 0;

        if (file == NULL || getdelim(&text, &capacity, '\0', file) < 0) {
                free(text);
                text = strdup("");
        }
        if (file != NULL)
                fclose(file);
        return text;
}
