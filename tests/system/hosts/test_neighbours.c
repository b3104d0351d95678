/*
 * Hostile neighbours: threads of this process attack each port at which its ranks listen, the
 * meeting's and the links', while comms are made and used. The job has a secret.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "secure/secret.h"
#include "secure/tls.h"
#include "net/wire.h"
#include "world.h"

#define COMMS 1000
#define COUNT 1024
#define ATTACKERS 2
/* Connections that an attacker keeps open. */
#define KEPT 64
#define FDS_MAX 512

/* ---- Attacks ------------------------------------------------------------------------------- */

static atomic_bool over;
static _Atomic long attacks;

static unsigned next_random(unsigned *state)
{
	*state = *state * 1103515245u + 12345u;
	return *state >> 16;
}

/* A port at which this process listens, behind this descriptor or the next; 0: none. */
static int find_port(unsigned *random)
{
	unsigned first = next_random(random);

	for (unsigned i = 0; i < FDS_MAX; i++) {
		int fd = (int)((first + i) % FDS_MAX), listens = 0;
		socklen_t size = sizeof(listens);
		struct sockaddr_in at;

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) || !listens)
			continue;
		size = sizeof(at);
		if (getsockname(fd, (struct sockaddr *)&at, &size) == 0 && at.sin_family == AF_INET)
			return ntohs(at.sin_port);
	}
	return 0;
}

static int connect_to(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	connect(fd, (struct sockaddr *)&address, sizeof(address));
	return fd;
}

/* Held while an attacker has memory of its own, which is not the ranks'. */
static pthread_mutex_t attacker_memory = PTHREAD_MUTEX_INITIALIZER;

/* The first flight of a handshake by a key, as a client that then stalls. */
static void send_handshake(int fd, const unsigned char psk[RD_PSK_SIZE])
{
	struct rd_wire wire = RD_WIRE(fd);

	pthread_mutex_lock(&attacker_memory);
	if (rd_wire_secure(&wire, false, psk) == 0)
		rd_wire_prove(&wire);
	rd_wire_release(&wire);
	pthread_mutex_unlock(&attacker_memory);
}

/* A first flight of this job, as it was overheard. */
static unsigned char overheard[4096];
static size_t overheard_size;

static void overhear(const unsigned char psk[RD_PSK_SIZE])
{
	ssize_t size;
	int ends[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	send_handshake(ends[0], psk);
	size = recv(ends[1], overheard, sizeof(overheard), 0);
	cr_assert_gt(size, 100, "no handshake was overheard");
	overheard_size = (size_t)size;
	close(ends[0]);
	close(ends[1]);
}

static void attack(int fd, unsigned *random)
{
	static const char web[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
	static const char tls_length[] = "\x16\3\1\x3f\xff\1";
	static const char tcp_hello[48] = "rodh\3";
	static const unsigned char wrong[RD_PSK_SIZE] = "a wrong secret";
	unsigned char noise[512];

	switch (next_random(random) % 9) {
	case 0: /* half open */
		break;
	case 1:
		for (size_t i = 0; i < sizeof(noise); i++)
			noise[i] = (unsigned char)next_random(random);
		send(fd, noise, sizeof(noise), MSG_NOSIGNAL);
		break;
	case 2:
		send(fd, web, sizeof(web), MSG_NOSIGNAL);
		break;
	case 3: /* a length that never comes */
		send(fd, tls_length, sizeof(tls_length), MSG_NOSIGNAL);
		break;
	case 4: /* a frame of the control connection, of four gigabytes */
		send(fd, "\xff\xff\xff\xff\1", 5, MSG_NOSIGNAL);
		break;
	case 5:
		send(fd, tcp_hello, sizeof(tcp_hello), MSG_NOSIGNAL);
		break;
	case 6: /* replayed */
		send(fd, overheard, overheard_size, MSG_NOSIGNAL);
		break;
	case 7: /* replayed, and slow: the rest never comes */
		send(fd, overheard, overheard_size / 2, MSG_NOSIGNAL);
		break;
	default:
		send_handshake(fd, wrong);
	}
}

static void *run_attacker(void *argument)
{
	unsigned random = (unsigned)(uintptr_t)argument;
	struct pollfd ready;
	int kept[KEPT];
	int at = 0;

	memset(kept, -1, sizeof(kept));
	while (!atomic_load(&over)) {
		int port = find_port(&random);

		if (!port) {
			sched_yield();
			continue;
		}
		if (kept[at] >= 0)
			close(kept[at]);
		kept[at] = connect_to(port);
		ready = (struct pollfd){ .fd = kept[at], .events = POLLOUT };
		poll(&ready, 1, 1);
		attack(kept[at], &random);
		/* Neighbours take none of our processors' time. */
		poll(NULL, 0, 1);
		at = (at + 1) % KEPT;
		atomic_fetch_add(&attacks, 1);
	}
	for (int i = 0; i < KEPT; i++)
		if (kept[i] >= 0)
			close(kept[i]);
	return NULL;
}

/* ---- The job ------------------------------------------------------------------------------- */

static pthread_barrier_t together;
static int port, listener;
static _Atomic int failures;
static char failure[512];

static void fail(const char *what)
{
	if (atomic_fetch_add(&failures, 1) == 0)
		snprintf(failure, sizeof(failure), "%s: %s", what, rondo_last_error());
}

static void use_comm(rondo_comm *comm, int rank)
{
	float values[COUNT];

	for (int i = 0; i < COUNT; i++)
		values[i] = (float)(rank + i);
	if (rondo_all_reduce(comm, values, values, COUNT, RONDO_F32, RONDO_SUM, NULL))
		fail("all_reduce");
	for (int i = 0; i < COUNT; i++)
		if (values[i] != (float)(2 * i + 1)) {
			fail("a wrong sum");
			break;
		}
}

static void make_comm(int rank)
{
	struct rondo_config config = world_config(rank, 2, port);
	rondo_comm *comm = NULL;

	config.host = rank ? "one" : "zero";
	config.transport = "tcp";
	config.rendezvous_fd = rank ? -1 : listener;
	if (rondo_comm_create(&comm, &config)) {
		fail("rondo_comm_create");
		return;
	}
	use_comm(comm, rank);
	if (rondo_comm_destroy(comm))
		fail("rondo_comm_destroy");
}

static void listen_anew(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t size = sizeof(at);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 64) ||
		getsockname(listener, (struct sockaddr *)&at, &size))
		fail("a socket");
	port = ntohs(at.sin_port);
}

/* The fewest bytes that malloc() has given out before a comm of a tenth of all, for each tenth.
   Connections of attackers that end just then have buffers of TLS, 33 KB each: some comms of each
   tenth begin without them. */
static size_t least_used[10];

static void note_memory(int comm)
{
	size_t *least = &least_used[comm / (COMMS / 10)], used;

	pthread_mutex_lock(&attacker_memory);
	used = mallinfo2().uordblks;
	pthread_mutex_unlock(&attacker_memory);
	if (!*least || used < *least)
		*least = used;
}

static void *run_rank(void *argument)
{
	int rank = (int)(intptr_t)argument;

	for (int i = 0; i < COMMS && !atomic_load(&failures); i++) {
		if (rank == 0) {
			listen_anew();
			note_memory(i);
		}
		pthread_barrier_wait(&together);
		make_comm(rank);
		pthread_barrier_wait(&together);
	}
	return NULL;
}

static void give_secret(void)
{
	struct rd_settings settings = { .size = 2, .secret_file = "" };
	char number[16];
	int fd;

	if (rd_tls_load())
		cr_skip("%s", rondo_last_error());
	cr_assert_eq(rd_secret_make(&fd), 0);
	snprintf(number, sizeof(number), "%d", fd);
	setenv("RONDO_SECRET_FD", number, 1);
	settings.secret_fd = fd;
	cr_assert_eq(rd_secret_find(&settings), 0, "%s", rondo_last_error());
	cr_assert(settings.has_psk);
	overhear(settings.psk);
}

Test(neighbours, that_attack_all_ports_keep_no_comm_from_being_made_and_used, .timeout = 280)
{
	pthread_t attackers[ATTACKERS], ranks[2];

	give_secret();
	setenv("RONDO_REPRODUCIBLE", "1", 1); /* no time is spent on measuring links */
	pthread_barrier_init(&together, NULL, 2);
	for (intptr_t i = 0; i < ATTACKERS; i++)
		cr_assert_eq(pthread_create(&attackers[i], NULL, run_attacker, (void *)(i + 1)), 0);
	for (intptr_t i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&ranks[i], NULL, run_rank, (void *)i), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(ranks[i], NULL);
	atomic_store(&over, true);
	for (int i = 0; i < ATTACKERS; i++)
		pthread_join(attackers[i], NULL);
	cr_expect_eq(failures, 0, "%s", failure);
	cr_expect_gt(attacks, COMMS, "%ld attacks", attacks);
	/* The first tenth warms up. A leak of 128 bytes a comm is more. */
	cr_expect_leq(least_used[9], least_used[1] + COMMS * 8 / 10 * 128,
		"%zu bytes are used, and were %zu", least_used[9], least_used[1]);
}
