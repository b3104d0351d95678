/*
 * Room for the blocks of kernels: a device has EMULATED_PROCESSORS multiprocessors, each with
 * 65,536 registers and 2,048 threads. A block starts where it finds room, on the multiprocessor
 * that has the most, and keeps it to its end.
 *
 * A kernel that waits for no other runs with some of its blocks: the rest follow them. One that
 * spins for its peers runs when all of its blocks have found room. Those that have keep it, and
 * give up as they would in their spin: when the host stops them, or after their timeout.
 */
#ifndef ROOM_H
#define ROOM_H

/* When the driver starts. */
void room_start(void);

/* Blocks of this kernel that a multiprocessor holds at once. */
int room_blocks(int registers, int threads);

#endif
