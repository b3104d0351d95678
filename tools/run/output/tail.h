/*
 * The last lines of a rank's stderr, for the report of its failure.
 */
#ifndef RUN_OUTPUT_TAIL_H
#define RUN_OUTPUT_TAIL_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes that are kept, and lines that are reported. */
#define TAIL_SIZE 2048
#define TAIL_LINES 10
/* Bytes of a text with these lines, the last a zero. */
#define TAIL_TEXT_SIZE (TAIL_SIZE + 2)

struct tail {
	char data[TAIL_SIZE]; /* the last bytes that were written */
	size_t size;
	bool cut; /* others were written before */
};

void tail_write(struct tail *tail, const char *data, size_t size);

/* Reads the end of a file. False, with errno, where that fails. */
bool tail_read_file(struct tail *tail, const char *path);

/*
 * Writes the last lines as text[size], each with its '\n'. A line stands as a screen would show it:
 * without the part that a carriage return has overwritten, escape sequences and control characters.
 * A line whose start is lost is left out, unless it is the only one.
 */
void tail_text(const struct tail *tail, char text[TAIL_TEXT_SIZE]);

#endif
