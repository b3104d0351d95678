#include "bootstrap/peer_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/close_on_fork.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/thread.h"
#include "bootstrap/watch_socket.h"
#include "topo/cpus.h"
#include "topo/place.h"

#define STACK_SIZE (128 << 10)
/* The threads that wait, and the futexes, of which the kernel wakes one waiter each. */
#define WAITERS 2

/*
 * The kernel reads this when the owner's thread ends. All of it is in shared memory: the private
 * memory of a process that runs out of memory may be gone by then. The pointers are the owner's.
 */
struct segment {
	struct robust_list_head head;
	struct robust_futex {
		struct robust_list entry;
		/* The owner's thread, with FUTEX_WAITERS; FUTEX_OWNER_DIED; 0: one of the two has
		   left. */
		_Atomic uint32_t value;
	} futexes[WAITERS];
	struct rd_watch_counts counts;
};

struct waiter {
	struct rd_watch *watch;
	int number;
	pthread_t thread;
	_Atomic bool over;
};

/* A rank of this host. */
struct neighbor {
	int rank;
	int32_t pid;
	uint32_t pid_space;
};

enum end { GOES_ON, LEFT, DIED };

struct rd_watch {
	struct rd_watch_config config;
	struct neighbor *here; /* the ranks of this host */
	int here_count, own_at, next_at; /* numbers in it */
	int next, previous; /* waited for, and waiting; -1: none */
	struct rd_watch_socket socket;
	_Atomic int next_end; /* enum end */
	bool reported; /* that it has died */

	_Atomic bool ended; /* waiters see it */
	struct segment *own; /* where there is a previous */
	bool counted[RD_WATCH_COMMS]; /* of its counts */
	int latest; /* of them */
	bool shared;
	int own_fd; /* for whoever waits for this rank */
	struct rd_close_on_fork unshared;
	struct robust_list_head *replaced; /* the C library's list */
	size_t replaced_size;

	struct segment *watched; /* the next rank's, once it is here */
	struct waiter waiters[WAITERS];
	int waiter_count; /* those whose threads run */
};

/* ---- The ring of a host -------------------------------------------------------------------- */

static bool find_here(struct rd_watch *watch)
{
	const struct rd_watch_config *config = &watch->config;
	const struct rd_member *members = config->members;

	watch->here = calloc((size_t)config->size, sizeof(*watch->here));
	for (int rank = 0; rank < config->size && watch->here; rank++) {
		const struct rd_place *place = &members[rank].place;

		if (!rd_place_same_host(place, &members[config->rank].place))
			continue;
		if (rank == config->rank)
			watch->own_at = watch->here_count;
		watch->here[watch->here_count++] =
			(struct neighbor){ rank, place->pid, place->pid_space };
	}
	return watch->here;
}

/* The rank beside this place of the ring in a direction, 1 or -1; -1: it is in this process. */
static int neighbor_of(const struct rd_watch *watch, int *at, int direction)
{
	const struct neighbor *own = &watch->here[watch->own_at], *other;

	*at = (*at + direction + watch->here_count) % watch->here_count;
	other = &watch->here[*at];
	return other->pid == own->pid && other->pid_space == own->pid_space ? -1 : other->rank;
}

/* ---- The futex ----------------------------------------------------------------------------- */

static void futex_wait(_Atomic uint32_t *futex, uint32_t value)
{
	syscall(SYS_futex, futex, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void clear_futexes(struct segment *segment)
{
	for (int i = 0; i < WAITERS; i++) {
		atomic_store(&segment->futexes[i].value, 0);
		syscall(SYS_futex, &segment->futexes[i].value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	}
}

static struct segment *map_segment(int fd)
{
	void *memory =
		mmap(NULL, sizeof(struct segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* Sealed, so that the other process cannot shrink it. */
static bool make_segment(struct rd_watch *watch)
{
	watch->own_fd = rd_above_stderr(memfd_create("rondo", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (watch->own_fd >= 0)
		rd_close_on_fork_add(&watch->unshared, &watch->own_fd);
	if (watch->own_fd < 0 || ftruncate(watch->own_fd, sizeof(struct segment)) ||
		fcntl(watch->own_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return false;
	watch->own = map_segment(watch->own_fd);
	return watch->own;
}

/* The calling thread owns the futexes from now on. */
static bool own_segment(struct rd_watch *watch)
{
	struct segment *own = watch->own;
	struct robust_list *next = &own->head.list;

	for (int i = 0; i < WAITERS; i++) {
		struct robust_futex *futex = &own->futexes[i];

		futex->entry.next = next;
		next = &futex->entry;
		atomic_store(&futex->value, (uint32_t)syscall(SYS_gettid) | FUTEX_WAITERS);
	}
	own->head.list.next = next;
	own->head.futex_offset = (long)offsetof(struct robust_futex, value) -
				 (long)offsetof(struct robust_futex, entry);
	return !syscall(SYS_get_robust_list, 0, &watch->replaced, &watch->replaced_size) &&
	       !syscall(SYS_set_robust_list, &own->head, sizeof(own->head));
}

static void disown_segment(struct rd_watch *watch)
{
	if (!watch->own)
		return;
	clear_futexes(watch->own);
	if (watch->replaced_size > 0)
		syscall(SYS_set_robust_list, watch->replaced, watch->replaced_size);
}

static void watch_notify(const struct rd_watch *watch)
{
	/* It can only fail where the counter is full, and the thread wakes all the same. */
	eventfd_write(watch->config.event_fd, 1);
}

/*
 * Each waiter runs on CPUs of its own: every second one. A dying thread may free memory for long
 * without giving way, and the scheduler may put a thread that it wakes behind it.
 */
static void bind_waiter(const struct waiter *waiter)
{
	struct rd_cpus all, own = { { 0 } };
	int count = 0;

	if (!rd_cpus_allowed(&all))
		return;
	for (int cpu = 0; cpu < RD_CPU_MAX; cpu++)
		if (rd_cpus_has(&all, cpu) && count++ % WAITERS == waiter->number)
			rd_cpus_add(&own, cpu);
	/* It fails where there is but one CPU. */
	if (sched_setaffinity(0, sizeof(own.bits), (const cpu_set_t *)own.bits))
		return;
}

/* A thread of its own, because poll(2) does not wait for a futex. */
static void *wait_for_end(void *argument)
{
	struct waiter *waiter = argument;
	struct rd_watch *watch = waiter->watch;
	_Atomic uint32_t *futex = &watch->watched->futexes[waiter->number].value;
	uint32_t value;

	bind_waiter(waiter);
	while ((value = atomic_load(futex)) & FUTEX_TID_MASK && !atomic_load(&watch->ended))
		futex_wait(futex, value);
	atomic_store(&watch->next_end, value & FUTEX_OWNER_DIED ? DIED : LEFT);
	atomic_store(&waiter->over, true);
	watch_notify(watch);
	return NULL;
}

/* The futexes are the other rank's, and stay as they are: a waiter that has not slept yet misses a
   wake-up, and gets another. */
static void join_waiters(struct rd_watch *watch)
{
	for (int i = 0; i < watch->waiter_count; i++) {
		while (!atomic_load(&watch->waiters[i].over)) {
			syscall(SYS_futex, &watch->watched->futexes[i].value, FUTEX_WAKE, INT_MAX,
				NULL, NULL, 0);
			sched_yield();
		}
		pthread_join(watch->waiters[i].thread, NULL);
	}
	watch->waiter_count = 0;
}

/* ---- Messages ------------------------------------------------------------------------------ */

static bool is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat status;

	return seals >= 0 && seals & F_SEAL_SHRINK && !fstat(fd, &status) &&
	       status.st_size >= (off_t)sizeof(struct segment);
}

static int start_waiters(struct rd_watch *watch)
{
	while (watch->waiter_count < WAITERS) {
		struct waiter *waiter = &watch->waiters[watch->waiter_count];

		waiter->watch = watch;
		waiter->number = watch->waiter_count;
		atomic_store(&waiter->over, false);

		int error = rd_thread_start(&waiter->thread, STACK_SIZE, wait_for_end, waiter);

		/* One serves as well, but for the time that it may take. */
		if (error)
			return watch->waiter_count > 0 ? 0 : error;
		watch->waiter_count++;
	}
	return 0;
}

static void start_waiting(struct rd_watch *watch, int fd)
{
	int error;

	watch->watched = is_sealed(fd) ? map_segment(fd) : NULL;
	error = watch->watched ? start_waiters(watch) : EINVAL;
	if (!error)
		return;
	rd_log(RD_INFO, RD_BOOTSTRAP, "no watch over the process of rank %d: %s", watch->next,
		strerror(error));
	if (watch->watched)
		munmap(watch->watched, sizeof(*watch->watched));
	watch->watched = NULL;
}

/* Tells the other ranks of this host. One without a socket has left; a full queue loses the
   packet. */
static void report_next(struct rd_watch *watch, struct rd_death *death)
{
	struct rd_watch_packet packet = { .kind = RD_WATCH_REPORTS };

	watch->reported = true;
	death->pid = watch->here[watch->next_at].pid;
	death->pid_space = watch->here[watch->next_at].pid_space;
	memcpy(&death->counts, &watch->watched->counts, sizeof(death->counts));
	packet.death = *death;
	for (int i = 0; i < watch->here_count; i++)
		if (i != watch->own_at && i != watch->next_at)
			rd_watch_socket_send(&watch->socket, watch->here[i].rank, &packet, -1);
}

/* Once the next rank has left, or died and been reported: waits for the one behind it, which is
   asked. A rank without a socket has left as well. */
static void close_ring(struct rd_watch *watch)
{
	struct rd_watch_packet packet = { .kind = RD_WATCH_ASKS };

	for (int i = 0; i < watch->waiter_count; i++)
		if (!atomic_load(&watch->waiters[i].over))
			return;
	if (watch->waiter_count == 0)
		return;
	join_waiters(watch);
	munmap(watch->watched, sizeof(*watch->watched));
	watch->watched = NULL;
	watch->reported = false;
	atomic_store(&watch->next_end, GOES_ON);
	do
		watch->next = neighbor_of(watch, &watch->next_at, 1);
	while (watch->next >= 0 && !rd_watch_socket_send(&watch->socket, watch->next, &packet, -1));
}

static void share(struct rd_watch *watch, int rank)
{
	struct rd_watch_packet packet = { .kind = RD_WATCH_SHARES };

	if (!watch->own && (!make_segment(watch) || !own_segment(watch)))
		return;
	/* A rank without a socket has left, or has said why it has none. */
	if (!rd_watch_socket_send(&watch->socket, rank, &packet, watch->own_fd) &&
		errno != ECONNREFUSED)
		rd_log(RD_INFO, RD_BOOTSTRAP, "rank %d does not watch over this process: %m", rank);
}

bool rd_watch_next(struct rd_watch *watch, struct rd_death *death)
{
	struct rd_watch_packet packet;
	int fd, valid;

	if (watch->socket.fd < 0)
		return false;
	if (atomic_load(&watch->next_end) == DIED && !watch->reported) {
		report_next(watch, death);
		return true;
	}
	close_ring(watch);
	while ((valid = rd_watch_socket_recv(&watch->socket, &packet, &fd)) >= 0) {
		if (valid && packet.kind == RD_WATCH_SHARES && fd >= 0 &&
			packet.from == watch->next && !watch->watched)
			start_waiting(watch, fd);
		else if (valid && packet.kind == RD_WATCH_ASKS)
			share(watch, packet.from);
		if (fd >= 0)
			close(fd);
		if (valid && packet.kind == RD_WATCH_REPORTS) {
			*death = packet.death;
			return true;
		}
	}
	return false;
}

void rd_watch_start(struct rd_watch *watch)
{
	if (!watch->shared && watch->previous >= 0)
		share(watch, watch->previous);
	watch->shared = true;
}

int rd_watch_rank(const struct rd_watch *watch)
{
	return watch->config.rank;
}

int rd_watch_fd(const struct rd_watch *watch)
{
	return watch->socket.fd;
}

/* ---- Finished calls ------------------------------------------------------------------------- */

struct rd_watch_count *rd_watch_count(struct rd_watch *watch, uint64_t comm_id, int rank)
{
	for (int i = 0; i < RD_WATCH_COMMS && watch->own; i++) {
		int at = (watch->latest + 1 + i) % RD_WATCH_COMMS;
		struct rd_watch_count *count = &watch->own->counts.at[at];

		if (watch->counted[at])
			continue;
		watch->counted[at] = true;
		watch->latest = at;
		atomic_store(&count->done, 0);
		atomic_store(&count->rank, rank);
		atomic_store(&count->comm_id, comm_id);
		return count;
	}
	return NULL;
}

void rd_watch_left(struct rd_watch_count *count)
{
	atomic_store(&count->rank, -1);
}

void rd_watch_uncount(struct rd_watch *watch, struct rd_watch_count *count)
{
	rd_watch_left(count);
	watch->counted[count - watch->own->counts.at] = false;
}

const struct rd_watch_count *rd_death_count(const struct rd_death *death, uint64_t comm_id)
{
	for (int i = 0; i < RD_WATCH_COMMS; i++)
		if (atomic_load(&death->counts.at[i].comm_id) == comm_id)
			return &death->counts.at[i];
	return NULL;
}

/* ---- Life ---------------------------------------------------------------------------------- */

struct rd_watch *rd_watch_create(const struct rd_watch_config *config)
{
	struct rd_watch *watch = calloc(1, sizeof(*watch));
	int at;

	if (!watch)
		return NULL;
	watch->config = *config;
	watch->socket.fd = watch->own_fd = -1;
	if (!find_here(watch)) {
		free(watch);
		return NULL;
	}
	at = watch->next_at = watch->own_at;
	watch->next = neighbor_of(watch, &watch->next_at, 1);
	watch->previous = neighbor_of(watch, &at, -1);
	if (watch->next < 0 && watch->previous < 0) {
		rd_watch_destroy(watch);
		return NULL;
	}
	if (!rd_watch_socket_open(&watch->socket, config->comm_id, config->rank) ||
		(watch->previous >= 0 && (!make_segment(watch) || !own_segment(watch)))) {
		rd_log(RD_INFO, RD_BOOTSTRAP, "no watch over the processes of this host: %m");
		rd_watch_destroy(watch);
		return NULL;
	}
	return watch;
}

static void close_all(struct rd_watch *watch)
{
	rd_close_unshared(&watch->unshared, &watch->own_fd);
	rd_watch_socket_close(&watch->socket);
}

void rd_watch_end(struct rd_watch *watch)
{
	if (atomic_exchange(&watch->ended, true))
		return;
	disown_segment(watch);
	if (watch->watched) {
		join_waiters(watch);
		munmap(watch->watched, sizeof(*watch->watched));
		watch->watched = NULL;
	}
	close_all(watch);
}

void rd_watch_destroy(struct rd_watch *watch)
{
	if (!watch)
		return;
	rd_watch_end(watch);
	if (watch->own)
		munmap(watch->own, sizeof(*watch->own));
	free(watch->here);
	free(watch);
}
