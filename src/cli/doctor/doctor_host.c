#include "base/alloc.h"
#include "base/bytes.h"
#include "cli/doctor/cmd_doctor.h"
#include "cli/doctor/report.h"
#include "cli/process.h"
#include "config/config.h"
#include "config/secret.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* For connections to PostgreSQL, name servers, pipes and files, and a margin. */
#define OWN_FILES 64

#define MAX_CONFIG_BYTES ((size_t)16 << 20)

static struct exposed {
        char **paths; /* owned */
        size_t n_paths;
} exposed;

static void on_exposed(const char *path)
{
        exposed.paths = xrealloc(exposed.paths, (exposed.n_paths + 1) * sizeof *exposed.paths);
        exposed.paths[exposed.n_paths++] = xstrdup(path);
}

void doctor_watch_secrets(void)
{
        secret_watch_exposed(on_exposed);
}

/* What stands in front of a secret that is written into the file itself, not of one that is in a
 * file of its own (password_file). */
static bool may_hold_secret(const char *path)
{
        static const char *const signs[] = {
            "password:", "password=", "secret:", "secrets:", "bearer:", "token:", "whsec_", NULL};
        struct error ignored;
        size_t length;
        char *text = secret_read_bytes(path, MAX_CONFIG_BYTES, &length, &ignored);
        bool holds = false;

        for (size_t i = 0; text != NULL && signs[i] != NULL; i++)
                holds |= strstr(text, signs[i]) != NULL;
        if (text != NULL)
                secret_free_bytes(text, length);
        return holds;
}

static bool is_harmless(const char *path, const char *config_path)
{
        return strcmp(path, config_path) == 0 && !may_hold_secret(path);
}

static void report_exposed(const char *config_path, struct report *report)
{
        size_t n_warned = 0;

        secret_watch_exposed(NULL);
        for (size_t i = 0; i < exposed.n_paths; i++) {
                char *remedy = xasprintf("chmod o= '%s'", exposed.paths[i]);
                if (!is_harmless(exposed.paths[i], config_path)) {
                        report_warn(report, "files", remedy,
                            "%s holds a secret, and every user may read it", exposed.paths[i]);
                        n_warned++;
                }
                free(remedy);
                free(exposed.paths[i]);
        }
        free(exposed.paths);
        exposed = (struct exposed){0};
        if (n_warned == 0)
                report_ok(report, "files", "no secret is in a file that every user may read");
}

static void check_files(const char *config_path, struct report *report)
{
        struct stat status;

        report_exposed(config_path, report);
        if (stat(config_path, &status) == 0 && (status.st_mode & S_IWOTH) != 0) {
                char *remedy = xasprintf("chmod o-w '%s'", config_path);
                report_warn(report, "files", remedy,
                    "every user may change %s, and so where events go", config_path);
                free(remedy);
        }
}

static void check_limit(const struct config *config, struct report *report)
{
        uint64_t n_allowed = process_raise_files();
        uint64_t n_needed = OWN_FILES;

        for (unsigned i = 0; i < config->n_sinks; i++)
                n_needed += config->sinks[i].concurrency != 0         ? config->sinks[i].concurrency
                            : sink_config_fans_out(&config->sinks[i]) ? HTTP_TABLE_CONCURRENCY_MIN
                                                                      : HTTP_CONCURRENCY;
        if (n_allowed < n_needed)
                report_warn(report, "open files",
                    "Raise the limit: LimitNOFILE= in the unit, or ulimit -Hn",
                    "%" PRIu64 " may be open, and the sinks may need %" PRIu64, n_allowed,
                    n_needed);
        else
                report_ok(report, "open files",
                    "%" PRIu64 " may be open, %" PRIu64 " may be needed", n_allowed, n_needed);
}

void doctor_check_host(const char *config_path, const struct config *config, struct report *report)
{
        if (geteuid() == 0)
                report_warn(report, "user",
                    "Run it as a user of its own, as the systemd unit and the image do",
                    "this runs as root, and the relay needs no privilege at all");
        else
                report_ok(report, "user", "not root");
        check_files(config_path, report);
        check_limit(config, report);
}
