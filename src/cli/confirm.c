#include "cli/confirm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

bool confirm_can_ask(void)
{
        return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

bool confirm_ask(const char *question)
{
        char *answer = NULL;
        size_t capacity = 0;
        bool is_yes = false;

        fprintf(stderr, "%s? [y/N] ", question);
        if (getline(&answer, &capacity, stdin) > 0) {
                answer[strcspn(answer, "\r\n")] = '\0';
                is_yes = strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0;
        }
        free(answer);
        return is_yes;
}
