/* The arguments of a call of the public header, before they are checked. */
#ifndef RD_ARGUMENTS_H
#define RD_ARGUMENTS_H

#include "exec/exec.h"

/* Where the program called the function that this stands in. */
#define RD_CALLED_AT ((uintptr_t)__builtin_return_address(0))

struct rd_arguments {
	struct rondo_comm *comm;
	enum rd_collective collective;
	bool sends; /* of a transfer: this is its rondo_send() */
	const void *send;
	void *recv;
	size_t count;
	rondo_type type;
	rondo_op op; /* 0 where there is none */
	int root, target; /* 0 where there is none */
	struct rondo_stream *stream;
	uintptr_t called_at; /* return address of the public function */
	/* As in struct rd_call. rd_submit() takes them over in any case. */
	struct rd_vcounts *vcounts;
	struct rd_user_op *user_op;
};

/* Checks it, then runs it now, queues it, or adds it to the open group. */
int rd_submit(const struct rd_arguments *arguments);

/*
 * Checks the memory of a call whose blocks differ in length. Returns 0; RONDO_INVALID if a buffer
 * is NULL, if this rank's block for itself has two lengths, or if blocks overlap. Blocks of the
 * input may overlap each other. A block of the output may be the block of the input with which the
 * call is in place. Or RONDO_MEMORY.
 */
int rd_extents_check(const struct rd_arguments *arguments, const struct rd_problem *problem);

#endif
