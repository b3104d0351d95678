/*
 * Support of the fuzzers. Each fuzz_NAME.c decodes bytes that a peer, a file or a user may send.
 * FUZZ_CHECK() fails where a decoder accepts bytes that contradict its contract.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FUZZ_SEED_MAX 32768

/* libFuzzer calls it for each input, as does replay.c for each file of the corpus. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * A fuzzer of a protocol with versions defines both, or the second. An input that git keeps is of
 * an old version one day, and refused at once. So a replay adds the seeds to the corpus.
 */

/* Writes seed `number`, of today's version, to bytes[]; returns its size. 0: there are no more. */
__attribute__((weak)) size_t fuzz_seed(int number, uint8_t bytes[FUZZ_SEED_MAX]);
/* After the last input: fails where a kind of message did not come in today's version. */
__attribute__((weak)) void fuzz_check_corpus(void);

#define FUZZ_CHECK(holds) \
	do { \
		if (!(holds)) { \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #holds); \
			abort(); \
		} \
	} while (0)

/* The rest of an input. */
struct fuzz_input {
	const uint8_t *at;
	size_t left;
};

/* Copies up to `size` bytes and zeroes the others: an input may end anywhere. */
static inline void fuzz_take(struct fuzz_input *input, void *into, size_t size)
{
	size_t some = size < input->left ? size : input->left;

	memset(into, 0, size);
	if (some > 0)
		memcpy(into, input->at, some);
	input->at += some;
	input->left -= some;
}

static inline uint8_t fuzz_byte(struct fuzz_input *input)
{
	uint8_t byte;

	fuzz_take(input, &byte, sizeof(byte));
	return byte;
}

/* A number from 0 to below - 1. */
static inline int fuzz_below(struct fuzz_input *input, int below)
{
	return fuzz_byte(input) % below;
}

/* A copy with a zero behind it, in memory of exactly that size: a sanitizer sees a read beyond. */
static inline char *fuzz_text(const uint8_t *bytes, size_t size)
{
	char *text = malloc(size + 1);

	FUZZ_CHECK(text);
	if (size > 0)
		memcpy(text, bytes, size);
	text[size] = '\0';
	return text;
}

/* A file in memory with these bytes, read from its start. The caller closes it. */
static inline int fuzz_file(const uint8_t *bytes, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	FUZZ_CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	FUZZ_CHECK(lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

/* The path of an open file. */
static inline const char *fuzz_path(char path[32], int fd)
{
	snprintf(path, 32, "/proc/self/fd/%d", fd);
	return path;
}

#endif
