#include "support/pgbouncer.h"

#include "base/alloc.h"

#include <stdlib.h>

static bool accepts(void *context)
{
        return port_accepts(*(uint16_t *)context);
}

void pgbouncer_start(struct pgbouncer *pgbouncer, const struct postgres *postgres,
    const char *addresses, const char *settings)
{
        char *folder = temp_folder();
        char *path = xasprintf("%s/pgbouncer.ini", folder);
        char *users = xasprintf("%s/users.txt", folder);
        char *log = xasprintf("%s/log", folder);
        char *text;

        pgbouncer->port = free_port();
        text = xasprintf("[databases]\n* = host=%s port=%u\n[pgbouncer]\nlisten_addr = %s\n"
                         "listen_port = %u\nunix_socket_dir =\nauth_type = trust\nauth_file = %s\n"
                         "%s",
            postgres->folder, postgres->port, addresses, pgbouncer->port, users, settings);
        replace_file(path, text);
        replace_file(users, "\"relay\" \"\"\n\"postgres\" \"\"\n");
        process_start(&pgbouncer->process, (const char *[]){"pgbouncer", path, NULL}, log, true);
        wait_until(accepts, &pgbouncer->port, 30000, "pgbouncer does not listen");
        free(text);
        free(log);
        free(users);
        free(path);
        free(folder);
}
