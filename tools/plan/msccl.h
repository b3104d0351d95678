/*
 * Programs of MSCCL, as msccl-tools, TACCL and others write them in XML, and of MSCCL++, whose
 * compiler writes JSON. A GPU has thread blocks, each of which runs its steps in order.
 *
 * MSCCL's blocks send to one rank and receive from one, and a step may wait for one of another
 * block. MSCCL++'s read and write other ranks' memory, and wait for counters that others raise.
 */
#ifndef PLAN_MSCCL_H
#define PLAN_MSCCL_H

#include <stdio.h>

#include "plan/plan_file.h"

#define MSCCL_CHUNKS_MAX (1 << 20)
#define MSCCL_BLOCKS_MAX 8192 /* of all ranks */

/* X(name, text, receives, sends): the types of steps. Those without a text are MSCCL++'s: a write
   to the peer's memory, a read of it, and one that adds. From NOP on, they have no chunks. */
#define MSCCL_TYPES(X) \
	X(SEND, "s", false, true) \
	X(RECV, "r", true, false) \
	X(RECV_COPY_SEND, "rcs", true, true) \
	X(RECV_REDUCE_COPY, "rrc", true, false) \
	X(RECV_REDUCE_SEND, "rrs", true, true) \
	X(RECV_REDUCE_COPY_SEND, "rrcs", true, true) \
	X(COPY, "cpy", false, false) \
	X(REDUCE, "re", false, false) \
	X(PUT, NULL, false, false) \
	X(GET, NULL, false, false) \
	X(READ_REDUCE, NULL, false, false) \
	X(NOP, "nop", false, false) \
	X(SIGNAL, NULL, false, false) \
	X(WAIT, NULL, false, false)

enum msccl_type {
#define MSCCL_ENUM(name, text, receives, sends) MSCCL_##name,
	MSCCL_TYPES(MSCCL_ENUM)
#undef MSCCL_ENUM
};

struct msccl_slot {
	char buffer; /* i, o or s */
	int offset;
};

struct msccl_step {
	int line;
	enum msccl_type type;
	struct msccl_slot from, into;
	struct msccl_slot with; /* of a reduction: `from` is added to it */
	int count; /* of chunks */
	int after_block, after_step; /* waits for that one; -1: for none */
	/* MSCCL++ alone: */
	const char *op_name; /* NULL: of MSCCL */
	int op; /* its place in the block */
	int peer; /* the other rank of PUT, GET and READ_REDUCE */
	bool packets; /* `from` is waited for: a packet has its own flag */
	int back; /* behind its last step, an operation goes on with the next chunk at its first */
	bool goes_on; /* with the same chunk, by the next step */
	int counter; /* of SIGNAL and WAIT */
	int least; /* WAIT: the counter's value, which stays; 0: it takes one */
};

struct msccl_block {
	int line, rank, id;
	int to, peer; /* the rank that it sends to, and that it receives from; -1: none */
	int channel;
	struct msccl_step *steps;
	int step_count, capacity;
	int at, chunk; /* while the steps are ordered: the next one, and its next chunk */
};

struct msccl {
	const char *name; /* of the file, for reasons */
	char title[RD_FILE_NAME_SIZE];
	struct rd_problem problem;
	int parts;
	bool in_place; /* input and output are one memory */
	int64_t least_bytes, most_bytes; /* of a block */
	int *scratch; /* by rank: chunks of its scratch memory */
	struct msccl_block *blocks; /* those of rank 0, then of rank 1, ... */
	int *firsts; /* [ranks + 1]: indices of blocks */
	int block_count, capacity, ranks;
	int *counters; /* MSCCL++: signals, releases and arrivals that nobody has taken */
};

bool msccl_receives(enum msccl_type type);
bool msccl_sends(enum msccl_type type);

/* The blocks whose bytes MSCCL's range is of; those whose chunks nchunksperloop counts: the larger
   buffer's. */
int msccl_range_blocks(const struct rd_problem *problem);
int msccl_loop_blocks(const struct rd_problem *problem);

/*
 * While a program is read. The first makes the title and the arrays, for problem.size ranks, which
 * are added in order; blocks and steps go to the last one. The range is MSCCL's, in bytes.
 */
int msccl_begin(struct msccl *msccl, const char *name);
int msccl_collective(const char *name); /* -1: none that has plans */
bool msccl_chunks_fit(const struct msccl *msccl, int64_t parts);
void msccl_set_range(struct msccl *msccl, int64_t least, int64_t most);
void msccl_add_rank(struct msccl *msccl, int scratch);
int msccl_add_block(struct msccl *msccl, struct msccl_block block);
int msccl_add_step(struct msccl *msccl, struct msccl_step step);
/* Makes one chunk of those that all steps move together: a link holds few messages. Refuses a
   program that moves so many that its order would take minutes. */
int msccl_join_chunks(struct msccl *msccl);

/* RONDO_INVALID with the file and the line. */
int msccl_refuse(const struct msccl *msccl, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Reads the XML. Chunks that all steps move together become one. RONDO_INVALID with the line;
 * RONDO_UNSUPPORTED without expat; RONDO_MEMORY. msccl_finish() frees, also after a failure.
 */
int msccl_parse(struct msccl *msccl, const char *name, const char *text, size_t size);
/* The same for MSCCL++'s JSON; the reason has the rank, the thread block and the operation, too. */
int mscclpp_parse(struct msccl *msccl, const char *name, const char *text, size_t size);
void msccl_finish(struct msccl *msccl);

/* Makes the plan file of a program. Each rank's blocks become one order. RONDO_INVALID, with the
   line of a step that no call of rondo/algorithm.h does. */
int msccl_to_file(struct msccl *msccl, struct rd_plan_file **file);

/* Writes plans as a program of one thread block for each pair of ranks. RONDO_UNSUPPORTED where
   they need direct access. */
int msccl_write(const struct rd_plan_file *file, FILE *out);

#endif
