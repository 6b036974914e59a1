/* For the manual pages, in the language of scdoc. */
#pragma once

/* The keys of the configuration, block by block. */
void manual_print_keys(void);

/* Text, with what scdoc would take for markup escaped and line ends as spaces. */
void manual_print_text(const char *text);
