/*
 * The host executor: a state machine that runs a plan over links, in host memory. It makes no
 * system call of its own (links do the I/O), reads no clock and allocates nothing. The simulator
 * runs the same code.
 *
 * It runs the plan over successive pieces (a slice of every chunk). Piece p runs on channel p %
 * channels, in the order of that channel's plan. The channels advance independently.
 */
#ifndef RD_EXEC_H
#define RD_EXEC_H

#include "plan/plan.h"
#include "exec/reduce.h"
#include "rondo/transport.h"
#include "exec/signature.h"

#define RD_CHANNELS_MAX 8

struct rd_trace;

enum rd_progress {
	RD_IDLE = 0, /* nothing could move: wait for a link */
	RD_MOVED = 1, /* something moved; more may be able to move at once */
	RD_DONE = 2,
};

/* A rank's buffers, at their addresses in this process. */
struct rd_peer_buffers {
	const char *in;
	char *out;
};

/* The position of one channel. */
struct rd_cursor {
	size_t piece;
	int step;
	bool received; /* the step has taken its message, and has still to send it on */
};

/* First the fields of each call, in few lines of the cache, then those of long ones. */
struct rd_exec {
	struct rd_call call; /* its arguments are a line of the cache, where the exec begins one */
	const struct rd_plan *const *plans; /* [channels] */
	struct rd_link *const *links; /* [peer * stride + channel]; NULL for a peer not linked */
	int stride; /* links a peer: `channels`, unless changed after rd_exec_init() */
	int channels;
	size_t pieces;
	size_t piece_count; /* elements in a slice of a chunk */
	size_t element; /* bytes */
	/* messages of so many bytes are written past the caches into room that the peer reads
	   (link->shares_room); SIZE_MAX by default */
	size_t past_least;
	rd_reduce_function reduce; /* NULL: the call's user_op->combine */
	/* [channels][steps_most]: link->posted after the step's send. For a HOLD: the address of
	   its message. */
	uint64_t *send_marks;
	int steps_most; /* the maximum over the channels' plans, as is scratch_chunks */
	int running; /* channels that have pieces left */
	int error; /* the first failure, which ends the exec */
	int waiting_for; /* peer of the link that it last waited for; -1: none yet */
	/* a block is one chunk, and all have the same length: the common case */
	bool one_chunk;
	bool in_memory; /* input and output are more than a core's caches hold; false by default */
	/* use single copy on links that have it (link->single_copy); false by default */
	bool single_copy;
	bool copied_once; /* a message of this call used single copy */
	bool message_is_sum; /* of a mean: a partial sum (mean.h) came in the last message */
	bool lingers; /* some message may not have been sent yet */
	bool sends_alone; /* as a root: this rank's steps are sends, and copies of its own block */
	struct rd_signature signature; /* chunk, and a v-call's count: of the latest message */
	struct rd_cursor cursors[RD_CHANNELS_MAX];
	/* [size]; for plans of direct access, else NULL */
	const struct rd_peer_buffers *peer_buffers;
	/* elements in a chunk (the last of a block may have fewer); not used with vcounts */
	size_t chunk_count;
	char *scratch; /* [channels][scratch_chunks][scratch_slice] */
	int scratch_chunks;
	size_t scratch_slice; /* bytes */
	/* For a traced call (trace.h): its trace, and the end of each channel's latest step. */
	struct rd_trace *trace;
	int64_t step_ended_ns[RD_CHANNELS_MAX];
};

/*
 * Looks for a mismatch after a long wait. Ranks whose calls differ may run different algorithms,
 * so that each waits for a rank that sends to another. This function inspects the messages that
 * every link holds. Returns 0, or RONDO_MISMATCH with its reason: a message of this call carries
 * the signature of a different one.
 */
int rd_exec_find_mismatch(struct rd_exec *exec);

/* Advances as far as the links allow. Returns an rd_progress, or a negative error with its
   reason recorded. */
int rd_exec_step(struct rd_exec *exec);

#endif
