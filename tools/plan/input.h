/* Files that rondo-plan reads whole. "-" is standard input. */
#ifndef PLAN_INPUT_H
#define PLAN_INPUT_H

#include <stddef.h>

/* Reads at most `most` bytes. A zero follows them. The caller frees *text, which is NULL after a
   failure. Returns 0 or an error with its reason: a longer file is one. */
int plan_input_read(const char *path, size_t most, char **text, size_t *size);

#endif
