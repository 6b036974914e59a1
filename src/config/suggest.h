/* Suggestions for mistyped words. */
#pragma once

/* Returns `best` or `candidate`, the nearer to `word`; NULL if neither is near enough to propose.
 * `best` is NULL or the result of an earlier call with the same word. */
const char *suggest_nearer(const char *word, const char *best, const char *candidate);
