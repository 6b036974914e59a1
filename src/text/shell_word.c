#include "text/shell_word.h"

#include "base/bytes.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

void shell_word_append(struct bytes *command, const char *word)
{
        bool is_plain = *word != '\0';

        for (const char *at = word; *at != '\0'; at++)
                if (!isalnum((unsigned char)*at) && strchr("_@%+=:,./-", *at) == NULL)
                        is_plain = false;
        if (command->length > 0)
                bytes_append_text(command, " ");
        if (is_plain) {
                bytes_append_text(command, word);
                return;
        }
        bytes_append_text(command, "'");
        for (const char *at = word; *at != '\0'; at++)
                if (*at == '\'')
                        bytes_append_text(command, "'\\''");
                else
                        bytes_append(command, at, 1);
        bytes_append_text(command, "'");
}
