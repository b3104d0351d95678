/*
 * Rondo: collectives in C, from scratch.
 *
 * N ranks (processes, or threads of one process) each hold a buffer. Rondo combines and moves those
 * buffers. Programs need this header alone; rondo/transport.h and rondo/algorithm.h are for
 * plug-ins.
 *
 * Errors: every function that returns int returns 0 or a negative `enum rondo_error`, unless its
 * comment gives another result. After an error, rondo_last_error() returns the reason: which rank
 * failed, and why. A NULL handle or buffer that must not be NULL, a rank out of range and an
 * unknown type or operation return RONDO_INVALID. A refused argument does not harm the comm. An
 * error of a running collective or transfer ends the comm on every rank: rondo_comm_error() and
 * every later call return an error. docs/errors.md has for each code its causes and what to do.
 *
 * Units: `count` is elements, `size` is bytes (in rondo_spawn() and rondo_config, ranks), `_ms` is
 * milliseconds, `_us` is microseconds.
 *
 * Ownership: the caller owns every buffer. A buffer of a call on a stream must stay untouched until
 * the stream has completed that call.
 *
 * Threading: one thread at a time may use a comm. Calls on one comm run in the order of issue, on
 * one stream or on several. Different comms are independent. A call returns RONDO_INVALID while
 * another thread is in a call on the same comm. Two calls that begin at the same moment may go
 * undetected; their results are undefined. Any thread may call rondo_comm_revoke(),
 * rondo_comm_error(), rondo_comm_failed() and rondo_comm_late(), and use tagged messages.
 *
 * fork(): comms, creations, streams, requests and open groups belong to the process that made
 * them. In a forked child, all use of them returns RONDO_INVALID. Four functions still work there,
 * for they send nothing: rondo_comm_rank(), rondo_comm_size(), rondo_costs() and rondo_explain().
 * rondo_comm_destroy(), rondo_stream_destroy() and rondo_request_destroy() in the child close its
 * descriptors and free its memory; the parent's calls go on. A child may make its own of all.
 */
#ifndef RONDO_H
#define RONDO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RONDO_VERSION_MAJOR 0
#define RONDO_VERSION_MINOR 1
#define RONDO_VERSION_PATCH 0

#if defined(__GNUC__)
#define RONDO_API __attribute__((visibility("default")))
#else
#define RONDO_API
#endif

/* Version of the library that runs, e.g. "0.1.0"; it may differ from the header's. */
RONDO_API const char *rondo_version(void);

/* ---- Errors ------------------------------------------------------------------------------- */

/* X(name, value, text) */
#define RONDO_ERRORS(X) \
	X(RONDO_INVALID, -1, "invalid argument") \
	X(RONDO_SETTING, -2, "bad setting") \
	X(RONDO_MEMORY, -3, "out of memory") \
	X(RONDO_SYSTEM, -4, "a system call failed") \
	X(RONDO_UNSUPPORTED, -5, "not supported here") \
	X(RONDO_UNREACHABLE, -6, "a rank cannot be reached") \
	X(RONDO_BROKEN, -7, "a connection broke") \
	X(RONDO_DIED, -8, "a rank died") \
	X(RONDO_LEFT, -9, "a rank has left the communicator") \
	X(RONDO_TIMEOUT, -10, "a rank was silent for too long") \
	X(RONDO_MISMATCH, -11, "ranks made different calls") \
	X(RONDO_PROTOCOL, -12, "a peer sent bytes that make no sense") \
	X(RONDO_REVOKED, -13, "the communicator was revoked")

enum rondo_error {
	RONDO_PENDING = 1, /* no error: queries, tests and bounded waits return it */
	RONDO_OK = 0,
#define RONDO_ERROR_ENUM(name, value, text) name = (value),
	RONDO_ERRORS(RONDO_ERROR_ENUM)
#undef RONDO_ERROR_ENUM
};

/*
 * Short text of a code, e.g. "a rank died"; "unknown error" for any other number. Static, never
 * NULL. Any thread may call it.
 */
RONDO_API const char *rondo_error_text(int error);
/* Name of a code, e.g. "RONDO_DIED". Static, never NULL. Any thread may call it. */
RONDO_API const char *rondo_error_name(int error);
/*
 * Reason of the last failure in this thread, in one line, e.g. "rank 3 (host b) closed its
 * connection during all_reduce #17". Empty before the first failure. Valid until this thread's next
 * failing call.
 */
RONDO_API const char *rondo_last_error(void);

/* ---- Types and operations ----------------------------------------------------------------- */

/* X(name, C type in memory, text). Numbers stay: new types come last. */
#define RONDO_TYPES(X) \
	X(RONDO_I8, int8_t, "i8") \
	X(RONDO_U8, uint8_t, "u8") \
	X(RONDO_I32, int32_t, "i32") \
	X(RONDO_U32, uint32_t, "u32") \
	X(RONDO_I64, int64_t, "i64") \
	X(RONDO_U64, uint64_t, "u64") \
	X(RONDO_F16, uint16_t, "f16") \
	X(RONDO_BF16, uint16_t, "bf16") \
	X(RONDO_F32, float, "f32") \
	X(RONDO_F64, double, "f64") \
	X(RONDO_F8E4M3, uint8_t, "f8e4m3") \
	X(RONDO_F8E5M2, uint8_t, "f8e5m2") \
	X(RONDO_I16, int16_t, "i16") \
	X(RONDO_U16, uint16_t, "u16") \
	X(RONDO_BOOL, uint8_t, "bool") \
	X(RONDO_COMPLEX64, float[2], "complex64") \
	X(RONDO_COMPLEX128, double[2], "complex128")

typedef enum rondo_type {
#define RONDO_TYPE_ENUM(name, ctype, text) name,
	RONDO_TYPES(RONDO_TYPE_ENUM)
#undef RONDO_TYPE_ENUM
		RONDO_TYPE_COUNT
} rondo_type;

/*
 * Signed sums and products wrap as unsigned ones do. An average of integers is the sum, which may
 * have wrapped, divided by the number of ranks and rounded towards zero. min and max give NaN when
 * any rank's element is NaN.
 *
 * An average of floats is finite where all elements are, even if their sum is beyond the type's
 * range. f16, bf16 and the two f8 are added in f32, and the average is rounded once. That takes
 * messages of f32 wherever partial sums travel, so a sum that the program divides is quicker. In
 * f32 and f64 each addition rounds, as in a sum, and so does the division. On n > 2 ranks the
 * average may moreover be off by n - 1 times the least number above zero: partial sums are scaled,
 * so that each fits into one element of a message.
 *
 * Other operations combine f16, bf16 and f8 in f32 and round to nearest even. Host memory rounds
 * after each combination, device memory once at the end. The f8 types are those of the Open Compute
 * Project, as NCCL's ncclFloat8e4m3 and ncclFloat8e5m2; f8e4m3 has no infinity. A combined f8 value
 * beyond the greatest finite number, infinity too, becomes that number: 448, or 57344 for f8e5m2.
 * NaN becomes 0x7f.
 *
 * The bitwise (b) and logical (l) operations are for integers. With more than one rank, a logical
 * one gives 1 or 0.
 *
 * A bool is a byte, which is true unless it is 0. Operations on bools are logical: sum, max and bor
 * are lor, prod, min and band are land, and bxor is lxor. There is no average.
 *
 * A complex number is its real part and then its imaginary one. sum and avg combine the parts, as
 * f32 or f64. prod of a + bi and c + di is ac - bd and ad + bc, each rounded: infinities are not
 * looked after, as C's do. There is no other operation.
 */
#define RONDO_OPS(X) \
	X(RONDO_SUM, "sum") \
	X(RONDO_PROD, "prod") \
	X(RONDO_MIN, "min") \
	X(RONDO_MAX, "max") \
	X(RONDO_AVG, "avg") \
	X(RONDO_BAND, "band") \
	X(RONDO_BOR, "bor") \
	X(RONDO_BXOR, "bxor") \
	X(RONDO_LAND, "land") \
	X(RONDO_LOR, "lor") \
	X(RONDO_LXOR, "lxor")

typedef enum rondo_op {
#define RONDO_OP_ENUM(name, text) name,
	RONDO_OPS(RONDO_OP_ENUM)
#undef RONDO_OP_ENUM
		RONDO_OP_COUNT,
	RONDO_OP_OWN = 1 << 16, /* from here on: operations of rondo_op_create() */
	RONDO_OP_LAST = 0x7fffffff
} rondo_op;

/* Bytes in one element; 0 for an unknown type. */
RONDO_API size_t rondo_type_size(rondo_type type);
/* Names, e.g. "f32" and "sum"; "?" for an unknown type or operation. Static. */
RONDO_API const char *rondo_type_name(rondo_type type);
RONDO_API const char *rondo_op_name(rondo_op op);
/* 1 if the operation can combine the type's elements, else 0; 0 for those of rondo_op_create(). */
RONDO_API int rondo_op_applies(rondo_op op, rondo_type type);

/* ---- Communicators ------------------------------------------------------------------------ */

typedef struct rondo_comm rondo_comm;
typedef struct rondo_creation rondo_creation;
typedef struct rondo_stream rondo_stream;
typedef struct rondo_request rondo_request;

/*
 * Where the ranks of one comm meet. Rank 0's process makes it, and the program passes the bytes to
 * the others by its own means, as NCCL's ncclUniqueId.
 */
struct rondo_unique_id {
	char bytes[128];
};

/*
 * Makes a unique id: from now on this process listens for one comm. Rank 0 of that comm must be in
 * this process, or in a child that it forks. Each comm needs an id of its own. The address is that
 * of RONDO_INTERFACE, or of the default route. Any thread may call it.
 */
RONDO_API int rondo_get_unique_id(struct rondo_unique_id *id);

/* The place of this process in its job, as its launcher's variables give it. */
struct rondo_launch {
	const char *launcher; /* "torchrun", "openmpi", "slurm", ... (docs/launchers.md); "none" */
	int rank, size; /* 0 and 1 without a launcher */
	int local_rank, local_size; /* among the ranks of this host; -1: not known */
	/* For this rank's computation, at least 1: its share of those that the ranks of its host
	   may use at once. Quotas of containers count, and SLURM_CPUS_PER_TASK. */
	int processors;
};

/*
 * Finds the launcher, as rondo_comm_create() does. RONDO_SETTING, with a remedy, if its variables
 * are partial or contradict each other. Local. For programs that need their rank before a comm, or
 * make several ranks in each process.
 */
RONDO_API int rondo_get_launch(struct rondo_launch *launch);

/*
 * Settings of a comm. Start from RONDO_CONFIG_INIT and set the fields that matter. A field left
 * alone comes from the environment (docs/environment.md), then from the default.
 */
struct rondo_config {
	size_t struct_size; /* sizeof(struct rondo_config): lets the struct grow */
	int rank; /* this rank; -1: RANK, or another launcher's */
	int size; /* number of ranks; -1: WORLD_SIZE, or another launcher's */
	const char *address; /* where rank 0 listens: name or address; NULL: MASTER_ADDR */
	int port; /* where rank 0 listens; -1: RONDO_PORT, or derived from MASTER_PORT */
	int rendezvous_fd; /* rank 0: listening fd to own once settings are valid; -1: none */
	const char *transport; /* transports allowed, e.g. "shm,tcp"; NULL: RONDO_TRANSPORT */
	const char *interface; /* network interface for tcp; NULL: RONDO_INTERFACE */
	const char *host; /* act as if on this host; NULL: RONDO_HOST */
	const char *algo; /* algorithm to use where it can run; NULL: RONDO_ALGO */
	int channels; /* parallel links per pair of ranks; 0: RONDO_CHANNELS */
	size_t piece_size; /* maximum bytes per message; 0: RONDO_PIECE */
	int timeout_ms; /* bound on a call's wait for a live rank; 0: RONDO_TIMEOUT_MS */
	int init_timeout_ms; /* bound on making the comm; 0: RONDO_INIT_TIMEOUT_MS */
	int gpu; /* device whose memory calls may use; -1: RONDO_GPU, or current */
	const struct rondo_unique_id *unique_id; /* replaces address and port; NULL: none */
};

#define RONDO_CONFIG_INIT \
	{ \
		sizeof(struct rondo_config), -1, -1, NULL, -1, -1, NULL, NULL, NULL, NULL, 0, 0, \
			0, 0, -1, NULL \
	}

/*
 * Creates a communicator: meets the other ranks and connects to each of them. Collective: returns
 * on every rank when all are connected, or with an error on every rank within init_timeout_ms.
 * config may be NULL: the launcher's variables then give everything (docs/launchers.md). On
 * failure *comm is NULL. A rank that cannot take part (a bad setting, for example, or no memory)
 * sends the others the reason, for two seconds at most.
 *
 * It returns earlier on some ranks than on others. If one of the first dies at once, the others
 * return RONDO_DIED with its number and host: some from here, without a comm, and some from their
 * next call.
 */
RONDO_API int rondo_comm_create(rondo_comm **comm, const struct rondo_config *config);

/*
 * As rondo_comm_create(), which other ranks may call, but returns at once: a thread of the library
 * creates the comm. It has copies of the config, and the caller's current device. On an error
 * *creation is NULL. Else a program tests the creation until it ends, also once it has cancelled
 * it: rondo_comm_create_test() returns the comm or the error, and frees the creation.
 */
RONDO_API int rondo_comm_create_begin(rondo_creation **creation, const struct rondo_config *config);
/*
 * Returns RONDO_PENDING, which is positive, while the creation goes on: test again, after a sleep.
 * Then returns as rondo_comm_create() would have, and frees the creation. RONDO_INVALID for a NULL.
 * One thread at a time.
 *
 * The test of a cancelled creation waits for its end, and is never pending. It returns when rank 0
 * has the news, or after two seconds if rank 0 is stopped or cut off. A call of the resolver that
 * has no answer yet is left to the library's thread, which then ends by itself.
 */
RONDO_API int rondo_comm_create_test(rondo_creation *creation, rondo_comm **comm);
/*
 * Ends a creation, as a framework's timeout or Ctrl-C does: its next test returns RONDO_REVOKED, or
 * the error that came first. All ranks that rank 0 has met get the same, with a reason that names
 * this rank, if it has reached rank 0. Other ranks get no news, and wait for init_timeout_ms at
 * most. A comm that was made before the cancellation is revoked and destroyed.
 *
 * Returns at once, and frees nothing. Any thread may call it, not in a signal's handler, but none
 * after a test has returned the end: a program orders the two by a lock of its own.
 */
RONDO_API int rondo_comm_create_cancel(rondo_creation *creation);

/*
 * Splits a comm: ranks with the same color make a new comm among themselves. `key` orders the new
 * ranks; where keys are equal, ranks keep their order in this comm. A rank with a negative color
 * joins none and gets NULL. Collective: every rank of this comm calls it. It succeeds on all ranks
 * of a new comm or returns an error on all of them, at once where this comm fails meanwhile. The
 * new comm has this one's settings and links of its own. It is independent of this comm, and must
 * be destroyed on its own. Not within a group.
 */
RONDO_API int rondo_comm_split(rondo_comm *comm, int color, int key, rondo_comm **part);
/* A new comm of the same ranks: rondo_comm_split() with one color. */
RONDO_API int rondo_comm_duplicate(rondo_comm *comm, rondo_comm **copy);

/*
 * Makes a comm of the listed ranks of `parent`, numbered as they stand in the list. Those ranks
 * alone call it, with equal lists and tags; it makes no call on the parent, so others may be under
 * way. It returns once all listed ranks have called, or with an error within init_timeout_ms: a
 * rank that does not call is named by its number in the new comm. A failure of the parent ends it.
 *
 * Calls with the same list and tag match in their order. Threads that call at the same time give
 * different tags. Like a part of a split, the new comm is independent. Not within a group.
 */
RONDO_API int rondo_comm_create_group(
	rondo_comm *parent, const int *ranks, int count, int tag, rondo_comm **comm);
/*
 * As rondo_comm_create_group(), which other ranks may call, but returns at once, as
 * rondo_comm_create_begin() does: rondo_comm_create_test() and rondo_comm_create_cancel() are for
 * this creation, too. It has a copy of the list. The order of calls counts, as there: any number of
 * creations may go on. So may calls on the parent, which has to live until a test has returned the
 * end. Finalize or destroy it afterwards.
 *
 * Before the first listed rank has called, a cancellation reaches no other rank. Reasons have the
 * numbers of the new comm.
 */
RONDO_API int rondo_comm_create_group_begin(
	rondo_comm *parent, const int *ranks, int count, int tag, rondo_creation **creation);

/*
 * Waits for this comm's requests, and calls on streams, then leaves it, as rondo_comm_destroy()
 * does. Collective: rank 0 stays until every rank has left or died (bounded by timeout_ms), so it
 * learns of every call that differs. Every other call on the comm returns RONDO_INVALID from then
 * on; rondo_comm_destroy() frees it. Not within a group.
 */
RONDO_API int rondo_comm_finalize(rondo_comm *comm);

/*
 * Waits for this comm's requests, and calls on streams, leaves, and frees it. NULL is allowed.
 * Leaving is local: this rank waits for no other (100 ms at most, where the host of rank 0 does not
 * answer; heartbeat_timeout_ms at most, where it takes no bytes). The others still get what this
 * rank has sent, however late they come to the calls that it made. A call that it did not make is
 * RONDO_LEFT to them, with its number.
 *
 * A process that ends by exit(), or by return from main(), leaves its comms in the same way. It
 * dies in those where a call is under way, or where it made calls on devices. After a death, ranks
 * still finish the calls that the dead rank had finished, where another process of its host is in
 * the comm. After that of rank 0 they do so only where all ranks are on one host.
 *
 * Once the process of rank 0 has ended, ranks can still finish the calls that rank 0 made; then
 * each judges failures by itself, and a new link waits until both ranks call. Returns
 *   - 0 where this rank has left, or where the comm was over before: it had failed
 *     (rondo_comm_error() returns why until now), or rondo_comm_finalize() had left;
 *   - the error that ended the comm while this rank left: a rank died, or ranks made different
 *     calls. The comm is freed all the same. Later differences are in rank 0's log;
 *   - RONDO_INVALID within a group. The comm stays, for the group may have calls on it.
 */
RONDO_API int rondo_comm_destroy(rondo_comm *comm);

/*
 * Ends every call on this comm, here and on the other ranks, with RONDO_REVOKED. Their error names
 * this rank and the reason (may be NULL). Any thread may call it. The comm must still be destroyed.
 */
RONDO_API int rondo_comm_revoke(rondo_comm *comm, const char *reason);

/*
 * Returns 0 while the comm is valid, else the error that ended it; rondo_last_error() has the
 * reason. Deaths and revokes arrive in the background, so they show also while this rank makes no
 * call. Cheap enough to poll: it reads one word. Any thread may call it.
 */
RONDO_API int rondo_comm_error(rondo_comm *comm);

/*
 * The ranks of this comm that are known here to have failed, in order: those that died, or were
 * lost (no heartbeat, no answer, or a reset connection). Writes the first `most` of them to
 * ranks[most], which may be NULL if most is 0. Returns how many there are, or an error. Ranks that
 * were late for a call, or made other calls, are not among them. Where one rank's failure ended the
 * comm, every other rank returns it from the moment at which rondo_comm_error() returns the error.
 * Any thread may call it.
 */
RONDO_API int rondo_comm_failed(rondo_comm *comm, int ranks[], int most);

/*
 * The ranks that live, and held up the call whose RONDO_TIMEOUT ended this comm, in order: those
 * that had not joined it and waited for no other rank. Writes and returns as rondo_comm_failed()
 * does; no rank is in both. Every rank returns the same ones from the moment at which
 * rondo_comm_error() returns the error. None where rank 0 had left before: then no rank knows all.
 * Any thread may call it.
 */
RONDO_API int rondo_comm_late(rondo_comm *comm, int ranks[], int most);

/*
 * Makes a new comm of the ranks that are left of a failed one (ULFM: MPI_Comm_shrink(); NCCL:
 * ncclCommShrink()). Collective among them: each calls it. Returns when all that live have come,
 * and all have the new comm; ranks that die meanwhile are left out. Ranks keep their order, and are
 * numbered from 0. The new comm has the settings of this one, and can be shrunk in turn. This comm
 * stays failed, and must still be destroyed; rondo_comm_failed() then returns all ranks that were
 * left out. A comm that has not failed is revoked first. Streams keep the failure of their calls:
 * make new ones for the new comm.
 *
 * A rank that lives is waited for, timeout_ms long (rondo_comm_set_timeout()), and left out if it
 * does not come. Such ranks, and those of other hosts that do not answer, may live on unreached.
 * Where there may be any, those that have come go on if they are more than half of this comm's
 * ranks, or half with rank 0. Else they get RONDO_TIMEOUT, and so does a rank that comes too late.
 * Ranks that were cut off before they knew whether the new comm goes on need as many of its ranks,
 * too. So no two comms go on. Deaths that the comm's error names, and those on the caller's host,
 * are sure: where all others are dead, even one rank goes on.
 *
 * RONDO_INVALID: the comm was shrunk before, or within a group. After any other error it may be
 * called again, by all.
 */
RONDO_API int rondo_comm_shrink(rondo_comm *comm, rondo_comm **shrunk);

/*
 * Makes a new comm of this one's ranks and of newcomers (NCCL: ncclCommGrow()). `size` is the
 * number of all. Collective: each rank of this comm calls it. They keep their numbers; newcomers
 * call rondo_comm_create() with the numbers from this comm's size on, with `size` and the unique
 * id, which the program passes to them. On rank 0 `id` is one of its own rondo_get_unique_id(), on
 * all other ranks NULL. Newcomers need the same settings as this comm, which the new one keeps. The
 * id is their secret, also where another launcher starts them. RONDO_SECRET_FILE counts beside it,
 * and is set on all ranks or on none.
 *
 * It succeeds on all ranks of this comm or returns an error on all of them; RONDO_TIMEOUT names
 * newcomers that have not come within init_timeout_ms. This comm goes on, independent of the new
 * one. An id serves once, also where it fails. Not within a group.
 */
RONDO_API int rondo_comm_grow(
	rondo_comm *comm, int size, const struct rondo_unique_id *id, rondo_comm **grown);

/*
 * Sets the bound on the waits of calls that this rank issues on this comm from now on, in place of
 * the config's timeout_ms: 10 to 86400000, or 0 for the config's again. Calls that wait longer
 * for a rank return RONDO_TIMEOUT, which names it. Ranks may have different bounds: the least
 * ends the call on all. Calls that are queued on a device's stream may take the new bound, too.
 */
RONDO_API int rondo_comm_set_timeout(rondo_comm *comm, int timeout_ms);

/*
 * This rank, from 0, and the number of ranks. They work on a failed comm too, and in a forked
 * child.
 */
RONDO_API int rondo_comm_rank(const rondo_comm *comm);
RONDO_API int rondo_comm_size(const rondo_comm *comm);

/*
 * Opens the links that a call like this needs, ahead of it: an all-reduce, say, or a broadcast from
 * rank 0. Without it the first such call opens them. `collective` is a name as in rondo_explain().
 * Local: no other rank needs to call it, or to be in a call. A rank that is in an operation of its
 * program's opens its end afterwards. Waits for this rank's calls that are queued. An error names
 * the rank that is not reached (RONDO_BROKEN; RONDO_TIMEOUT, after init_timeout_ms), and ends the
 * comm. Not within a group.
 */
RONDO_API int rondo_comm_connect(
	rondo_comm *comm, const char *collective, size_t count, rondo_type type);

/* One way of running a call, with its predicted time. See rondo_explain(). */
struct rondo_way {
	char algorithm[32];
	int channels;
	size_t piece_size; /* maximum bytes per message; 0: direct access, which sends none */
	/* Microseconds, from the costs measured at the comm's creation. Where this rank's calls
	   have learned to read the senders' memory, the chosen way counts that. */
	double predicted_us;
	int chosen; /* 1: the library would run the call this way */
};

/*
 * Lists the ways of running a call on this comm, one per algorithm, the cheapest first. Writes the
 * first `most` of them to ways[most], which may be NULL if most is 0. Returns how many exist (0 on
 * a comm of one rank), or an error. `collective` is a name, in any spelling ("all_reduce",
 * "alltoall", "AllGather"). `registered`: 1 where all ranks' buffers are from rondo_mem_alloc(),
 * else 0. Not while a call runs on the comm. Local: it sends nothing, and any rank may call it.
 */
RONDO_API int rondo_explain(rondo_comm *comm, const char *collective, size_t count, rondo_type type,
	int registered, struct rondo_way *ways, int most);

/*
 * Writes the costs of messages, memory and shared cores on this comm, as text, one per line.
 * Predictions use these numbers, and a file of RONDO_TUNE_FILE holds them. `size` is the room in
 * bytes. Returns the length of the whole text (as snprintf), or an error.
 */
RONDO_API int rondo_costs(const rondo_comm *comm, char *text, size_t size);

/*
 * Forks `size` processes and calls run(argument) in each; its result is the exit status. Sets RANK,
 * LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT (a free port) and RONDO_PORT
 * there. Waits for all; when one fails, ends the others. Returns 0, or the first failed rank's exit
 * status (128 + signal where a signal ended it). Returns a negative error if the ranks could not be
 * started. Call it before the process has threads or streams.
 */
RONDO_API int rondo_spawn(int size, int (*run)(void *argument), void *argument);

/* ---- User-defined operations ---------------------------------------------------------------- */

/*
 * Computes into[i] = a[i] op b[i] for i below `count` (elements). a holds the lower ranks' values,
 * b a higher rank's. `into` is a, b, or neither. Pointers keep the alignment of the caller's
 * buffers, up to 8 bytes. The thread that runs the collective calls it; it must not make calls on a
 * comm.
 */
typedef void (*rondo_combine)(
	void *into, const void *a, const void *b, size_t count, rondo_type type, void *argument);

/*
 * Creates an operation for this comm's all_reduce, reduce, reduce_scatter and reduce_scatter_v. It
 * combines ranks in their order, ((0 op 1) op 2) op .... So every rank gets the same result even
 * where it is neither commutative nor associative.
 *
 * element_size 0: elements have the call's type. Else elements are opaque, of element_size bytes
 * (at most 4096 and RONDO_PIECE). Then the call's type is RONDO_U8 and its count is bytes, a
 * multiple of element_size; combine()'s count is elements.
 *
 * Local, but every rank makes the same operations in the same order: their number identifies them.
 * rondo_op_destroy() frees it at once, and calls under way keep their data; else it goes with the
 * comm.
 */
RONDO_API int rondo_op_create(
	rondo_comm *comm, rondo_op *op, rondo_combine combine, size_t element_size, void *argument);

/*
 * Creates a sum to which each rank brings its elements times its own factor (NCCL: PreMulSum).
 * `factor` points to one element of `type`, which is also the type of the calls. Factors may differ
 * between ranks. f16 and bf16 are rounded after the multiplication as well. reduce_scatter
 * allocates memory for it, and so does reduce on ranks other than the root. Otherwise as
 * rondo_op_create().
 */
RONDO_API int rondo_op_create_premul(
	rondo_comm *comm, rondo_op *op, const void *factor, rondo_type type);

/* Frees an operation of this comm. RONDO_INVALID for one that it does not have. Local. */
RONDO_API int rondo_op_destroy(rondo_comm *comm, rondo_op op);

/* ---- Collectives --------------------------------------------------------------------------- */

/*
 * Common to all of these:
 *   - Every rank of the comm makes the same calls in the same order, with the same count, type, op
 *     and root. A rank that differs is an error, RONDO_MISMATCH, which names the rank and the
 *     difference. It is found at the first message that does not fit.
 *   - Where no message shows it, as with two roots, it is found after both have waited some seconds
 *     (at the latest, timeout_ms). Where both only sent, the call returns 0, with wrong data on
 *     some ranks; a later call between them finds it, or rondo_comm_destroy(). A broadcast of a
 *     few hundred values from two roots ends so. With RONDO_CHECK=1 ranks compare each call before
 *     it moves data, and all of this is found at the call, on every rank.
 *   - stream NULL runs the call now, in the caller, and returns when this rank's part is done.
 *     Otherwise the call is queued on the stream, and 0 means only that.
 *   - In place means send == recv. Where the counts differ, it means that the smaller buffer is
 *     this rank's block of the larger one. No other overlap is allowed.
 *   - Any count is allowed, also 0, and any pointer alignment.
 *   - Results are the same bits on every rank. They are the same from run to run where
 *     RONDO_REPRODUCIBLE is 1. Else link costs, measured at the comm's creation, choose the
 *     algorithm and so the order in which floats are added.
 *   - send and recv are host memory on every rank, or device memory on every rank. Device memory
 *     needs a comm whose ranks all have a device (struct rondo_config), and stream NULL or a stream
 *     of that device. On the latter, host memory that is pinned and mapped (cudaMallocHost(),
 *     cudaHostRegister()) counts as device memory.
 *   - Where one rank gives device memory and another host memory, the call may wait for timeout_ms.
 *     It then returns RONDO_TIMEOUT, which names a rank.
 */

/* recv[count] = op over all ranks of send[count], on every rank. */
RONDO_API int rondo_all_reduce(rondo_comm *comm, const void *send, void *recv, size_t count,
	rondo_type type, rondo_op op, rondo_stream *stream);

/* recv[count] = op over all ranks of send[count], on the root; recv is ignored elsewhere. */
RONDO_API int rondo_reduce(rondo_comm *comm, const void *send, void *recv, size_t count,
	rondo_type type, rondo_op op, int root, rondo_stream *stream);

/* recv[count] = the root's send[count], on every rank; send is ignored elsewhere. */
RONDO_API int rondo_broadcast(rondo_comm *comm, const void *send, void *recv, size_t count,
	rondo_type type, int root, rondo_stream *stream);

/* recv[count] = op over all ranks of block `rank` of send[size * count]. */
RONDO_API int rondo_reduce_scatter(rondo_comm *comm, const void *send, void *recv, size_t count,
	rondo_type type, rondo_op op, rondo_stream *stream);

/* Block k of recv[size * count] = rank k's send[count], on every rank. */
RONDO_API int rondo_all_gather(rondo_comm *comm, const void *send, void *recv, size_t count,
	rondo_type type, rondo_stream *stream);

/* Block k of recv[size * count] = block `rank` of rank k's send[size * count]. */
RONDO_API int rondo_all_to_all(rondo_comm *comm, const void *send, void *recv, size_t count,
	rondo_type type, rondo_stream *stream);

/* Block k of the root's recv[size * count] = rank k's send[count]; recv is ignored elsewhere. */
RONDO_API int rondo_gather(rondo_comm *comm, const void *send, void *recv, size_t count,
	rondo_type type, int root, rondo_stream *stream);

/* recv[count] = block `rank` of the root's send[size * count]; send is ignored elsewhere. */
RONDO_API int rondo_scatter(rondo_comm *comm, const void *send, void *recv, size_t count,
	rondo_type type, int root, rondo_stream *stream);

/*
 * Blocks of different lengths. counts[k] is the number of elements of block k. displs[k] is where
 * the block begins, in elements from the start of the buffer; displs NULL: one after the other.
 * Blocks must not overlap in recv; send may lie between them. The arrays are copied: they need not
 * outlive the call. Lengths that do not fit each other return RONDO_MISMATCH on every rank, which
 * names the rank at fault. Those of this rank's block for itself are RONDO_INVALID.
 */

/*
 * Block k of recv = rank k's send[counts[k]], on every rank. counts: the same on every rank. In
 * place: send is this rank's block of recv.
 */
RONDO_API int rondo_all_gather_v(rondo_comm *comm, const void *send, void *recv,
	const size_t counts[], const size_t displs[], rondo_type type, rondo_stream *stream);

/*
 * recv[counts[rank]] = op over all ranks of block `rank` of send, whose blocks follow each other.
 * counts: the same on every rank. In place: recv is this rank's block of send.
 */
RONDO_API int rondo_reduce_scatter_v(rondo_comm *comm, const void *send, void *recv,
	const size_t counts[], rondo_type type, rondo_op op, rondo_stream *stream);

/*
 * Block k of recv = block `rank` of rank k's send. recv_counts[k] here is send_counts[rank] there.
 * In place: send == recv, and counts and displs are the same for both.
 */
RONDO_API int rondo_all_to_all_v(rondo_comm *comm, const void *send, const size_t send_counts[],
	const size_t send_displs[], void *recv, const size_t recv_counts[],
	const size_t recv_displs[], rondo_type type, rondo_stream *stream);

/*
 * Block k of the root's recv = rank k's send[count]. recv, counts and displs are ignored elsewhere.
 */
RONDO_API int rondo_gather_v(rondo_comm *comm, const void *send, size_t count, void *recv,
	const size_t counts[], const size_t displs[], rondo_type type, int root,
	rondo_stream *stream);

/* recv[count] = block `rank` of the root's send; send, counts and displs are ignored elsewhere. */
RONDO_API int rondo_scatter_v(rondo_comm *comm, const void *send, const size_t counts[],
	const size_t displs[], void *recv, size_t count, rondo_type type, int root,
	rondo_stream *stream);

/*
 * Lists of blocks: the calls above for blocks that lie anywhere in memory, in any order, such as a
 * framework's list of tensors. Block k of counts[k] elements begins at send[k] or recv[k], which
 * may be NULL if counts[k] is 0. The arrays are copied: they need not outlive the call. Blocks of
 * recv must not overlap each other or send, but as in place. Those of send may overlap.
 *
 * Messages are those of the call above with the same lengths, which other ranks may make, and so
 * are its errors. An error of the ranks' messages has its name. All blocks are host memory: those
 * of devices, and devices' streams, return RONDO_UNSUPPORTED where the comm has devices.
 */

/*
 * recv[k][counts[k]] = rank k's send[counts[k]], on every rank. counts: the same on every rank. In
 * place: send == recv[rank].
 */
RONDO_API int rondo_all_gather_list(rondo_comm *comm, const void *send, void *const recv[],
	const size_t counts[], rondo_type type, rondo_stream *stream);

/*
 * recv[counts[rank]] = op over all ranks of send[rank]. counts: the same on every rank. In place:
 * recv == send[rank].
 */
RONDO_API int rondo_reduce_scatter_list(rondo_comm *comm, const void *const send[], void *recv,
	const size_t counts[], rondo_type type, rondo_op op, rondo_stream *stream);

/*
 * recv[k][recv_counts[k]] = send[rank] of rank k, whose send_counts[rank] is the same. Each block
 * may be in place: send[k] == recv[k], with equal counts.
 */
RONDO_API int rondo_all_to_all_list(rondo_comm *comm, const void *const send[],
	const size_t send_counts[], void *const recv[], const size_t recv_counts[], rondo_type type,
	rondo_stream *stream);

/*
 * recv[k][counts[k]] on the root = rank k's send[count]. recv and counts are ignored elsewhere. In
 * place: send == recv[root].
 */
RONDO_API int rondo_gather_list(rondo_comm *comm, const void *send, size_t count,
	void *const recv[], const size_t counts[], rondo_type type, int root, rondo_stream *stream);

/*
 * recv[count] = the root's send[rank]. send and counts are ignored elsewhere. In place: recv ==
 * send[root].
 */
RONDO_API int rondo_scatter_list(rondo_comm *comm, const void *const send[], const size_t counts[],
	void *recv, size_t count, rondo_type type, int root, rondo_stream *stream);

/*
 * Gathers bytes of any length from each rank to the root, which need not have the lengths: metrics,
 * for example, or texts. On the root sizes[size] gets the lengths in bytes. *recv gets a buffer
 * with all the bytes, rank 0's first, and a 0 after the last; the caller frees it by free(). *recv
 * is NULL on other ranks, and after an error; recv and sizes may be NULL there. Runs now; not
 * within a group.
 */
RONDO_API int rondo_gather_bytes(
	rondo_comm *comm, const void *send, size_t size, void **recv, size_t sizes[], int root);

/*
 * Gathers bytes of any length from each rank to every rank. sizes[size] gets the lengths in bytes.
 * *recv gets all the bytes as with rondo_gather_bytes(), the same on every rank; each rank frees
 * its own by free(). *recv is NULL after an error. Runs now; not within a group.
 */
RONDO_API int rondo_all_gather_bytes(
	rondo_comm *comm, const void *send, size_t size, void **recv, size_t sizes[]);

/*
 * Sends to, or receives from, one peer. Sends to a peer arrive in the order of their calls. Two
 * ranks that exchange data put both calls in one group, or one of them receives first. A rank may
 * send to itself within a group that also receives it. Both ranks use device memory, or both use
 * host memory.
 */
RONDO_API int rondo_send(rondo_comm *comm, const void *send, size_t count, rondo_type type,
	int peer, rondo_stream *stream);
RONDO_API int rondo_recv(rondo_comm *comm, void *recv, size_t count, rondo_type type, int peer,
	rondo_stream *stream);

/*
 * Sets the place of this thread's later calls, which errors and lines on slow calls then name:
 * "train.py:42". For languages whose code has no address: without it they name the address of the
 * code that called. The text must stay valid until the process ends, or for as long as a comm may
 * be in such a call. NULL: addresses again.
 */
RONDO_API void rondo_set_call_site(const char *site);

/* No rank returns before every rank has called. */
RONDO_API int rondo_barrier(rondo_comm *comm, rondo_stream *stream);

/*
 * A group collects the calls between start and end, and end runs them side by side. Sends and
 * receives do not wait for each other, and calls on different comms proceed together. All calls
 * must be on one stream, or all on none. Groups nest: the outermost end runs them. A group belongs
 * to its thread, and holds at most RONDO_GROUP_MAX calls. When a call in a group is refused, the
 * end refuses the whole group. It also does so when a stream with calls of the group is destroyed.
 */
#define RONDO_GROUP_MAX 4096
RONDO_API int rondo_group_start(void);
RONDO_API int rondo_group_end(void);

/* ---- Requests ------------------------------------------------------------------------------- */

/*
 * A request is a group of calls that is prepared once, and started any number of times (MPI:
 * persistent requests; torch.distributed: Work):
 *
 *	rondo_group_start();
 *	rondo_all_reduce(comm, send, recv, count, RONDO_F32, RONDO_SUM, NULL);
 *	rondo_group_prepare(&request);
 *	for (;;) {
 *		rondo_request_start(request, NULL, NULL);
 *		... compute ...
 *		rondo_request_wait(request, -1);
 *	}
 *
 * The calls have their places in the comm's order from the start on, as a call on a stream has.
 * Other ranks may make them in any other way. A thread that waits for a request runs it and those
 * before it on its comm itself, if they have not begun. Else a thread of the library runs it. A
 * request keeps its own failure. Later calls on its comm fail as the comm does; other comms go on.
 */

/*
 * As rondo_group_end(), but runs nothing: *request has the group's calls. They are on one comm, on
 * no stream, and on host memory. The buffers stay the caller's, and last as long as the request. An
 * error leaves *request NULL.
 */
RONDO_API int rondo_group_prepare(rondo_request **request);
/*
 * Issues the request's calls, and returns. Buffers must stay untouched until it is done. `done`
 * may be NULL; else it is called once when the calls have ended, with their error or 0, in the
 * thread that ran them, before a wait or a test returns the end. rondo_last_error() has the reason
 * there. It may start other requests, and wait for those and for later ones, also by means of its
 * own, such as a future that their functions complete. A thread of the library runs them meanwhile.
 * Waits for its own request are RONDO_INVALID, and those of a message's function for a message of
 * its comm. It makes no other call on a comm, and may destroy the request, if nobody waits for
 * that. The comm's destruction waits for it. Functions of a comm's requests are called in the order
 * of starts, one after the other. But where one waits or takes long, later requests end meanwhile:
 * their functions run beside it, and its request is under way until it returns. Any call that moves
 * messages, a start too, may call a message's function. Until that returns the comm's messages may
 * wait, so it waits for no request that needs one. RONDO_INVALID while the request is under way, or
 * another thread uses the comm (a tagged message may be started nevertheless).
 */
RONDO_API int rondo_request_start(
	rondo_request *request, void (*done)(void *argument, int error), void *argument);
/*
 * Returns RONDO_PENDING, which is positive, while the request is under way. Then, and until it is
 * started again, returns 0 or the error of its calls; rondo_last_error() has the reason. Never
 * waits. 0 before the first start. Any thread may call it. When the comm is finalized or destroyed,
 * no thread may be in it or in a wait, except in functions at the ends of its requests.
 */
RONDO_API int rondo_request_test(rondo_request *request);
/*
 * Waits for the end of a request, and returns as rondo_request_test(). timeout_ms: RONDO_PENDING
 * after that time, and the request goes on; below 0: no bound but that of the calls. Any thread may
 * call it.
 */
RONDO_API int rondo_request_wait(rondo_request *request, int timeout_ms);
/*
 * Frees the request. NULL is allowed. Where it is under way its calls go on, and it is freed at
 * their end. A request may outlive its comm, whose destruction waits for its calls. Any thread may
 * call it, also while another destroys the comm.
 */
RONDO_API void rondo_request_destroy(rondo_request *request);

/* ---- Tagged messages ------------------------------------------------------------------------ */

/*
 * A message from one rank to another, with a tag: MPI_Isend() and MPI_Irecv(), and the sends and
 * receives of torch.distributed. Each is a request, which rondo_request_start() begins, any number
 * of times, and which tests, waits and ends as others do:
 *
 *	rondo_recv_tagged(comm, buffer, size, RONDO_ANY_SOURCE, 7, &request);
 *	rondo_request_start(request, NULL, NULL);
 *	rondo_request_wait(request, -1);
 *	rondo_request_source(request, &rank, &length);
 *
 * Any number may be under way, in any order, started by any thread, beside the calls of the comm,
 * with which they have no order. A receive takes the first message of its source and tag that none
 * has taken: those of one sender and tag come in the order of their starts. A rank may send to
 * itself. Messages of another comm are apart, of a duplicate too.
 *
 * A send may wait for its receive: one of up to 4 KiB ends earlier while fewer than some hundred
 * such messages wait there. Both ranks may send first. A thread that waits for one message moves
 * those of the comm; where none waits, a thread of the library does, somewhat later.
 *
 * There is no timeout. A message ends with an error when the comm fails, and with RONDO_LEFT when
 * this rank finalizes or destroys it. A rank that has left, while another has a message under way
 * with it, fails the comm (RONDO_LEFT); what it sent before is received. Once all other ranks have
 * left, and what they sent has come, a receive from any source ends with RONDO_LEFT, and the comm
 * goes on: at once where a thread waits for it, else after the timeout of calls, in which this rank
 * may send to itself. Once rank 0 has left and its process has ended before that, the first message
 * with a rank fails the comm (RONDO_UNREACHABLE) where that rank has none with this one within the
 * timeout of calls. A receive from any source fails it where no rank that has had a message with
 * this one is left for that time.
 *
 * Host memory alone, over shm and tcp alone, else RONDO_UNSUPPORTED. A message that is longer than
 * its receive ends the comm with RONDO_MISMATCH; a shorter one is none.
 */
#define RONDO_ANY_SOURCE (-1)

/*
 * Prepares a request that sends `size` bytes to a rank, with a tag: any number. Local. The buffer
 * stays the caller's, and unchanged while the request is under way. 0 bytes are a message, too. An
 * error leaves *request NULL.
 */
RONDO_API int rondo_send_tagged(rondo_comm *comm, const void *send, size_t size, int peer, int tag,
	rondo_request **request);
/*
 * Prepares a request that receives a message of at most `size` bytes from a rank, or from
 * RONDO_ANY_SOURCE, with this tag. Local.
 */
RONDO_API int rondo_recv_tagged(
	rondo_comm *comm, void *recv, size_t size, int peer, int tag, rondo_request **request);
/*
 * Cancels a receive that no message has matched: it ends with RONDO_REVOKED, and the comm goes on.
 * One that a message has matched, or that has ended, stays as it is: its end says which. Returns
 * RONDO_INVALID for any other request. Any thread may call it.
 */
RONDO_API int rondo_request_cancel(rondo_request *request);
/*
 * The sender of a message that was received or sent, and its length in bytes; either place may be
 * NULL. RONDO_PENDING while the request is under way; its error where it failed. RONDO_INVALID for
 * a request of calls, and before the first start.
 */
RONDO_API int rondo_request_source(rondo_request *request, int *rank, size_t *size);

/* ---- Memory --------------------------------------------------------------------------------- */

/*
 * Allocates memory (zeroed, page-aligned) that ranks on this host address directly. Collectives
 * whose buffers lie in it on every rank copy each byte once at most. Otherwise it is as malloc()'s:
 * buffers may begin anywhere in it. `size` is bytes; 0 gives NULL. A process forked later has a
 * copy of its own, plain memory: allocate in each rank, after rondo_spawn(). Until the child writes
 * a page of it, the page may show what the parent writes. A peer that cannot map the memory (too
 * many descriptors, no address space) ends the comm with RONDO_SYSTEM at the first call.
 *
 * It is registered, too, as by rondo_mem_register().
 */
RONDO_API int rondo_mem_alloc(void **memory, size_t size);
/* NULL is allowed. No call that uses the memory may be under way. */
RONDO_API int rondo_mem_free(void *memory);

/*
 * Registers memory that Rondo did not allocate: a framework's, a mapped file's, or a device's.
 * Buffers of calls may lie anywhere in it, wholly or in part. `size` is bytes; neither end need be
 * aligned. Holds for all comms of this process, existing and later.
 *
 * Over RDMA (transport verbs), network cards access registered memory themselves; messages of other
 * memory are copied. The pages are pinned while a comm has links over RDMA (limit: ulimit -l). If a
 * card cannot register the memory, its messages are copied, and one line at WARN gives the reason.
 * Cards reach device memory by a dma-buf, where the CUDA driver has them. Calls between hosts still
 * copy such buffers through host memory.
 *
 * Over TCP and between ranks of one host it changes nothing. There, a peer may read long messages
 * from where they lie, registered or not (single copy). To address all memory of a buffer, as with
 * rondo_mem_alloc(), it needs a file that cannot shrink, which other memory does not have.
 *
 * Any thread may register at any time, also during calls on other memory. It takes milliseconds a
 * GiB, more where pages are not in memory yet: register buffers that are used often. A forked child
 * has the registrations for its own copy of the memory and its own comms.
 *
 * RONDO_INVALID: NULL, no bytes, addresses where nothing is mapped, memory that is registered or
 * from rondo_mem_alloc() already, or that exceeds a device's allocation.
 */
RONDO_API int rondo_mem_register(void *memory, size_t size);
/*
 * Ends the registration that begins at `memory`. No call that uses it may be under way. Call it
 * before the memory is freed or unmapped: cards would go on to use the old pages, even if other
 * memory is at their addresses by then. Afterwards no page of it is pinned.
 */
RONDO_API int rondo_mem_deregister(void *memory);

/* ---- Devices -------------------------------------------------------------------------------- */

/*
 * GPUs, through the CUDA driver, which Rondo looks up at run time. A rank whose comm has a device
 * may pass that device's memory to its calls: all ranks of a call then do.
 *
 * Ranks on one host access each other's device memory directly (CUDA IPC, peer access), where that
 * works between all of them. Otherwise the call goes through host memory. If the process creates a
 * comm before it loads CUDA's driver, that comm recognises no device memory: use CUDA first, or set
 * RONDO_DEVICE. Device memory on a comm without a device (a build without CUDA, for example)
 * returns RONDO_INVALID, with the reason.
 *
 * A call on a device's stream is queued, and returns. It waits for other ranks, without a bound of
 * its own but timeout_ms, in these cases:
 *   - ranks that are threads of one process on one device return when all of them have made it.
 *     Give each rank a stream of its own, and make their calls in several threads;
 *   - among processes, the first call with a new allocation, a call with different lengths, and a
 *     receive return when all its ranks have made it;
 *   - at most 128 calls of a comm are queued.
 * The program may copy pageable memory at once after a call, which locks CUDA's driver until its
 * stream is done. After it has launched a graph with calls, it synchronises the stream first.
 *
 * Memory that ranks free stays mapped by processes that have accessed it in calls, and its pages
 * stay taken, until these map a newer allocation of that rank, in a call.
 *
 * With several comms in a process, such a copy, or cudaFree(), in one thread can hold the driver's
 * lock for one comm, while a call of another comm waits for it. Processes that do so in different
 * orders wait for each other until timeout_ms: make the first call with each allocation, and free
 * memory, while no other comm has a call under way.
 */

/*
 * Number of devices here. Where it is 0, rondo_last_error() returns the reason. A GPU for which
 * this build has no kernels (compute capability below 8.0) does not count.
 */
RONDO_API int rondo_device_count(void);
/* As rondo_mem_alloc(), on a device: `size` bytes, zeroed. rondo_mem_free() frees it. */
RONDO_API int rondo_mem_alloc_on(void **memory, size_t size, int device);
/*
 * Creates a stream on a device. Queued work runs there; rondo_stream_call() does not take it. The
 * stream has the greatest priority, because computation waits for what it carries. CUDA's null
 * stream does not wait for it.
 */
RONDO_API int rondo_stream_create_on(rondo_stream **stream, int device);
/*
 * Wraps the program's own stream, a cudaStream_t (or CUstream) of this device. Calls on it run
 * after the work that the program has queued on it, and before the work that it queues next.
 * Destroying the rondo_stream leaves the cudaStream_t alone, which must outlive it.
 *
 * A call that fails lets the stream go on, with undefined bytes in its output. CUDA knows of no
 * failure: cudaStreamSynchronize() returns success. rondo_stream_synchronize(),
 * rondo_stream_query() and rondo_comm_error() return it. Call one of them before you rely on what a
 * stream has computed from outputs, at the latest before you save it.
 */
RONDO_API int rondo_stream_wrap(rondo_stream **stream, void *cuda_stream, int device);
/*
 * Graphs. While the program captures a wrapped stream, calls on it are recorded, and run at each
 * launch of the graph. Every rank must capture the call, else RONDO_MISMATCH. A graph may run any
 * number of times, with other calls in between. All ranks must run them in one order; the program
 * must order its streams so. A capture that the program has invalidated takes no call, and ends no
 * comm: RONDO_INVALID. A captured collective of no elements does nothing.
 *
 * Among processes, a captured call waits until all ranks capture it. They keep its buffers mapped
 * for the lifetime of the comm. A transfer must be captured by its two ranks, and no other. Replays
 * must be over before the comm is destroyed.
 *
 * A call on another stream waits, in the call, where the comm's last one is on a stream that is
 * being captured since. Where it cannot, after a call that was one launch, it is RONDO_UNSUPPORTED:
 * end the capture, and make it again.
 *
 * RONDO_UNSUPPORTED, with the reason, where the host has a part in the call:
 *   - the program's own functions;
 *   - calls among processes that take turns on a device;
 *   - all calls where not all ranks reach each other's device memory;
 *   - among processes, calls on memory that others cannot map: on all ranks of the call alike;
 *   - a group of more than 96 sends and receives.
 */
/*
 * Copies `size` bytes between any memory of host and devices, in a device stream's order; NULL:
 * now. Where a side is host memory that is not pinned, or both sides are host memory, it waits for
 * the work queued on the stream, unless the stream is being captured. The copy may then be done
 * before it returns.
 */
RONDO_API int rondo_copy(void *to, const void *from, size_t size, rondo_stream *stream);

/*
 * Events time work on a device's streams, by the device's clock. An event takes the time when the
 * stream on which it was recorded reaches it. It may be recorded again once it has been reached.
 * One thread at a time uses it.
 */
typedef struct rondo_event rondo_event;

RONDO_API int rondo_event_create(rondo_event **event, int device);
/* Waits until the event has been reached, if it was recorded. NULL is allowed. */
RONDO_API void rondo_event_destroy(rondo_event *event);
/* Returns RONDO_INVALID where the stream is not of the event's device. */
RONDO_API int rondo_event_record(rondo_event *event, rondo_stream *stream);
/*
 * Waits until both events, of one device, have been reached; *us: microseconds from `from` to `to`.
 */
RONDO_API int rondo_event_elapsed(rondo_event *from, rondo_event *to, double *us);

/* ---- Streams: work in order, on a thread of its own ---------------------------------------- */

/*
 * A host stream is a queue with a thread that runs it, so that communication overlaps the caller's
 * computation. The first failure on a stream sticks, and rondo_stream_synchronize() returns it.
 * Collectives and transfers behind it are skipped. That ends their comms (RONDO_REVOKED), for peers
 * would wait in vain. Functions behind it are called all the same.
 */
RONDO_API int rondo_stream_create(rondo_stream **stream);
/* Finishes the queued work first. In a function that the stream calls it returns at once, and the
   stream goes when its work is done. NULL is allowed. */
RONDO_API void rondo_stream_destroy(rondo_stream *stream);
/*
 * Waits until all work queued before this call is done; returns the first failure on this stream.
 * Returns RONDO_INVALID in a function that this stream calls.
 */
RONDO_API int rondo_stream_synchronize(rondo_stream *stream);
/*
 * As rondo_stream_synchronize() without waiting. Returns RONDO_PENDING, which is positive, while
 * work queued before this call is not done; then 0, or the first failure on this stream. In a
 * function that this stream calls, it covers the work before that function: never pending. Also for
 * a device's stream, but not while it is captured (RONDO_UNSUPPORTED).
 */
RONDO_API int rondo_stream_query(rondo_stream *stream);
/*
 * Queues a call of run(argument), on the stream's thread. The stream calls it once in any case,
 * also when work before it has failed. So it may free memory of that work, and wake a waiting
 * thread. A function that matters after success alone checks rondo_stream_query() first.
 *
 * The function may not wait for work behind it. It may make no call on a comm that has an earlier
 * call queued behind the function on this stream: that ends the comm with RONDO_INVALID. Where the
 * function holds an earlier call up for timeout_ms, a later call in another thread ends the comm
 * with RONDO_TIMEOUT.
 */
RONDO_API int rondo_stream_call(rondo_stream *stream, void (*run)(void *argument), void *argument);

#ifdef __cplusplus
}
#endif
#endif
