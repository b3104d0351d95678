/* ctest label: threads */
/*
 * Creations that do not block, and their cancellation in each of their waits. Ranks are creations
 * of one process. A creation that is not cancelled at once would wait for a minute, beyond the
 * bound of its test.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "draw.h"
#include "filter.h"
#include "free_port.h"
#include "transports/contract/leaks.h"
#include "world.h"

#define BOUND_MS 20000

static void nap(long us)
{
	nanosleep(&(struct timespec){ 0, us * 1000 }, NULL);
}

static int count_threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	int count = 0;

	while (dir && readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* All that a creation may leave behind. */
struct belongings {
	int fds, threads, maps; /* shared ones */
};

static struct belongings belongings_now(void)
{
	return (struct belongings){ contract_open_files(), count_threads(),
		contract_shared_maps() };
}

static bool have_more(const struct belongings *then)
{
	struct belongings now = belongings_now();

	return now.fds > then->fds || now.threads > then->threads;
}

/* A thread that is over is still listed for a moment. */
static void expect_no_more(const struct belongings *then)
{
	int64_t until = world_now_ms() + BOUND_MS;
	struct belongings now;

	while (have_more(then) && world_now_ms() < until)
		nap(1000);
	now = belongings_now();
	cr_expect_leq(now.fds, then->fds, "%d descriptors, %d before", now.fds, then->fds);
	cr_expect_leq(
		now.threads, then->threads, "%d threads, %d before", now.threads, then->threads);
	cr_expect_leq(now.maps, then->maps, "%d shared mappings, %d before", now.maps, then->maps);
}

/* The config of a rank that gives up after a minute. */
static struct rondo_config patient_config(int rank, int size, int port)
{
	struct rondo_config config = world_config(rank, size, port);

	config.init_timeout_ms = 60000;
	return config;
}

/* Tests until the end. */
static int await_end(rondo_creation *creation, rondo_comm **comm)
{
	int64_t until = world_now_ms() + BOUND_MS;
	int result;

	while ((result = rondo_comm_create_test(creation, comm)) == RONDO_PENDING) {
		cr_assert_null(*comm);
		cr_assert_lt(world_now_ms(), until, "a creation does not end");
		nap(200);
	}
	return result;
}

static void expect_cancelled(int result, const rondo_comm *comm, int rank)
{
	char words[64];

	snprintf(words, sizeof(words), "rank %d cancelled the creation of the communicator", rank);
	cr_expect_eq(result, RONDO_REVOKED, "%s: %s", rondo_error_name(result), rondo_last_error());
	cr_expect(strstr(rondo_last_error(), words), "%s", rondo_last_error());
	cr_expect_null(comm);
}

/* Cancels, and expects the end at once. */
static void cancel_at_once(rondo_creation *creation, int rank)
{
	int64_t began = world_now_ms();
	rondo_comm *comm = NULL;
	int result;

	cr_assert_eq(rondo_comm_create_test(creation, &comm), RONDO_PENDING);
	cr_assert_eq(rondo_comm_create_cancel(creation), 0);
	cr_assert_eq(rondo_comm_create_cancel(creation), 0);
	result = rondo_comm_create_test(creation, &comm);
	expect_cancelled(result, comm, rank);
	cr_expect_lt(world_now_ms() - began, BOUND_MS);
}

static int listen_at(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	cr_assert_eq(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(fd, 8), 0);
	return fd;
}

static void await_connection(int fd)
{
	struct pollfd listener = { .fd = fd, .events = POLLIN };

	cr_assert_eq(poll(&listener, 1, BOUND_MS), 1, "nobody connects");
}

/* Whether this socket is connected to the port, and has received something from there. */
static bool has_received(int fd, int port)
{
	struct sockaddr_in peer = { .sin_family = AF_UNSPEC };
	struct tcp_info info = { .tcpi_bytes_received = 0 };
	socklen_t size = sizeof(peer), info_size = sizeof(info);

	return getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
	       peer.sin_family == AF_INET && ntohs(peer.sin_port) == port &&
	       getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_size) == 0 &&
	       info.tcpi_bytes_received > 0;
}

/* Waits until rank 0, which listens at this port, has answered so many ranks of this process. */
static void await_answers(int port, int wanted)
{
	int64_t until = world_now_ms() + BOUND_MS;
	int answered;

	do {
		answered = 0;
		for (int fd = 0; fd < 256; fd++)
			answered += has_received(fd, port);
		nap(200);
		cr_assert_lt(world_now_ms(), until, "rank 0 does not answer");
	} while (answered < wanted);
}

/* ---- Without a cancellation ------------------------------------------------------------------ */

Test(creation, is_tested_until_it_gives_a_comm_that_works, .timeout = 60)
{
	enum { SIZE = 3 };
	struct belongings before = belongings_now();
	rondo_creation *creations[SIZE];
	int32_t sums[SIZE] = { 1, 2, 3 };
	rondo_comm *comms[SIZE];
	int port = free_port();

	for (int rank = 0; rank < SIZE; rank++) {
		char address[] = "127.0.0.1";
		struct rondo_config config = patient_config(rank, SIZE, port);

		config.address = address;
		creations[rank] = world_create(&config);
		/* The library has copies. */
		explicit_bzero(address, sizeof(address));
		explicit_bzero(&config, sizeof(config));
		if (rank < SIZE - 1)
			cr_expect_eq(rondo_comm_create_test(creations[rank], &comms[rank]),
				RONDO_PENDING);
	}
	for (int rank = 0; rank < SIZE; rank++)
		cr_assert_eq(await_end(creations[rank], &comms[rank]), 0, "%s", rondo_last_error());
	cr_assert_eq(rondo_group_start(), 0);
	for (int rank = 0; rank < SIZE; rank++) {
		cr_expect_eq(rondo_comm_rank(comms[rank]), rank);
		rondo_all_reduce(
			comms[rank], &sums[rank], &sums[rank], 1, RONDO_I32, RONDO_SUM, NULL);
	}
	cr_assert_eq(rondo_group_end(), 0, "%s", rondo_last_error());
	for (int rank = 0; rank < SIZE; rank++) {
		cr_expect_eq(sums[rank], 6);
		cr_expect_eq(rondo_comm_destroy(comms[rank]), 0);
	}
	expect_no_more(&before);
}

/* ---- Waiting for ranks ----------------------------------------------------------------------- */

static void *cancel(void *creation)
{
	rondo_comm_create_cancel(creation);
	return NULL;
}

/* Rank 3 never comes. Another thread than the one that tests cancels. */
static void cancel_among_three(int canceller)
{
	struct belongings before = belongings_now();
	rondo_creation *creations[3];
	rondo_comm *comm = NULL;
	int port = free_port();
	pthread_t thread;

	for (int rank = 0; rank < 3; rank++) {
		struct rondo_config config = patient_config(rank, 4, port);

		creations[rank] = world_create(&config);
	}
	await_answers(port, 2);
	cr_assert_eq(pthread_create(&thread, NULL, cancel, creations[canceller]), 0);
	for (int rank = 0; rank < 3; rank++)
		expect_cancelled(await_end(creations[rank], &comm), comm, canceller);
	pthread_join(thread, NULL);
	expect_no_more(&before);
}

Test(creation, ends_on_all_ranks_where_one_cancels, .timeout = 60)
{
	for (int rank = 0; rank < 3; rank++)
		cancel_among_three(rank);
}

Test(creation, of_rank_0_is_cancelled_while_nobody_comes, .timeout = 60)
{
	struct belongings before = belongings_now();
	struct rondo_config config = patient_config(0, 2, free_port());
	rondo_creation *creation;

	config.rendezvous_fd = listen_at(config.port);
	config.port = -1;
	config.address = NULL;
	creation = world_create(&config);
	cancel_at_once(creation, 0);
	expect_no_more(&before);
}

static void cancel_unaccepted(bool listens)
{
	struct belongings before = belongings_now();
	struct rondo_config config = patient_config(1, 2, free_port());
	int fd = listen_at(config.port);
	rondo_creation *creation = world_create(&config);

	await_connection(fd);
	if (!listens)
		close(fd);
	cancel_at_once(creation, 1);
	if (listens)
		close(fd);
	expect_no_more(&before);
}

Test(creation, is_cancelled_while_no_one_listens, .timeout = 60)
{
	cancel_unaccepted(false);
}

/* The launcher listens for a rank 0 that has yet to come. */
Test(creation, is_cancelled_while_nobody_accepts_it, .timeout = 60)
{
	cancel_unaccepted(true);
}

/* ---- Before the ranks meet ------------------------------------------------------------------- */

/* The resolver looks for names in this file first. It is stuck there, or reaches no server. */
static struct {
	bool stuck, broken;
	sem_t asked, answered;
	sem_t breaks, counted;
	rondo_creation *creation;
} resolver;

static int open_file(const struct watched_call *call)
{
	char path[64];

	watched_text(call, call->arguments[1], path, sizeof(path));
	if (strcmp(path, "/etc/hosts") != 0)
		return 0;
	sem_post(&resolver.asked);
	if (resolver.stuck)
		world_wait(&resolver.answered);
	return 0;
}

/* At a name that has no address, once the belongings are counted. */
static void *create_watched(void *argument)
{
	struct rondo_config config = patient_config(1, 2, 1);

	resolver.broken = forbid(SYS_connect, ENETUNREACH) && watch_calls(SYS_openat, open_file);
	sem_post(&resolver.breaks);
	world_wait(&resolver.counted);
	config.address = "nowhere.test";
	if (resolver.broken)
		resolver.creation = world_create(&config);
	return argument;
}

/* Returns what there is besides. */
static struct belongings begin_resolving(bool stuck)
{
	struct belongings before;
	pthread_t thread;

	resolver.stuck = stuck;
	sem_init(&resolver.asked, 0, 0);
	sem_init(&resolver.answered, 0, 0);
	sem_init(&resolver.breaks, 0, 0);
	sem_init(&resolver.counted, 0, 0);
	cr_assert_eq(pthread_create(&thread, NULL, create_watched, NULL), 0);
	cr_assert(world_wait(&resolver.breaks));
	before = belongings_now();
	before.threads--;
	sem_post(&resolver.counted);
	pthread_join(thread, NULL);
	if (!resolver.broken)
		cr_skip_test("system calls cannot be watched here");
	cr_assert(world_wait(&resolver.asked));
	return before;
}

Test(creation, is_cancelled_while_a_name_has_no_address, .timeout = 60)
{
	struct belongings before = begin_resolving(false);

	/* It sleeps before it asks again, longer each time. */
	for (int i = 0; i < 3; i++)
		cr_assert(world_wait(&resolver.asked));
	cancel_at_once(resolver.creation, 1);
	expect_no_more(&before);
}

Test(creation, is_cancelled_while_the_resolver_does_not_answer, .timeout = 60)
{
	struct belongings before = begin_resolving(true);

	cancel_at_once(resolver.creation, 1);
	cr_expect(have_more(&before), "the resolver's call is over");
	sem_post(&resolver.answered);
	expect_no_more(&before);
}

Test(creation, is_cancelled_while_there_is_no_secret, .timeout = 60)
{
	struct belongings before = belongings_now();
	struct rondo_config config = patient_config(1, 2, 1);

	setenv("RONDO_SECRET_FILE", "/tmp/rondo-no-such-folder/secret", 1);
	cancel_at_once(world_create(&config), 1);
	expect_no_more(&before);
}

/* The process manager does not answer. */
Test(creation, is_cancelled_during_the_exchange_over_pmi, .timeout = 60)
{
	struct rondo_config config = RONDO_CONFIG_INIT;
	struct pollfd manager = { .events = POLLIN };
	rondo_creation *creation;
	int ends[2];
	char text[16];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	snprintf(text, sizeof(text), "%d", ends[0]);
	setenv("PMI_FD", text, 1);
	setenv("PMI_RANK", "1", 1);
	setenv("PMI_SIZE", "2", 1);
	config.init_timeout_ms = 60000;
	creation = world_create(&config);
	manager.fd = ends[1];
	cr_assert_eq(poll(&manager, 1, BOUND_MS), 1);
	cancel_at_once(creation, 1);
}

/* ---- Once it is made ------------------------------------------------------------------------ */

Test(creation, that_is_done_is_cancelled_and_leaves_no_comm, .timeout = 60)
{
	struct belongings before = belongings_now();
	struct rondo_config config = world_config(0, 1, -1);
	rondo_creation *creation = world_create(&config);
	int64_t until = world_now_ms() + BOUND_MS;
	rondo_comm *comm = NULL;

	/* Its thread ends. */
	while (count_threads() > before.threads && world_now_ms() < until)
		nap(1000);
	cr_assert_eq(rondo_comm_create_cancel(creation), 0);
	expect_cancelled(rondo_comm_create_test(creation, &comm), comm, 0);
	expect_no_more(&before);
}

Test(creation, that_is_cancelled_late_revokes_the_comm_of_the_others, .timeout = 60)
{
	struct belongings before = belongings_now();
	rondo_comm *comms[2] = { NULL, NULL };
	int port = free_port(), err;
	struct rondo_config zero = patient_config(0, 2, port), one = patient_config(1, 2, port);
	rondo_creation *creations[2] = { world_create(&zero), world_create(&one) };
	int64_t until = world_now_ms() + BOUND_MS;

	cr_assert_eq(await_end(creations[0], &comms[0]), 0, "%s", rondo_last_error());
	cr_assert_eq(rondo_comm_create_cancel(creations[1]), 0);
	expect_cancelled(rondo_comm_create_test(creations[1], &comms[1]), comms[1], 1);
	while (!(err = rondo_comm_error(comms[0])) && world_now_ms() < until)
		nap(1000);
	expect_cancelled(err, NULL, 1);
	rondo_comm_destroy(comms[0]);
	expect_no_more(&before);
}

/* The parent continues. */
Test(creation, is_refused_in_a_forked_child, .timeout = 60)
{
	struct rondo_config config = patient_config(1, 2, free_port());
	rondo_creation *creation = world_create(&config);
	pid_t pid = fork();
	rondo_comm *comm;
	int status;

	if (pid == 0)
		_exit(rondo_comm_create_test(creation, &comm) != RONDO_INVALID ||
			rondo_comm_create_cancel(creation) != RONDO_INVALID ||
			!strstr(rondo_last_error(), "the creation was made before fork()"));
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
	cancel_at_once(creation, 1);
}

/* ---- At any moment --------------------------------------------------------------------------- */

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define MAPS_VARY true
#else
#define MAPS_VARY false
#endif

#ifdef __SANITIZE_THREAD__
#define ROUNDS 15
#else
#define ROUNDS 60
#endif

/* How long the others have for the news. They have none before they have met. */
#define NEWS_MS 200

static int count_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	int c, count = 0;

	while ((c = getc(maps)) != EOF)
		count += c == '\n';
	fclose(maps);
	return count;
}

struct round {
	rondo_creation *creations[3];
	bool over[3];
	int left;
	bool cancelled[3];
};

/* The first one that rank 0 learns of counts. A rank to which rank 0 does not answer for a while
   hangs up: then it has died. */
static void expect_one_of(const bool cancelled[3], int result)
{
	const char *reason = rondo_last_error();
	const char *words = strstr(reason, " cancelled the creation of the communicator");
	int rank = -1;

	if (result == RONDO_REVOKED && words > reason)
		rank = words[-1] - '0';
	else if (result == RONDO_DIED && strncmp(reason, "rank ", 5) == 0)
		rank = reason[5] - '0';
	cr_expect(rank >= 0 && rank < 3 && cancelled[rank], "%s: %s", rondo_error_name(result),
		reason);
}

static void test_rank(struct round *round, int rank)
{
	rondo_comm *comm;
	int result;

	if (round->over[rank])
		return;
	result = rondo_comm_create_test(round->creations[rank], &comm);
	if (result == RONDO_PENDING)
		return;
	round->over[rank] = true;
	round->left--;
	if (!result)
		rondo_comm_destroy(comm);
	else
		expect_one_of(round->cancelled, result);
}

static void test_all(struct round *round, int64_t until_ms)
{
	do {
		for (int rank = 0; rank < 3; rank++)
			test_rank(round, rank);
		nap(100);
	} while (round->left && world_now_ms() < until_ms);
}

/* Cancels a rank after this time, and those whose rank 0 had not met it afterwards. Returns how
   long it took. */
static int64_t run_round(const char *transport, int canceller, long after_us)
{
	struct round round = { .left = 3 };
	int64_t began = world_now_ms();
	int port = free_port();

	for (int rank = 0; rank < 3; rank++) {
		struct rondo_config config = patient_config(rank, 3, port);

		config.transport = transport;
		config.host = strcmp(transport, "tcp") == 0 ? (rank ? "a" : "b") : NULL;
		round.creations[rank] = world_create(&config);
	}
	if (canceller < 0)
		test_all(&round, began + BOUND_MS);
	else
		nap(after_us);
	for (int i = 0; i < 3 && round.left; i++) {
		int rank = (canceller + i) % 3;

		round.cancelled[rank] = true;
		if (!round.over[rank])
			rondo_comm_create_cancel(round.creations[rank]);
		test_all(&round, world_now_ms() + NEWS_MS);
	}
	cr_assert_eq(round.left, 0, "%d ranks are left", round.left);
	return world_now_ms() - began;
}

static void cancel_at_random(const char *transport)
{
	struct belongings before;
	struct draw random = draw_from(1, 1);
	int64_t whole_ms;
	int maps;

	/* The first one loads what later ones have. */
	run_round(transport, -1, 0);
	before = belongings_now();
	maps = count_maps();
	whole_ms = run_round(transport, -1, 0);
	for (int i = 0; i < ROUNDS; i++)
		run_round(transport, (int)draw(&random, 3),
			(long)draw(&random, (uint64_t)whole_ms * 1200 + 1));
	expect_no_more(&before);
	/* A thread that nobody has joined leaves its stack, and a guard. */
	maps = count_maps() - maps;
	cr_expect(MAPS_VARY || maps < 3 * ROUNDS, "%d mappings more", maps);
	cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1, "a process is left");
}

Test(creation, cancelled_at_any_moment_leaves_nothing_behind_over_shm, .timeout = 120)
{
	cancel_at_random("shm");
}

Test(creation, cancelled_at_any_moment_leaves_nothing_behind_over_tcp, .timeout = 120)
{
	cancel_at_random("tcp");
}
