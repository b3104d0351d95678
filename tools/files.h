/* Files that rondo-plan and rondo-topo read and write whole. "-" is standard input, or output. */
#ifndef TOOLS_FILES_H
#define TOOLS_FILES_H

#include <stdio.h>

/* Reads at most `most` bytes. A zero follows them. The caller frees *text, which is NULL after a
   failure. Returns 0 or an error with its reason: a longer file is one. */
int file_read(const char *path, size_t most, char **text, size_t *size);

/* Opens a file to write it anew. NULL, with its reason recorded. */
FILE *file_create(const char *name);
/* Returns 0, or an error where something was not written. */
int file_close(FILE *file, const char *name);
/* Writes a whole file. Returns 0 or an error. */
int file_save(const char *name, const char *bytes, size_t size);

#endif
