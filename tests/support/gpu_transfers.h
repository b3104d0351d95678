/* Tests of transfers of device memory: messages with known bytes, and their check. */
#ifndef GPU_TRANSFERS_H
#define GPU_TRANSFERS_H

#include "variants.h"

/* Runs the body on `size` ranks in each variant; under ThreadSanitizer, where ranks are threads. */
void try_transfers(int size, int (*body)(struct rank_env *env), int timeout_ms);

int next_rank(const struct rank_env *env);
int previous_rank(const struct rank_env *env);

/* Whether the variant moves transfers from device to device. */
bool goes_directly(const struct rank_env *env);

/* Fills `size` bytes of a message. Ranks and `number` determine them. */
void fill_message(char *at, int from, int to, int number, size_t size);
/* Checks these bytes, and that the byte behind them is 0. Returns as world_report(). */
int check_message(struct rank_env *env, const char *at, int from, int to, int number, size_t size);

/* Ends the group, and synchronizes the stream if there is one. Returns the first error. */
int end_group(struct memory *memory);

/* Sends `count` elements to the next rank and receives as many from the previous rank, in a group.
   in_at, out_at: offsets in the buffers, in bytes. Returns as check_message(). */
int shift(struct rank_env *env, struct memory *memory, size_t count, rondo_type type, size_t in_at,
	size_t out_at);

#endif
