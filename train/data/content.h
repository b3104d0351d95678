/*
 * The content of a file, read only. A plain file is mapped; a gzip file (RFC 1952) is inflated once
 * into memory.
 *
 * A file that another program cuts off while it is mapped raises SIGBUS on access. A handler then
 * puts zero pages in its place, and content_check() reports it. Any thread may read the bytes; one
 * thread opens, checks and closes.
 */
#ifndef TRAIN_CONTENT_H
#define TRAIN_CONTENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct content {
	char *path;
	const uint8_t *bytes; /* [size] */
	size_t size;
	bool inflated; /* offsets count unpacked bytes */
	atomic_size_t lost; /* the first offset that was found missing, + 1; 0: none */
};

/* Only regular files. A failure names the file, and the offset of a fault in it. On failure nothing
   is to be closed. */
int content_open(struct content *content, const char *path);
/* Accepts one that is all zero. */
void content_close(struct content *content);
/* Fails if a part of the file was found missing since. */
int content_check(const struct content *content);
/* " (unpacked)" or "": stands behind an offset in a reason. */
const char *content_unit(const struct content *content);

#endif
