/*
 * Rondo: collectives in C, from scratch.
 *
 * N ranks (processes, or threads of one process) each hold a buffer; Rondo combines and moves those
 * buffers. Programs need this header alone; rondo/transport.h and rondo/algorithm.h are for plug-ins.
 *
 * Errors: every function that returns int returns 0 or a negative `enum rondo_error`, unless its
 * comment says otherwise. rondo_last_error() then tells the reason: which rank failed, and why.
 *
 * Units: `count` is elements, `size` is bytes, `_ms` is milliseconds.
 *
 * Ownership: the caller owns every buffer. A buffer handed to a call on a stream must stay untouched
 * until the stream has reached the end of that call.
 *
 * Threading: a comm may be used by one thread at a time; calls on one comm run in the order in which
 * they were issued, also when they were issued on several streams. Different comms are independent.
 * A call is refused (RONDO_INVALID) while another thread is in one on the same comm; two that begin at
 * the very same moment may not be noticed, and their results are undefined. rondo_comm_abort() and
 * rondo_comm_error() are for any thread.
 *
 * fork(): comms, streams and open groups are the process's that made them. A child that it forks is
 * refused all use of them (RONDO_INVALID), but for rondo_comm_rank(), rondo_comm_size(), rondo_costs()
 * and rondo_explain(), which send nothing. rondo_comm_destroy() and rondo_stream_destroy() there close
 * the child's descriptors and free its memory; the parent's calls go on. A child may make its own.
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

/* "0.1.0": the version of the library that runs, which may differ from the header's. */
RONDO_API const char *rondo_version(void);

/* ---- Errors ------------------------------------------------------------------------------- */

/* X(name, value, text) */
#define RONDO_ERRORS(X)                                                                            \
	X(RONDO_INVALID, -1, "invalid argument")                                                   \
	X(RONDO_SETTING, -2, "bad setting")                                                        \
	X(RONDO_MEMORY, -3, "out of memory")                                                       \
	X(RONDO_SYSTEM, -4, "a system call failed")                                                \
	X(RONDO_UNSUPPORTED, -5, "not supported here")                                             \
	X(RONDO_UNREACHABLE, -6, "a rank cannot be reached")                                       \
	X(RONDO_BROKEN, -7, "a connection broke")                                                  \
	X(RONDO_DIED, -8, "a rank died")                                                           \
	X(RONDO_LEFT, -9, "a rank has left the communicator")                                      \
	X(RONDO_TIMEOUT, -10, "a rank was silent for too long")                                    \
	X(RONDO_MISMATCH, -11, "ranks made different calls")                                       \
	X(RONDO_PROTOCOL, -12, "a peer sent bytes that make no sense")                             \
	X(RONDO_ABORTED, -13, "the communicator was aborted")

enum rondo_error {
	RONDO_PENDING = 1, /* no error: rondo_stream_query() alone returns it */
	RONDO_OK = 0,
#define RONDO_ERROR_ENUM(name, value, text) name = (value),
	RONDO_ERRORS(RONDO_ERROR_ENUM)
#undef RONDO_ERROR_ENUM
};

/* The short text of a code, e.g. "a rank died"; "unknown error" for what is no code. Never NULL. */
RONDO_API const char *rondo_error_text(int error);
/* The name of a code, e.g. "RONDO_DIED". Never NULL. */
RONDO_API const char *rondo_error_name(int error);
/*
 * The reason of the last failure in this thread, in one line, e.g. "rank 3 (host b) closed its
 * connection during all_reduce #17". Empty before the first failure. Valid until this thread's next
 * failing call.
 */
RONDO_API const char *rondo_last_error(void);

/* ---- Types and operations ----------------------------------------------------------------- */

/* X(name, C type in memory, text) */
#define RONDO_TYPES(X)                                                                             \
	X(RONDO_I8, int8_t, "i8")                                                                  \
	X(RONDO_U8, uint8_t, "u8")                                                                 \
	X(RONDO_I32, int32_t, "i32")                                                               \
	X(RONDO_U32, uint32_t, "u32")                                                              \
	X(RONDO_I64, int64_t, "i64")                                                               \
	X(RONDO_U64, uint64_t, "u64")                                                              \
	X(RONDO_F16, uint16_t, "f16")                                                              \
	X(RONDO_BF16, uint16_t, "bf16")                                                            \
	X(RONDO_F32, float, "f32")                                                                 \
	X(RONDO_F64, double, "f64")                                                                \
	X(RONDO_F8E4M3, uint8_t, "f8e4m3")                                                         \
	X(RONDO_F8E5M2, uint8_t, "f8e5m2")

typedef enum rondo_type {
#define RONDO_TYPE_ENUM(name, ctype, text) name,
	RONDO_TYPES(RONDO_TYPE_ENUM)
#undef RONDO_TYPE_ENUM
	RONDO_TYPE_COUNT
} rondo_type;

/*
 * Signed sums and products wrap as unsigned ones do. An average of integers is the sum divided by
 * the number of ranks, rounded towards zero. min and max give NaN when any rank's element is NaN.
 * f16, bf16 and the two f8 are combined in f32 and rounded to nearest even: in host memory after each
 * combination, in device memory once at the end. The f8 are those of the Open Compute Project, as
 * NCCL's ncclFloat8e4m3 and ncclFloat8e5m2: f8e4m3 has no infinity; what is combined and lies beyond the
 * greatest finite number (448; f8e5m2: 57344), infinity too, becomes that; NaN becomes 0x7f.
 * The bitwise (b) and logical (l) ones are for integers; a logical one gives 1 or 0, where there is
 * more than one rank.
 */
#define RONDO_OPS(X)                                                                               \
	X(RONDO_SUM, "sum")                                                                        \
	X(RONDO_PROD, "prod")                                                                      \
	X(RONDO_MIN, "min")                                                                        \
	X(RONDO_MAX, "max")                                                                        \
	X(RONDO_AVG, "avg")                                                                        \
	X(RONDO_BAND, "band")                                                                      \
	X(RONDO_BOR, "bor")                                                                        \
	X(RONDO_BXOR, "bxor")                                                                      \
	X(RONDO_LAND, "land")                                                                      \
	X(RONDO_LOR, "lor")                                                                        \
	X(RONDO_LXOR, "lxor")

typedef enum rondo_op {
#define RONDO_OP_ENUM(name, text) name,
	RONDO_OPS(RONDO_OP_ENUM)
#undef RONDO_OP_ENUM
	RONDO_OP_COUNT,
	RONDO_OP_OWN = 1 << 16, /* from here on: those that rondo_op_create() made */
	RONDO_OP_LAST = 0x7fffffff
} rondo_op;

/* Bytes in one element; 0 for what is no type. */
RONDO_API size_t rondo_type_size(rondo_type type);
/* "f32", "sum"; "?" for what is none. */
RONDO_API const char *rondo_type_name(rondo_type type);
RONDO_API const char *rondo_op_name(rondo_op op);
/* 1 where the operation can combine elements of the type, else 0; those of rondo_op_create(): 0. */
RONDO_API int rondo_op_applies(rondo_op op, rondo_type type);

/* ---- Communicators ------------------------------------------------------------------------ */

typedef struct rondo_comm rondo_comm;
typedef struct rondo_stream rondo_stream;

/*
 * How to make a comm. Start from RONDO_CONFIG_INIT and set what matters; what is left alone comes
 * from the environment (docs/environment.md), then from the default.
 */
struct rondo_config {
	size_t struct_size;      /* sizeof(struct rondo_config): lets the struct grow */
	int rank;                /* this rank; -1: RANK */
	int size;                /* ranks in all; -1: WORLD_SIZE */
	const char *address;     /* where rank 0 listens: name or address; NULL: MASTER_ADDR */
	int port;                /* where rank 0 listens; -1: MASTER_PORT */
	int rendezvous_fd;       /* rank 0: a listening socket to take over once settings are valid; -1: none */
	const char *transport;   /* transports that may be used, e.g. "shm,tcp"; NULL: RONDO_TRANSPORT */
	const char *interface;   /* network interface for tcp; NULL: RONDO_INTERFACE */
	const char *host;        /* pretend to be on this host; NULL: RONDO_HOST */
	const char *algo;        /* algorithm to use where it can; NULL: RONDO_ALGO */
	int channels;            /* links a pair, run side by side; 0: RONDO_CHANNELS */
	size_t piece_size;       /* bytes a message carries at most; 0: RONDO_PIECE */
	int timeout_ms; /* bound on a call's wait for a rank that lives; 0: RONDO_TIMEOUT_MS */
	int init_timeout_ms;     /* bound on making the comm; 0: RONDO_INIT_TIMEOUT_MS */
	int gpu;                 /* device whose memory calls may use; -1: RONDO_GPU, else the current one */
};

#define RONDO_CONFIG_INIT                                                                          \
	{                                                                                          \
		sizeof(struct rondo_config), -1, -1, NULL, -1, -1, NULL, NULL, NULL, NULL, 0, 0,   \
			0, 0, -1                                                                   \
	}

/*
 * Meets the other ranks and connects to each of them. Collective: returns on every rank when all
 * are connected, or on every rank with an error within init_timeout_ms. config may be NULL: all from
 * RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. On failure *comm is NULL. A rank that cannot take part
 * (for a setting, say, or for lack of memory) sends the others the reason, for two seconds at most.
 */
RONDO_API int rondo_comm_create(rondo_comm **comm, const struct rondo_config *config);

/*
 * Parts the ranks of a comm: those with the same color make a new comm among themselves, numbered by
 * key, and where keys are equal as they are in this one. A rank whose color is negative joins none and
 * gets NULL. Collective: every rank of this comm calls it, and it succeeds on all of them or returns
 * an error on all of them, at once where this comm fails meanwhile. The new comm has this one's
 * settings and links of its own, is independent of it, and must be destroyed on its own. Not within a
 * group.
 */
RONDO_API int rondo_comm_split(rondo_comm *comm, int color, int key, rondo_comm **part);
/* A new comm of the same ranks: rondo_comm_split() with one color. */
RONDO_API int rondo_comm_duplicate(rondo_comm *comm, rondo_comm **copy);

/*
 * Says goodbye: waits for this comm's calls on streams, then leaves. Collective as
 * rondo_comm_destroy() is, and with its news; that is then local and waits for nobody. Every other
 * call on the comm is refused from then on (RONDO_INVALID). Not within a group.
 */
RONDO_API int rondo_comm_finalize(rondo_comm *comm);

/*
 * Leaves and frees. Waits for this comm's calls on streams. Collective in that rank 0 stays until
 * every rank has left or died (bounded by timeout_ms). NULL is fine. An error here is news about
 * the other ranks (say, that they made different calls); the comm is freed all the same. But within a
 * group it is refused (RONDO_INVALID), and the comm stays: the group may have calls on it.
 */
RONDO_API int rondo_comm_destroy(rondo_comm *comm);

/*
 * Ends every call on this comm, here and on the other ranks, with RONDO_ABORTED, which will name this
 * rank and the reason (may be NULL). May be called from any thread. The comm must still be destroyed.
 */
RONDO_API int rondo_comm_abort(rondo_comm *comm, const char *reason);

/*
 * 0 while the comm is valid; else the error that ended it, with its reason in rondo_last_error(). News of
 * a death or an abort comes in the background, so it shows here also while this rank makes no call.
 * Cheap enough to be asked often: it reads one word. From any thread.
 */
RONDO_API int rondo_comm_error(rondo_comm *comm);

RONDO_API int rondo_comm_rank(const rondo_comm *comm);
RONDO_API int rondo_comm_size(const rondo_comm *comm);

/*
 * One way of running a call, and what the library thinks of it. See rondo_explain().
 */
struct rondo_way {
	char algorithm[32];
	int channels;
	size_t piece_size;   /* bytes a message carries at most; 0: direct access, which sends none */
	double predicted_us; /* from the costs that were measured when the comm was made */
	int chosen;          /* 1: this is how the call would be run */
};

/*
 * The ways in which a call could be run on this comm, one an algorithm, the cheapest first: writes
 * `most` of them at most, and returns how many there are. `collective` is its name, in whichever
 * spelling ("all_reduce", "alltoall", "AllGather"); `registered` says whether all ranks' buffers are
 * from rondo_mem_alloc(). Not while a call runs on the comm. It sends nothing: each rank may ask.
 */
RONDO_API int rondo_explain(rondo_comm *comm, const char *collective, size_t count, rondo_type type,
	int registered, struct rondo_way *ways, int most);

/*
 * What messages, memory and shared cores cost on this comm, as text, a line each: the numbers that
 * predictions stand on, and what a file of RONDO_TUNE_FILE holds. Returns the length that the whole
 * text has (as snprintf), or an error.
 */
RONDO_API int rondo_costs(const rondo_comm *comm, char *text, size_t size);

/*
 * Forks `size` processes, sets RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and
 * MASTER_PORT in each, and calls run(argument) there; what it returns is the exit status. Waits for
 * all; when one fails, ends the others. Returns 0, or the first failed rank's exit status (128 +
 * signal where a signal ended it), or a negative error if the ranks could not be started.
 * Call it before the process has threads or streams.
 */
RONDO_API int rondo_spawn(int size, int (*run)(void *argument), void *argument);

/* ---- Operations of one's own ---------------------------------------------------------------- */

/*
 * into[i] = a[i] op b[i]. a holds what lower ranks brought, b what a higher one did; into is a, b, or
 * neither. What has to be aligned in the caller's buffers is aligned here, up to 8 bytes. Called in
 * the thread that runs the collective; it must not make calls on a comm.
 */
typedef void (*rondo_combine)(void *into, const void *a, const void *b, size_t count,
	rondo_type type, void *argument);

/*
 * An operation for this comm's all_reduce, reduce, reduce_scatter and reduce_scatter_v. Ranks are
 * combined in their order, ((0 op 1) op 2) op ..., so it need be neither commutative nor associative
 * for every rank to get the same. element_size 0: elements are those of the call's type; else they are
 * opaque, of so many bytes (4096 and RONDO_PIECE at most): then the call's type is RONDO_U8, its count
 * bytes, a multiple of that, and combine()'s count elements.
 *
 * Local, but every rank makes the same operations in the same order: they go by the number of their
 * making. Freed by rondo_op_destroy(), at once (calls under way keep what they need), or with the comm.
 */
RONDO_API int rondo_op_create(rondo_comm *comm, rondo_op *op, rondo_combine combine,
	size_t element_size, void *argument);

/*
 * A sum to which each rank brings its elements times a factor of its own: one element of that type,
 * which is also the calls'. Factors may differ between ranks. f16 and bf16 are rounded after the
 * multiplication as well. reduce_scatter, and reduce on other ranks than the root, take memory for it.
 * Otherwise as above.
 */
RONDO_API int rondo_op_create_premul(
	rondo_comm *comm, rondo_op *op, const void *factor, rondo_type type);

RONDO_API int rondo_op_destroy(rondo_comm *comm, rondo_op op);

/* ---- Collectives --------------------------------------------------------------------------- */

/*
 * What all of these share:
 *   - every rank of the comm makes the same calls in the same order, with the same count, type, op
 *     and root; a rank that differs is an error (RONDO_MISMATCH) that says who differs in what: at the
 *     first message that does not fit. Where none shows it, as with two ranks that both think that they
 *     are the root, it is found when both have waited for some seconds (at the latest, timeout_ms); or,
 *     where both only sent, at a later call between them, or by rondo_comm_destroy();
 *   - stream NULL runs now, in the caller, and returns when this rank's part is done; otherwise the
 *     call is queued on the stream and 0 means only that it was;
 *   - in place means send == recv, or where the counts differ, that the smaller buffer is this
 *     rank's block of the larger one; no other overlap is allowed;
 *   - any count, also 0, and any pointer alignment;
 *   - results are the same bits on every rank; and from run to run, where RONDO_REPRODUCIBLE is 1:
 *     else the algorithm, and with it the order in which floats are added, is chosen by what links were
 *     measured to cost when the comm was made;
 *   - send and recv are host memory, on every rank; or device memory on every rank of a comm whose
 *     ranks all have a device (struct rondo_config), with stream NULL or a stream of that device. Where
 *     one rank gives device memory and another host memory, the call may wait for timeout_ms, and is
 *     then RONDO_TIMEOUT, which names a rank.
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
 * Blocks of different lengths. counts[k] is the number of elements of block k, and displs[k] where it
 * begins, counted in elements from the start of the buffer; displs NULL: one after the other. Blocks
 * must not overlap in recv. The arrays are copied: they need not outlive the call. Lengths that do not
 * fit each other are an error on every rank (RONDO_MISMATCH) that says whose.
 */

/* Block k of recv = rank k's send[counts[k]], on every rank. counts: the same on every rank.
   In place: send is this rank's block of recv. */
RONDO_API int rondo_all_gather_v(rondo_comm *comm, const void *send, void *recv,
	const size_t counts[], const size_t displs[], rondo_type type, rondo_stream *stream);

/* recv[counts[rank]] = op over all ranks of block `rank` of send, whose blocks follow each other.
   counts: the same on every rank. In place: recv is this rank's block of send. */
RONDO_API int rondo_reduce_scatter_v(rondo_comm *comm, const void *send, void *recv,
	const size_t counts[], rondo_type type, rondo_op op, rondo_stream *stream);

/* Block k of recv = block `rank` of rank k's send. recv_counts[k] here is send_counts[rank] there.
   In place: send == recv, and counts and displs are the same for both. */
RONDO_API int rondo_all_to_all_v(rondo_comm *comm, const void *send, const size_t send_counts[],
	const size_t send_displs[], void *recv, const size_t recv_counts[],
	const size_t recv_displs[], rondo_type type, rondo_stream *stream);

/* Block k of the root's recv = rank k's send[count]; recv, counts and displs are ignored elsewhere. */
RONDO_API int rondo_gather_v(rondo_comm *comm, const void *send, size_t count, void *recv,
	const size_t counts[], const size_t displs[], rondo_type type, int root,
	rondo_stream *stream);

/* recv[count] = block `rank` of the root's send; send, counts and displs are ignored elsewhere. */
RONDO_API int rondo_scatter_v(rondo_comm *comm, const void *send, const size_t counts[],
	const size_t displs[], void *recv, size_t count, rondo_type type, int root,
	rondo_stream *stream);

/*
 * Bytes of whatever length from each rank to the root, which need not know the lengths: metrics, say,
 * or texts. On the root sizes[size] gets the lengths, and *recv a buffer with all the bytes, rank 0's
 * first, and a 0 after the last; the caller frees it by free(). *recv is NULL elsewhere, and after an
 * error; recv and sizes may be NULL there. Runs now; not within a group.
 */
RONDO_API int rondo_gather_bytes(rondo_comm *comm, const void *send, size_t size, void **recv,
	size_t sizes[], int root);

/*
 * Sends to, or receives from, one peer. Sends to a peer arrive in the order in which they were
 * made. Two ranks that exchange data put both calls in one group, or one of them receives first.
 * A rank may send to itself within a group that also receives it. Both ranks have it in device memory,
 * or both in the host's.
 */
RONDO_API int rondo_send(rondo_comm *comm, const void *send, size_t count, rondo_type type,
	int peer, rondo_stream *stream);
RONDO_API int rondo_recv(rondo_comm *comm, void *recv, size_t count, rondo_type type, int peer,
	rondo_stream *stream);

/* No rank returns before every rank has called. */
RONDO_API int rondo_barrier(rondo_comm *comm, rondo_stream *stream);

/*
 * Calls between start and end are collected, and run side by side by end: sends and receives do not
 * wait for each other, and calls on different comms proceed together. All must be on one stream (or
 * all on none). Groups nest: the outermost end runs them. Of this thread alone. At most
 * RONDO_GROUP_MAX calls. When a call in a group is refused, so is the whole group, at its end; so it is
 * when a stream is destroyed that it has calls on.
 */
#define RONDO_GROUP_MAX 4096
RONDO_API int rondo_group_start(void);
RONDO_API int rondo_group_end(void);

/* ---- Memory that ranks on one host share ---------------------------------------------------- */

/*
 * Memory (zeroed, at a page's start) that ranks on this host address directly: collectives whose
 * buffers lie in such memory on every rank copy each byte once at most. Everything else about it
 * is as of malloc(); buffers may begin anywhere in it. size 0 gives NULL. A process forked later
 * shares it rather than having a copy: allocate in each rank, after rondo_spawn(). A peer that cannot
 * map it (too many descriptors, no address space) ends the comm with RONDO_SYSTEM at the first call.
 */
RONDO_API int rondo_mem_alloc(void **memory, size_t size);
/* NULL is fine. No call that uses the memory may be under way. */
RONDO_API int rondo_mem_free(void *memory);

/* ---- Devices -------------------------------------------------------------------------------- */

/*
 * GPUs, through the CUDA driver, which is looked for at run time; or pretend ones (RONDO_DEVICE). A
 * rank whose comm has a device may hand its calls that device's memory: all ranks of a call then do.
 * Ranks on one host reach each other's device memory directly (CUDA IPC, peer access), where that
 * works between all of them; otherwise such a call goes through host memory. A comm that was made
 * before CUDA's driver came into the process looks at no buffer: use CUDA before that, or RONDO_DEVICE.
 * Device memory where no device is used (a build without CUDA, say) is RONDO_INVALID, with the reason.
 */

/* Devices here; 0 where there is none, and rondo_last_error() says what is missing. A GPU for which this
   build has no kernels (of a compute capability below 8.0) is none. */
RONDO_API int rondo_device_count(void);
/* As rondo_mem_alloc(), on a device: zeroed. rondo_mem_free() frees it. */
RONDO_API int rondo_mem_alloc_on(void **memory, size_t size, int device);
/* A stream of a device's. What is queued on it runs there; rondo_stream_call() is not for it. */
RONDO_API int rondo_stream_create_on(rondo_stream **stream, int device);
/*
 * A stream of the program's own, a cudaStream_t (or CUstream) of this device: calls on it come after
 * what the program has queued on it, and before what it queues next. Destroying the rondo_stream
 * leaves the cudaStream_t alone, which must outlive it.
 */
RONDO_API int rondo_stream_wrap(rondo_stream **stream, void *cuda_stream, int device);
/*
 * Graphs. While the program captures such a stream, calls on it are recorded, on every rank (else
 * RONDO_MISMATCH), and run whenever the graph does: any number of times, with other calls in between, but
 * on all ranks in one order, to which the program's streams must see. Among processes, a call that is
 * captured waits until all ranks capture it, and its buffers stay mapped by them as long as the comm.
 * RONDO_UNSUPPORTED, with the reason, where the host has a part in the call: the program's own functions,
 * collectives of no elements, calls among processes that take turns on a device, and all calls where not
 * all ranks reach each other's device memory; so is a group of more than 96 sends and receives. A
 * transfer must be captured by its two ranks, and no other. Replays must be over before the comm is
 * destroyed.
 */
/* Copies between any memory of host and devices, in a device stream's order; NULL: now. Where a side is
   host memory that is not pinned, it waits for what is queued on the stream, unless that is being
   captured; and the copy may be done before it returns. */
RONDO_API int rondo_copy(void *to, const void *from, size_t size, rondo_stream *stream);

/*
 * Events time what runs on a device's streams, by the device's clock: recorded on a stream, an event
 * notes when the stream has come so far. An event may be recorded again once it has been reached; one
 * thread at a time uses it.
 */
typedef struct rondo_event rondo_event;

RONDO_API int rondo_event_create(rondo_event **event, int device);
/* Waits until it has been reached, if it was recorded. NULL is fine. */
RONDO_API void rondo_event_destroy(rondo_event *event);
/* RONDO_INVALID where the stream is not of the event's device. */
RONDO_API int rondo_event_record(rondo_event *event, rondo_stream *stream);
/* Waits until both, of one device, have been reached; *us: microseconds from the one to the other. */
RONDO_API int rondo_event_elapsed(rondo_event *from, rondo_event *to, double *us);

/* ---- Streams: work in order, on a thread of its own ---------------------------------------- */

/*
 * A host stream is a queue and the thread that works it off, so that communication goes on while
 * the caller computes. The first failure on a stream sticks, and rondo_stream_synchronize() returns it.
 * Collectives and transfers behind it are skipped, which ends their comms (RONDO_ABORTED), for peers
 * would wait in vain. Functions behind it are called all the same.
 */
RONDO_API int rondo_stream_create(rondo_stream **stream);
/* Finishes the queued work first. NULL is fine. */
RONDO_API void rondo_stream_destroy(rondo_stream *stream);
/* Waits until all work queued so far is done; returns the first failure on this stream. Refused
   (RONDO_INVALID) in a function that this stream calls. */
RONDO_API int rondo_stream_synchronize(rondo_stream *stream);
/*
 * The same without waiting: RONDO_PENDING, which is positive, while some work queued so far is not
 * done; then 0, or the first failure on this stream. In a function that this stream calls, it is about
 * the work before that: never pending. Also for a device's stream, but not while it is captured
 * (RONDO_UNSUPPORTED).
 */
RONDO_API int rondo_stream_query(rondo_stream *stream);
/*
 * Queues a call of run(argument), on the stream's thread. It is called once in any case, also when work
 * before it has failed: so it may free what that work used, and wake who waits. What is of use after
 * success alone asks rondo_stream_query() first.
 */
RONDO_API int rondo_stream_call(rondo_stream *stream, void (*run)(void *argument), void *argument);

#ifdef __cplusplus
}
#endif
#endif
