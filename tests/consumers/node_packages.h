#pragma once

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The folder of the packages that docs/consumers/node/package.json names: npm's, or Debian's, which look
 * for each other by NODE_PATH; that is set to it. Where neither is there, the test is skipped. */
static inline const char *node_packages(void)
{
        static const char *const folders[] = {
            PGCOURIER_SOURCE_FOLDER "/.cache/consumers/node/node_modules", "/usr/share/nodejs"};

        for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
                char *package = xasprintf("%s/redis/package.json", folders[i]);
                bool is_there = access(package, R_OK) == 0;

                free(package);
                if (is_there) {
                        setenv("NODE_PATH", folders[i], 1);
                        return folders[i];
                }
        }
        fputs("no packages of Node here: scripts/deps --test gets them\n", stderr);
        cr_skip_test();
}
