/*
 * The limit of an all-reduce over hosts: a ring of sockets from host to host, with no library.
 * `bare RANKS ROUNDS BATCHES SIZES NAMESPACE...` prints lines `bytes us`.
 *
 * With one rank on each host, the ring only moves the bytes, for their limit. With more, the ranks
 * of a host do the same sums and copies as a hierarchical all-reduce, in shared memory: each sums
 * one share of the buffer, passes it around its own ring, and copies the others'. Every byte goes
 * on as soon as it can: a rank works in small steps, on whatever is there.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "ranks.h"

#define STEP ((size_t)64 << 10) /* bytes that a rank sums, receives or copies at once */
#define BATCH_NS 50000000
#define NAP_NS 50000 /* a host's other ranks do not wake this one */
#define LOOK_NS 900000000 /* at the clock */
#define WARMUP 3
#define ROUNDS_MOST 8
#define MESSAGES_MOST (ROUNDS_MOST * 2 * PEERS_RANKS_MOST)

/* In shared memory, of all ranks. */
struct table {
	pthread_barrier_t all, hosts[PEERS_RANKS_MOST];
	_Atomic size_t
		finished[PEERS_RANKS_MOST]; /* bytes of this rank's shares, all calls together */
	double elapsed_ns[PEERS_RANKS_MOST];
};

static struct table *table;
static float *send_memory, *recv_memory; /* of all ranks, one after the other */
static size_t memory_count; /* floats of each rank */
static int hosts, ranks; /* of each host */
static int rounds;
static int host, member; /* this rank's */
static int next, previous; /* sockets */
static size_t before; /* bytes of each share in earlier calls */

static void must(bool done, const char *what)
{
	if (done)
		return;
	fprintf(stderr, "bare: host %d, rank %d: %s: %s\n", host, member, what, strerror(errno));
	_exit(1);
}

static float *memory_of(float *memory, int of)
{
	return memory + (size_t)(host * ranks + of) * memory_count;
}

/* ---- A call -------------------------------------------------------------------------------- */

/* A rank sends and receives one in each step of its ring: a chunk of a round. */
struct message {
	int round, step, awaits; /* messages of earlier steps, which a rank takes first */
};

/* In the order of both; the number of each; and those that complete a chunk. */
static struct message messages[MESSAGES_MOST];
static int number_of[ROUNDS_MOST][2 * PEERS_RANKS_MOST], message_count;
static int finals[MESSAGES_MOST], final_count;

/* A round begins when the one before has half of its steps behind it (tree/pipelined.c). */
static void order_messages(void)
{
	int gap = hosts - 1, steps = (rounds + 1) * gap, earlier = 0;

	for (int i = 0; i < steps * rounds; i++) {
		earlier = i % rounds ? earlier : message_count;
		struct message message = { i % rounds, i / rounds - i % rounds * gap, earlier };

		if (message.step < 0 || message.step >= 2 * gap)
			continue;
		if (message.step >= hosts - 2)
			finals[final_count++] = message_count;
		number_of[message.round][message.step] = message_count;
		messages[message_count++] = message;
	}
}

/* A share has a chunk for each host and round. Sums are made round by round, and begin with the
   chunk that leaves first. The other counters run over messages. */
struct call {
	size_t share, chunk; /* bytes */
	size_t summed; /* of the share */
	size_t sent, received; /* of the ring's messages */
	size_t copied[PEERS_RANKS_MOST]; /* of the others' shares */
};

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The offset in a share of the chunk of a round, and of the byte in it that a counter is at. */
static size_t offset_of(const struct call *call, int round, int chunk, size_t position)
{
	return (size_t)(round * hosts + (chunk + 2 * hosts) % hosts) * call->chunk +
	       position % call->chunk;
}

/* The bytes of the chunk with this number that a counter has behind it. */
static size_t behind(const struct call *call, size_t position, int number)
{
	size_t start = (size_t)number * call->chunk;

	return position < start ? 0 : least(position - start, call->chunk);
}

/* At most a step, and within the chunk. */
static size_t step_of(const struct call *call, size_t position, size_t end)
{
	size_t chunk_end = (position / call->chunk + 1) * call->chunk;

	return position >= end ? 0 : least(STEP, least(chunk_end, end) - position);
}

static char *share_of(const struct call *call, float *memory, int whose, int share)
{
	return (char *)memory_of(memory, whose) + (size_t)share * call->share;
}

static void add(float *into, const float *from, size_t count)
{
	for (size_t i = 0; i < count; i++)
		into[i] += from[i];
}

static bool sum(struct call *call)
{
	size_t size = step_of(call, call->summed, call->share);
	int turn = (int)(call->summed / call->chunk);
	size_t offset = offset_of(call, turn / hosts, host - turn % hosts, call->summed);
	char *into = share_of(call, recv_memory, member, member) + offset;

	if (size == 0)
		return false;
	memcpy(into, share_of(call, send_memory, 0, member) + offset, size);
	for (int i = 1; i < ranks; i++)
		add((float *)(void *)into,
			(const float *)(const void *)(share_of(call, send_memory, i, member) +
						      offset),
			size / sizeof(float));
	call->summed += size;
	return true;
}

static size_t ring_end(const struct call *call)
{
	return (size_t)message_count * call->chunk;
}

/* The message that a counter is at. */
static struct message message_at(const struct call *call, size_t position)
{
	return messages[least(position / call->chunk, (size_t)message_count - 1)];
}

/* Its own chunk, then what has come: where there are rounds, all of a chunk. Two hosts can exchange
   all of their bytes at once. */
static size_t sendable(const struct call *call)
{
	struct message message = message_at(call, call->sent);
	size_t there;

	if (call->sent == ring_end(call) || (hosts == 2 && ranks == 1))
		return ring_end(call);
	if (message.step == 0)
		there = behind(call, call->summed, message.round * hosts);
	else
		there = behind(call, call->received, number_of[message.round][message.step - 1]);
	if (rounds > 1 &&
		(there < call->chunk || call->received / call->chunk < (size_t)message.awaits))
		there = 0;
	return call->sent / call->chunk * call->chunk + there;
}

static bool send_step(struct call *call)
{
	size_t size = step_of(call, call->sent, sendable(call));
	struct message message = message_at(call, call->sent);
	ssize_t done;

	if (size == 0)
		return false;
	done = send(next,
		share_of(call, recv_memory, member, member) +
			offset_of(call, message.round, host - message.step, call->sent),
		size, MSG_DONTWAIT | MSG_NOSIGNAL);
	must(done > 0 || errno == EAGAIN, "send");
	call->sent += done > 0 ? (size_t)done : 0;
	return done > 0;
}

/* In the first half of a round's steps, sums arrive, which belong to what is summed here. */
static size_t receivable(const struct call *call)
{
	struct message message = message_at(call, call->received);

	if (call->received == ring_end(call))
		return ring_end(call);
	return call->received / call->chunk * call->chunk +
	       (message.step >= hosts - 1 ? call->chunk
					  : behind(call, call->summed,
						    message.round * hosts + message.step + 1));
}

static bool receive_step(struct call *call)
{
	static float scratch[STEP / sizeof(float)];
	static size_t odd; /* bytes of a float that has come in part */
	size_t size = step_of(call, call->received, receivable(call));
	struct message message = message_at(call, call->received);
	bool adds = ranks > 1 && message.step < hosts - 1;
	char *into = share_of(call, recv_memory, member, member) +
		     offset_of(call, message.round, host - 1 - message.step, call->received);
	ssize_t done;

	if (size == 0)
		return false;
	done = recv(previous, adds ? (char *)scratch + odd : into, size - (adds ? odd : 0),
		MSG_DONTWAIT);
	must(done > 0 || (done < 0 && errno == EAGAIN), "recv");
	if (done <= 0)
		return false;
	if (!adds) {
		call->received += (size_t)done;
		return true;
	}
	size = (size_t)done + odd;
	odd = size % sizeof(float);
	add((float *)(void *)into, scratch, size / sizeof(float));
	memcpy(scratch, (char *)scratch + size - odd, odd);
	call->received += size - odd;
	return true;
}

/* Bytes of chunks that hold the result, in the order in which they came. */
static size_t finished(const struct call *call)
{
	size_t bytes = 0;

	for (int i = 0; i < final_count; i++)
		bytes += behind(call, call->received, finals[i]);
	return bytes;
}

static bool copy(struct call *call, int from)
{
	size_t there = atomic_load(&table->finished[host * ranks + from]) - before;
	size_t size = step_of(call, call->copied[from], there);

	if (size == 0)
		return false;

	struct message message = messages[finals[call->copied[from] / call->chunk]];
	size_t offset = offset_of(call, message.round, host - 1 - message.step, call->copied[from]);

	memcpy(share_of(call, recv_memory, member, from) + offset,
		share_of(call, recv_memory, from, from) + offset, size);
	call->copied[from] += size;
	return true;
}

static bool over(const struct call *call)
{
	bool end = call->received == ring_end(call) && call->sent == ring_end(call);

	for (int i = 0; i < ranks; i++)
		end = end && (i == member || call->copied[i] == call->share);
	return end;
}

static void await(const struct call *call, struct peers_wait *wait)
{
	struct pollfd polls[] = {
		{ .fd = next, .events = call->sent < sendable(call) ? POLLOUT : 0 },
		{ .fd = previous, .events = call->received < receivable(call) ? POLLIN : 0 },
	};
	const struct timespec nap = { .tv_nsec = ranks > 1 ? NAP_NS : LOOK_NS };

	must(ppoll(polls, 2, &nap, NULL) >= 0, "ppoll");
	errno = ETIMEDOUT;
	must(!peers_wait_is_late(wait), "wait for the other ranks");
}

static void all_reduce(size_t size)
{
	struct call call = { .share = size / (size_t)ranks };
	struct peers_wait wait = { 0 };

	call.chunk = call.share / (size_t)(hosts * rounds);
	/* The others have copied the result of the last call, and their inputs are there. */
	if (ranks > 1)
		pthread_barrier_wait(&table->hosts[host]);
	else
		call.summed = call.share;
	while (!over(&call)) {
		bool active = send_step(&call);

		active |= receive_step(&call);
		atomic_store(&table->finished[host * ranks + member], before + finished(&call));
		active |= sum(&call);
		for (int i = 0; i < ranks; i++)
			active |= i != member && copy(&call, i);
		if (active)
			wait = (struct peers_wait){ 0 };
		else
			await(&call, &wait);
	}
	before += call.share;
}

/* ---- Measuring ----------------------------------------------------------------------------- */

/* The slowest rank's time of a call. */
static double measure(size_t size, long calls)
{
	double slowest = 0;

	pthread_barrier_wait(&table->all);
	int64_t start = rd_clock_ns();
	for (long i = 0; i < calls; i++)
		all_reduce(size);
	table->elapsed_ns[host * ranks + member] = (double)(rd_clock_ns() - start);
	pthread_barrier_wait(&table->all);
	for (int i = 0; i < hosts * ranks; i++)
		slowest = table->elapsed_ns[i] > slowest ? table->elapsed_ns[i] : slowest;
	pthread_barrier_wait(&table->all);
	return slowest / (double)calls;
}

static void measure_size(size_t size, int batches)
{
	size_t count = size / sizeof(float);
	float *input = memory_of(send_memory, member), *output = memory_of(recv_memory, member);

	errno = EINVAL;
	must(count % (size_t)(hosts * ranks * rounds) == 0,
		"a size that ranks and rounds do not divide");
	for (size_t i = 0; i < count; i++)
		input[i] = (float)(host * ranks + member + 1);
	long calls = 1 + (long)(BATCH_NS / measure(size, WARMUP));
	for (int i = 0; i < batches; i++) {
		double time_ns = measure(size, calls);
		if (host + member == 0)
			printf("%zu %.1f\n", size, time_ns / 1e3);
	}
	for (size_t i = 0; ranks > 1 && i < count; i++)
		must(output[i] == (float)(hosts * ranks * (hosts * ranks + 1) / 2), "wrong sum");
}

/* ---- Ranks --------------------------------------------------------------------------------- */

static struct sockaddr_in address_of(int of)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_port = htons((uint16_t)(7000 + member)),
		.sin_addr = { htonl(0x0a070001U + (uint32_t)of) } };
}

static void connect_ring(void)
{
	struct sockaddr_in own = address_of(host), other = address_of((host + 1) % hosts);
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	must(bind(listener, (struct sockaddr *)&own, sizeof(own)) == 0, "bind");
	must(listen(listener, 1) == 0, "listen");
	pthread_barrier_wait(&table->all);
	next = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(next, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	must(connect(next, (struct sockaddr *)&other, sizeof(other)) == 0, "connect");
	previous = accept(listener, NULL, NULL);
	must(previous >= 0, "accept");
}

struct arguments {
	int batches;
	char *sizes;
	char **namespaces;
};

/* Ranks are in the order of hosts. */
static int live(int which, void *argument)
{
	const struct arguments *arguments = argument;

	host = which / ranks;
	member = which % ranks;

	const char *namespace = arguments->namespaces[host];
	int file = open(namespace, O_RDONLY);

	must(file >= 0 && setns(file, CLONE_NEWNET) == 0, namespace);
	connect_ring();
	for (char *end, *sizes = arguments->sizes; *sizes; sizes = *end ? end + 1 : end)
		measure_size(strtoull(sizes, &end, 10), arguments->batches);
	pthread_barrier_wait(&table->all);
	fflush(stdout);
	return 0;
}

static size_t largest(const char *sizes)
{
	size_t most = 0;

	for (char *end; *sizes; sizes = *end ? end + 1 : end) {
		size_t size = strtoull(sizes, &end, 10);
		most = size > most ? size : most;
	}
	return most;
}

static void *share_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	must(memory != MAP_FAILED, "mmap");
	return memory;
}

static void make_barrier(pthread_barrier_t *barrier, int count)
{
	pthread_barrierattr_t shared;

	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(barrier, &shared, (unsigned)count);
}

int main(int argc, char **argv)
{
	struct arguments arguments = { 0 };

	ranks = argc > 5 ? atoi(argv[1]) : 0;
	rounds = argc > 5 ? atoi(argv[2]) : 0;
	hosts = argc - 5;
	if (ranks < 1 || rounds < 1 || rounds > ROUNDS_MOST || hosts < 2 ||
		hosts * ranks > PEERS_RANKS_MOST) {
		fprintf(stderr, "usage: bare RANKS ROUNDS BATCHES SIZES NAMESPACE...\n");
		return 2;
	}
	memory_count = largest(argv[4]) / sizeof(float);
	table = share_memory(sizeof(*table));
	send_memory = share_memory((size_t)(hosts * ranks) * memory_count * sizeof(float));
	recv_memory = share_memory((size_t)(hosts * ranks) * memory_count * sizeof(float));
	make_barrier(&table->all, hosts * ranks);
	for (int i = 0; i < hosts; i++)
		make_barrier(&table->hosts[i], ranks);
	order_messages();
	arguments = (struct arguments){ atoi(argv[3]), argv[4], argv + 5 };
	return peers_ranks_run("bare", hosts * ranks, live, NULL, &arguments);
}
