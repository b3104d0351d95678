/*
 * The queues between the driver's calls and a device, as CUDA's users report them. A context has
 *
 *   - a lock, which a call holds while it queues something;
 *   - a launch queue: QUEUED_MAX items that are queued on its streams and have not run to their
 *     end. A call that finds it full waits for room with the lock held, so that no other thread
 *     can queue anything there;
 *   - CUDA_DEVICE_MAX_CONNECTIONS hardware queues (8 where it is not set). Streams are mapped on
 *     them in turn, in the order of their creation.
 *
 * An item is a driver call's part of a stream: a kernel, a copy, a call of the host, a graph, or a
 * batch of waits and writes of flags. It enters its hardware queue when it is queued, and leaves it
 * when it starts. It starts when it is the first there, when all that its stream holds before it
 * has run, and when
 *
 *   - a kernel: its blocks have found room on the multiprocessors (room.h);
 *   - a wait, for flags or for an event: it is satisfied;
 *   - others: at once.
 *
 * So an item waits for each earlier item of its hardware queue to start, also for those of other
 * streams. A wait in front holds up all that is behind it.
 *
 * A stream runs items in order, in a thread of its own (worker.h). An item is
 * three entries there: enter() waits until it is first in its hardware queue, then comes the item
 * itself, and leave() takes it from the launch queue.
 *
 * CUDA_LAUNCH_BLOCKING=1: the launch of a kernel returns when the kernel has ended, with the lock
 * held. Items that a graph captures are in no queue; the graph's launch is one item.
 */
#ifndef QUEUES_H
#define QUEUES_H

#include <cuda.h>
#include <pthread.h>

#define CONNECTIONS_MAX 32
#define QUEUED_MAX 1024

/* ITEM_COPY: from or to pageable memory. item_end() waits until it has run. */
enum item_kind { ITEM_KERNEL, ITEM_WAIT, ITEM_COPY, ITEM_OTHER };

struct item;

struct hardware_queue {
	struct item *first, *last;
};

/* Each context has them. */
struct queues {
	pthread_mutex_t lock;
	pthread_cond_t change;
	struct hardware_queue hardware[CONNECTIONS_MAX];
	int queued; /* items in the launch queue */
	int streams; /* that were ever created */
};

/* Once, when the driver starts: reads the environment. */
void queues_start(void);

/* The hardware queue of a stream that is created now. */
int queues_next(CUcontext context);

/*
 * Around what queues an item's own part: takes the current context's lock, and lets go of it. After
 * an error of item_begin() nothing is queued, and the lock is free. CUDA_ERROR_LAUNCH_TIMEOUT: the
 * launch queue stays full, or the kernel does not end (CUDA_LAUNCH_BLOCKING).
 */
CUresult item_begin(CUstream stream, enum item_kind kind, struct item **begun);
/* err: of what it did; 0 where the item is queued. */
CUresult item_end(struct item *item, int err);

/* In a stream's thread: the context of the item that it runs; NULL: it runs none. */
CUcontext item_context(void);
/* That item starts now. */
void item_start(void);

#endif
