/*
 * The host executor: runs a plan over links, in host memory, as a state machine. It makes no system
 * call of its own (links do the I/O), reads no clock and allocates nothing; the simulator runs the
 * very same code.
 *
 * The plan is run over successive pieces (a slice of every chunk). Piece p runs on channel
 * p % channels, in the order of that channel's plan; the channels advance independently.
 */
#ifndef RD_EXEC_H
#define RD_EXEC_H

#include "plan/plan.h"
#include "exec/reduce.h"
#include "rondo/transport.h"
#include "exec/signature.h"

#define RD_CHANNELS_MAX 8

enum rd_progress {
	RD_IDLE = 0,  /* nothing could move: wait for a link */
	RD_MOVED = 1, /* something moved; there may be more to do at once */
	RD_DONE = 2,
};

/* A rank's buffers, as they are addressed from here. */
struct rd_peer_buffers {
	const char *in;
	char *out;
};

/* Where one channel stands. */
struct rd_cursor {
	size_t piece;
	int step;
	bool received; /* the step's message has been taken; what is left is to send it on */
};

struct rd_exec {
	const struct rd_plan *const *plans; /* [channels] */
	struct rd_call call;
	struct rd_link *const *links; /* [peer * stride + channel]; NULL for a peer not linked */
	int stride;   /* links a peer: as many as channels, unless set to more after rd_exec_init() */
	int channels;
	const struct rd_peer_buffers *peer_buffers; /* [size]; for plans of mapped algorithms, else NULL */
	size_t element;        /* bytes */
	bool whole;            /* a block is one chunk, and all are as long: the common case */
	bool varied;           /* blocks differ in length: chunk_count is of no use */
	size_t chunk_count;    /* elements in a chunk (the last of a block may have fewer) */
	size_t piece_count;    /* elements in a slice of a chunk */
	size_t pieces;
	rd_reduce_function reduce; /* NULL: the terms' operation */
	char *scratch;         /* [channels][scratch_chunks][scratch_slice] */
	int scratch_chunks;    /* the most of any channel's plan, as are steps_most */
	size_t scratch_slice;  /* bytes */
	/* [channels][steps_most]: link->posted when the step had sent; of a HOLD, where its message lies. */
	uint64_t *send_marks;
	int steps_most;
	struct rd_signature signature; /* all but the chunk */
	struct rd_cursor cursors[RD_CHANNELS_MAX];
	int running;           /* channels that have pieces left */
	bool single_copy;            /* where links can (link->single_copy); false unless set */
	bool copied_once;             /* something was */
	bool lingers;          /* some message may not have left yet */
	int error;             /* the first failure; the exec is over then */
	int waiting_for;       /* peer whose link it last waited for; -1: none yet */
};

/* Memory an exec of these plans, [channels], needs beside the struct: scratch in bytes, send marks in
   entries. */
size_t rd_exec_scratch_size(const struct rd_plan *const *plans, int channels, size_t piece_size);
size_t rd_exec_send_mark_count(const struct rd_plan *const *plans, int channels);

/*
 * plans: [channels], outlive the exec: one algorithm's for one problem, but that the ranks may lie to
 * each other in another way (problem.layout) on each channel; the same plan where they do not.
 * piece_size: bytes a message carries at most; at most every link's message_max.
 */
void rd_exec_init(struct rd_exec *exec, const struct rd_plan *const *plans,
	const struct rd_call *call, struct rd_link *const *links, int channels, size_t piece_size, void *scratch,
	uint64_t *send_marks);

/* The same call once more, after its end, but for its buffers and its number. Not for one with terms. */
void rd_exec_again(struct rd_exec *exec, const void *in, void *out, uint32_t number);

/*
 * For who has waited long. Ranks whose calls differ may run different algorithms, so that each waits for
 * a rank that sends to another: looks at what every link holds. 0, or RONDO_MISMATCH, with its
 * reason, where a message of this very call says that its sender makes another one.
 */
int rd_exec_find_mismatch(struct rd_exec *exec);

/* Advances as far as the links allow: an rd_progress, or a negative error with its reason recorded. */
int rd_exec_step(struct rd_exec *exec);

#endif
