/* A folder for decoders that read files by name: made once, and removed when the process ends. */
#ifndef FUZZ_FOLDER_H
#define FUZZ_FOLDER_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define FUZZ_FILES_MAX 8

/* The path of a file in the folder; each name is given once. */
const char *fuzz_folder_file(const char *name);
const char *fuzz_folder(void);
/* Writes the file anew. */
void fuzz_folder_write(const char *path, const uint8_t *bytes, size_t size);

#endif
