/*
 * How a device runs poison (poison.h): what one block of the kernel does. nvcc compiles it
 * (cuda/poison.cu), and the C compiler for emulated GPUs (emulated/poison.c). The includer defines,
 * besides the names that flags_run.h lists:
 *
 *	THREAD, THREADS_HERE	the calling thread's number in the block, and the block's threads
 *	BLOCK, ALL_BLOCKS	the block's number, and how many the kernel has
 */
#ifndef RD_POISON_RUN_H
#define RD_POISON_RUN_H

#include "device/flags_run.h"
#include "device/poison.h"

/* A flag is set before the stream goes on with an output that is not complete. Where the comm fails
   later, some threads may see it and some may not. */
static ON_DEVICE bool has_failed(const struct rd_abort_flag *abort_flag)
{
	return load_flag(&abort_flag->stop) || load_flag(&abort_flag->error) ||
	       load_flag(&abort_flag->warned);
}

static ON_DEVICE void run_poison(const struct rd_poison *poison)
{
	size_t thread = (size_t)BLOCK * THREADS_HERE + THREAD;
	size_t stride = (size_t)ALL_BLOCKS * THREADS_HERE;

	if (!has_failed(poison->abort_flag))
		return;
	for (int i = 0; i < poison->count; i++)
		for (size_t at = thread; at < poison->outputs[i].size; at += stride)
			poison->outputs[i].at[at] = (char)0xff;
}

#endif
