#include "config/suggest.h"

#include <stddef.h>
#include <string.h>

enum { MAX_WORD = 32, FAR = 99 };

static size_t smaller(size_t a, size_t b)
{
        return a < b ? a : b;
}

/* Insertions, deletions, substitutions and swaps of neighbours between two words. */
static size_t distance(const char *a, const char *b)
{
        size_t n_a = strlen(a);
        size_t n_b = strlen(b);
        size_t table[MAX_WORD + 1][MAX_WORD + 1];

        if (n_a > MAX_WORD || n_b > MAX_WORD)
                return FAR;
        for (size_t i = 0; i <= n_a; i++) {
                for (size_t j = 0; j <= n_b; j++) {
                        if (i == 0 || j == 0) {
                                table[i][j] = i + j;
                                continue;
                        }
                        table[i][j] = smaller(table[i - 1][j - 1] + (a[i - 1] != b[j - 1]),
                            smaller(table[i - 1][j], table[i][j - 1]) + 1);
                        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                                table[i][j] = smaller(table[i][j], table[i - 2][j - 2] + 1);
                }
        }
        return table[n_a][n_b];
}

const char *suggest_nearer(const char *word, const char *best, const char *candidate)
{
        size_t far = distance(word, candidate);
        size_t best_far = best != NULL ? distance(word, best) : FAR;

        if (far > (strlen(candidate) + 2) / 3 || far >= best_far)
                return best;
        return candidate;
}
