/* Words of commands that people are told to paste into a shell. */
#pragma once

struct bytes;

/* Appends it, quoted if it has to be, behind a space if it is not the first. */
void shell_word_append(struct bytes *command, const char *word);
