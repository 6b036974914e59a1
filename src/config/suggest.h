/* The word that a mistyped one was probably meant to be. */
#pragma once

/* Whichever of `best` (may be NULL) and `candidate` is nearer to `word`; NULL if neither is near
 * enough to be worth proposing. `best` must come from an earlier call with the same word. */
const char *suggest_nearer(const char *word, const char *best, const char *candidate);
