/* Shared by tests of transfers of device memory: messages with known bytes, and their check. */
#ifndef GPU_TRANSFERS_H
#define GPU_TRANSFERS_H

#include "variants.h"

/* In a test: the body by every way; under ThreadSanitizer by those whose ranks are threads. */
void try_transfers(int size, int (*body)(struct rank_env *env), int timeout_ms);

int next_rank(const struct rank_env *env);
int previous_rank(const struct rank_env *env);

/* Whether the way under test moves transfers from device to device. */
bool goes_directly(const struct rank_env *env);

/* Bytes of a message between two ranks, which `number` distinguishes from their others. */
void fill_message(char *at, int from, int to, int number, size_t size);
/* Also checks that the byte behind the message is 0. */
int check_message(struct rank_env *env, const char *at, int from, int to, int number, size_t size);

/* Ends the group, and waits for its stream if there is one. */
int end_group(struct memory *memory);

/* A message to the next rank and one from the previous rank, in one group: `count` elements, at
   these bytes of the buffers. */
int shift(struct rank_env *env, struct memory *memory, size_t count, rondo_type type, size_t in_at,
	size_t out_at);

#endif
