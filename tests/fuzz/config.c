/*
 * A configuration file. What it has from the environment and from other files
 * may be a secret: no error may repeat it, whatever is wrong with it.
 * ${FUZZ_SECRET} and ${file:/proc/self/fd/900} are there for it.
 */
#include "config/config.h"

#include "fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ENVIRONMENT_SECRET "swordfish-27"
#define FILE_SECRET        "halibut-91"
#define SECRET_FILE        900

static int config_file = -1;

static void write_file(int file, const void *data, size_t size)
{
        if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != (ssize_t)size)
                abort();
}

static void prepare(void)
{
        int secret = memfd_create("secret", 0);

        config_file = memfd_create("config", 0);
        write_file(secret, FILE_SECRET "\n", strlen(FILE_SECRET "\n"));
        if (dup2(secret, SECRET_FILE) < 0)
                abort();
        close(secret);
        setenv("FUZZ_SECRET", ENVIRONMENT_SECRET, 1);
        /* With the ${file:...} of an input the program must not wait for the terminal. */
        if (freopen("/dev/null", "r", stdin) == NULL)
                abort();
}

static bool holds(const uint8_t *data, size_t size, const char *text)
{
        return memmem(data, size, text, strlen(text)) != NULL;
}

static void check_error(const struct error *error, const uint8_t *data, size_t size)
{
        fuzz_require(error->kind != ERROR_NONE && error->text[0] != '\0', "an error is set", "");
        fuzz_require(fuzz_is_one_line(error->text, false), "an error is one line", error->text);
        if (!holds(data, size, "swordfish"))
                fuzz_require(strstr(error->text, ENVIRONMENT_SECRET) == NULL,
                    "no variable is repeated", error->text);
        if (!holds(data, size, "halibut"))
                fuzz_require(
                    strstr(error->text, FILE_SECRET) == NULL, "no file is repeated", error->text);
}

static void check_config(const struct config *config)
{
        fuzz_require(config->n_sinks > 0, "a configuration has a sink", "");
        fuzz_require(config->postgres.dsn != NULL, "and a database", "");
        for (unsigned i = 0; i < config->n_sinks; i++) {
                const struct sink_config *sink = &config->sinks[i];

                fuzz_require((sink->redis != NULL) + (sink->http != NULL) + (sink->email != NULL) +
                                     (sink->nats != NULL) + (sink->rabbitmq != NULL) +
                                     (sink->kafka != NULL) + (sink->stdout_ != NULL) +
                                     (sink->module != NULL) ==
                                 1,
                    "a sink has one kind", sink->name);
                fuzz_require(fuzz_is_one_line(sink->name, false), "a name is one line", sink->name);
                fuzz_require(sink->n_topics > 0, "a sink has topics", sink->name);
                for (unsigned j = 0; j < i; j++)
                        fuzz_require(strcmp(sink->name, config->sinks[j].name) != 0, "names differ",
                            sink->name);
                if (sink->redis != NULL)
                        fuzz_require(
                            (sink->redis->host == NULL) != (sink->redis->socket_path == NULL),
                            "a Redis is somewhere", sink->name);
                if (sink->nats != NULL)
                        fuzz_require(sink->nats->subject[0] != '$' &&
                                         strpbrk(sink->nats->subject, "*>") == NULL,
                            "a subject is not NATS's own", sink->nats->subject);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct error error = {.kind = ERROR_NONE};
        struct config *config;
        char path[32];

        if (config_file < 0)
                prepare();
        write_file(config_file, data, size);
        snprintf(path, sizeof path, "/proc/self/fd/%d", config_file);
        config = config_load(path, &error);
        if (config != NULL)
                check_config(config);
        else
                check_error(&error, data, size);
        config_free(config);
        return 0;
}
