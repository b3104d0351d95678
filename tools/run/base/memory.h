/*
 * Memory of a bounded size.
 */
#ifndef RUN_BASE_MEMORY_H
#define RUN_BASE_MEMORY_H

#include <stddef.h>

/* Writes a line to stderr: there is no memory. */
void memory_report_lack(void);

/*
 * For what rondo-run cannot go on without: they end it with that line. The guard then ends the
 * ranks.
 */

/* As calloc(). */
void *memory_calloc(size_t count, size_t size);
/* As realloc(). */
void *memory_realloc(void *memory, size_t size);
/* Returns the array with room for one element more, and updates *capacity. */
void *memory_grow(void *array, int count, int *capacity, size_t size);

#endif
