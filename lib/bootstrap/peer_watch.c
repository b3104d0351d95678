#include "bootstrap/peer_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/close_on_fork.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/thread.h"
#include "topo/cpus.h"
#include "topo/place.h"

#define STACK_SIZE (128 << 10)
/* The threads that wait, and the futexes, of which the kernel wakes one waiter each. */
#define WAITERS 2
#define PACKET_MAGIC 0x64617772u /* "rwad" */

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

enum end { NONE, LEFT, DIED };

enum packet_kind { SHARES = 1, REPORTS, ASKS };

/* Between ranks of this host. */
struct packet {
	uint32_t magic, kind;
	uint64_t comm_id;
	int32_t from, zero;
	struct rd_death death; /* of REPORTS; the others end before it */
};

struct rd_watch {
	struct rd_watch_config config;
	struct neighbor *here; /* the ranks of this host */
	int here_count, own_at, next_at; /* numbers in it */
	int next, previous; /* waited for, and waiting; -1: none */
	int fd; /* of its socket; -1: it is closed */
	struct rd_close_on_fork unshared_socket;
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
	/* It can only fail where the counter is full, and the thread wakes all the same. */
	eventfd_write(watch->config.event_fd, 1);
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

/* ---- Packets: over abstract datagram sockets, which leave nothing behind -------------------- */

/* The first byte is zero: an abstract address, with no file. */
static socklen_t fill_name(struct sockaddr_un *address, uint64_t comm_id, int rank)
{
	int length = sprintf(
		address->sun_path + 1, "rondo-watch-%016llx-%d", (unsigned long long)comm_id, rank);

	address->sun_family = AF_UNIX;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* False: errno has the reason, and the caller closes it all the same. */
static bool open_socket(struct rd_watch *watch)
{
	struct sockaddr_un address = { 0 };
	socklen_t size = fill_name(&address, watch->config.comm_id, watch->config.rank);

	watch->fd = rd_above_stderr(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (watch->fd < 0)
		return false;
	rd_close_on_fork_add(&watch->unshared_socket, &watch->fd);
	return !setsockopt(watch->fd, SOL_SOCKET, SO_PASSCRED, &(int){ 1 }, sizeof(int)) &&
	       !bind(watch->fd, (struct sockaddr *)&address, size);
}

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

/* The packet's size on its way. */
static size_t size_of(const struct packet *packet)
{
	return packet->kind == REPORTS ? sizeof(*packet) : offsetof(struct packet, death);
}

/* fd goes along; -1: none. False: errno has the reason. */
static bool send_packet(const struct rd_watch *watch, int rank, struct packet *packet, int fd)
{
	struct sockaddr_un address = { 0 };
	socklen_t size = fill_name(&address, watch->config.comm_id, rank);
	struct iovec bytes = { packet, size_of(packet) };
	union control control = { 0 };
	struct msghdr message = {
		.msg_name = &address, .msg_namelen = size, .msg_iov = &bytes, .msg_iovlen = 1
	};

	if (fd >= 0) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(sizeof(fd));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	packet->magic = PACKET_MAGIC;
	packet->comm_id = watch->config.comm_id;
	packet->from = watch->config.rank;
	return sendmsg(watch->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
	       (ssize_t)size_of(packet);
}

/* Keeps the first descriptor and closes the others. */
static void take_fds(const struct cmsghdr *header, int *fd)
{
	size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	int fds[sizeof(union control) / sizeof(int)];

	memcpy(fds, CMSG_DATA(header), count * sizeof(int));
	for (size_t i = 1; i < count; i++)
		close(fds[i]);
	*fd = rd_above_stderr(fds[0]);
}

/* The descriptor in the message (-1: none), and the uid of its sender. */
static void read_control(struct msghdr *message, int *fd, uid_t *uid)
{
	struct ucred sender;

	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
		header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level != SOL_SOCKET)
			continue;
		if (header->cmsg_type == SCM_RIGHTS) {
			take_fds(header, fd);
		} else if (header->cmsg_type == SCM_CREDENTIALS) {
			memcpy(&sender, CMSG_DATA(header), sizeof(sender));
			*uid = sender.uid;
		}
	}
}

/* 1: a valid packet; 0: an invalid one; -1: none has come. The caller closes *fd, which is -1 where
   there is none. */
static int receive_packet(const struct rd_watch *watch, struct packet *packet, int *fd)
{
	struct iovec bytes = { packet, sizeof(*packet) };
	union control control;
	struct msghdr message = { .msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	ssize_t got = recvmsg(watch->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	uid_t uid = (uid_t)-1;

	*fd = -1;
	if (got < 0)
		return errno == EINTR ? 0 : -1;
	read_control(&message, fd, &uid);
	return got >= (ssize_t)offsetof(struct packet, death) && got == (ssize_t)size_of(packet) &&
	       !(message.msg_flags & MSG_TRUNC) && packet->magic == PACKET_MAGIC &&
	       packet->comm_id == watch->config.comm_id && uid == getuid();
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
	struct packet packet = { .kind = REPORTS };

	watch->reported = true;
	death->pid = watch->here[watch->next_at].pid;
	death->pid_space = watch->here[watch->next_at].pid_space;
	memcpy(&death->counts, &watch->watched->counts, sizeof(death->counts));
	packet.death = *death;
	for (int i = 0; i < watch->here_count; i++)
		if (i != watch->own_at && i != watch->next_at)
			send_packet(watch, watch->here[i].rank, &packet, -1);
}

/* Once the next rank has left, or died and been reported: waits for the one behind it, which is
   asked. A rank without a socket has left as well. */
static void close_ring(struct rd_watch *watch)
{
	struct packet packet = { .kind = ASKS };

	for (int i = 0; i < watch->waiter_count; i++)
		if (!atomic_load(&watch->waiters[i].over))
			return;
	if (watch->waiter_count == 0)
		return;
	join_waiters(watch);
	munmap(watch->watched, sizeof(*watch->watched));
	watch->watched = NULL;
	watch->reported = false;
	atomic_store(&watch->next_end, NONE);
	do
		watch->next = neighbor_of(watch, &watch->next_at, 1);
	while (watch->next >= 0 && !send_packet(watch, watch->next, &packet, -1));
}

static void share(struct rd_watch *watch, int rank)
{
	struct packet packet = { .kind = SHARES };

	if (!watch->own && (!make_segment(watch) || !own_segment(watch)))
		return;
	/* A rank without a socket has left, or has said why it has none. */
	if (!send_packet(watch, rank, &packet, watch->own_fd) && errno != ECONNREFUSED)
		rd_log(RD_INFO, RD_BOOTSTRAP, "rank %d does not watch over this process: %m", rank);
}

bool rd_watch_next(struct rd_watch *watch, struct rd_death *death)
{
	struct packet packet;
	int fd, valid;

	if (watch->fd < 0)
		return false;
	if (atomic_load(&watch->next_end) == DIED && !watch->reported) {
		report_next(watch, death);
		return true;
	}
	close_ring(watch);
	while ((valid = receive_packet(watch, &packet, &fd)) >= 0) {
		if (valid && packet.kind == SHARES && fd >= 0 && packet.from == watch->next &&
			!watch->watched)
			start_waiting(watch, fd);
		else if (valid && packet.kind == ASKS)
			share(watch, packet.from);
		if (fd >= 0)
			close(fd);
		if (valid && packet.kind == REPORTS) {
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
	return watch->fd;
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
	watch->fd = watch->own_fd = -1;
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
	if (!open_socket(watch) ||
		(watch->previous >= 0 && (!make_segment(watch) || !own_segment(watch)))) {
		rd_log(RD_INFO, RD_BOOTSTRAP, "no watch over the processes of this host: %m");
		rd_watch_destroy(watch);
		return NULL;
	}
	return watch;
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
	rd_close_unshared(&watch->unshared, &watch->own_fd);
	rd_close_unshared(&watch->unshared_socket, &watch->fd);
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
