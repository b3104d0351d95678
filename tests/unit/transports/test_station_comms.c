/* ctest label: threads */
/* shm and tcp in several comms of the same two ranks. They share a station, and over shm one
   connection. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transports/contract/fixture.h"
#include "transports/contract/leaks.h"
#include "transports/contract/traffic.h"
#include "transports/shared.h"

#define COMMS 4

/* Two ranks in this thread, in some comms. */
struct two {
	const char *transport;
	struct shared *shared;
	struct rd_shared *jobs[2];
	struct fixture comms[COMMS][2];
};

static void begin(struct two *two, const char *transport)
{
	*two = (struct two){ .transport = transport, .shared = shared_create() };
	for (int rank = 0; rank < 2; rank++)
		cr_assert_eq(rd_shared_make(&two->jobs[rank]), 0);
}

static void end(struct two *two)
{
	for (int comm = 0; comm < COMMS; comm++)
		for (int rank = 0; rank < 2; rank++)
			if (two->comms[comm][rank].transport)
				fixture_close(&two->comms[comm][rank]);
	for (int rank = 0; rank < 2; rank++)
		rd_shared_release(two->jobs[rank]);
	shared_end(two->shared);
}

/* In every second comm, the ranks are the other way round. */
static void listen_in(struct two *two, int comm)
{
	struct rd_shared *jobs[2] = { two->jobs[comm % 2], two->jobs[1 - comm % 2] };
	struct shape shape = shape_small;

	shape.comm_id = 1000 + (uint64_t)comm;
	shape.jobs = jobs;
	for (int rank = 0; rank < 2; rank++) {
		cr_assert(fixture_listen(
			&two->comms[comm][rank], two->shared, two->transport, rank, &shape));
		two->comms[comm][rank].all = two->comms[comm];
		two->comms[comm][rank].all_count = 2;
	}
}

static void open_at(struct two *two, int comm, int rank)
{
	struct fixture *fixtures = two->comms[comm];

	cr_assert(fixture_open(
		&fixtures[rank], 1 - rank, fixtures[1 - rank].card, fixtures[1 - rank].card_size));
}

static void open_in(struct two *two, int comm)
{
	open_at(two, comm, 0);
	open_at(two, comm, 1);
	cr_assert(fixture_until_ready(two->comms[comm]));
}

static void talk_in(struct two *two, int comm)
{
	struct fixture *fixtures = two->comms[comm];

	for (uint64_t key = 0; key < 100; key++)
		for (int rank = 0; rank < 2; rank++)
			cr_assert(
				send_message(
					fixtures, fixtures[rank].links[1 - rank][0], key, 40) &&
				recv_message(fixtures, fixtures[1 - rank].links[rank][0], key, 40));
}

static void close_in(struct two *two, int comm)
{
	fixture_close(&two->comms[comm][0]);
	fixture_close(&two->comms[comm][1]);
}

static void advance_much(struct fixture *fixture)
{
	for (int i = 0; i < 3000; i++)
		fixture->transport->advance(fixture->endpoint);
}

static struct rd_link *link_of(struct two *two, int comm, int rank)
{
	return two->comms[comm][rank].links[1 - rank][0];
}

#define TEST_BOTH(name) \
	Test(shm_comms, name, .timeout = 60) \
	{ \
		name("shm"); \
	} \
	Test(tcp_comms, name, .timeout = 60) \
	{ \
		name("tcp"); \
	}

/* ---- One connection -------------------------------------------------------------------------- */

static void a_further_one_needs_an_epoll_and_what_its_links_need(const char *transport)
{
	int files = contract_open_files(), before, links = strcmp(transport, "tcp") == 0;
	struct two two;

	begin(&two, transport);
	listen_in(&two, 0);
	open_in(&two, 0);
	before = contract_open_files();
	for (int comm = 1; comm < COMMS; comm++) {
		listen_in(&two, comm);
		open_in(&two, comm);
		talk_in(&two, comm);
	}
	cr_expect_eq(contract_open_files(), before + 2 * (1 + links) * (COMMS - 1));
	end(&two);
	cr_expect_eq(contract_open_files(), files);
}
TEST_BOTH(a_further_one_needs_an_epoll_and_what_its_links_need)

static void end_in_any_order(const char *transport)
{
	for (int first = 0; first < COMMS; first++) {
		struct two two;

		begin(&two, transport);
		for (int comm = 0; comm < COMMS; comm++)
			listen_in(&two, comm);
		for (int comm = 0; comm < COMMS; comm++)
			open_in(&two, (first + comm) % COMMS);
		for (int comm = 0; comm < COMMS; comm++) {
			for (int left = comm; left < COMMS; left++)
				talk_in(&two, (first + left) % COMMS);
			close_in(&two, (first + comm) % COMMS);
		}
		end(&two);
	}
}
TEST_BOTH(end_in_any_order)

static void a_close_breaks_the_links_of_its_comm_alone(const char *transport)
{
	struct two two;

	begin(&two, transport);
	for (int comm = 0; comm < 2; comm++) {
		listen_in(&two, comm);
		open_in(&two, comm);
	}
	fixture_close(&two.comms[0][1]);
	two.comms[0][0].all_count = 1;
	cr_expect(until_broken(&two.comms[0][0], link_of(&two, 0, 0), 5000));
	talk_in(&two, 1);
	end(&two);
}
TEST_BOTH(a_close_breaks_the_links_of_its_comm_alone)

/* The process of rank 1 ends: it sends nothing. */
Test(shm_comms, a_death_breaks_the_links_of_all)
{
	struct two two;

	begin(&two, "shm");
	for (int comm = 0; comm < COMMS; comm++) {
		listen_in(&two, comm);
		open_in(&two, comm);
	}
	for (int comm = 0; comm < COMMS; comm++) {
		struct fixture *dead = &two.comms[comm][1 - comm % 2];

		dead->transport->abandon(dead->endpoint);
		dead->endpoint = NULL;
		two.comms[comm][comm % 2].all = &two.comms[comm][comm % 2];
		two.comms[comm][comm % 2].all_count = 1;
	}
	for (int comm = 0; comm < COMMS; comm++)
		cr_expect(until_broken(
			&two.comms[comm][comm % 2], link_of(&two, comm, comm % 2), 5000));
	end(&two);
}

static void cut_connections(void)
{
	for (int fd = 3; fd < 1024; fd++) {
		int type = 0, listens = 0;
		socklen_t size = sizeof(int);

		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
			type == SOCK_SEQPACKET &&
			getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && !listens)
			shutdown(fd, SHUT_RDWR);
	}
}

Test(shm_comms, of_later_connect_again_where_a_connection_broke)
{
	struct two two;

	begin(&two, "shm");
	listen_in(&two, 0);
	open_in(&two, 0);
	cut_connections();
	cr_expect(until_broken(two.comms[0], link_of(&two, 0, 0), 5000));
	cr_expect(until_broken(two.comms[0], link_of(&two, 0, 1), 5000));
	for (int comm = 1; comm < 3; comm++) {
		listen_in(&two, comm);
		open_in(&two, comm);
		talk_in(&two, comm);
	}
	end(&two);
}

static bool is_woken(const struct fixture *fixture)
{
	struct epoll_event event;
	bool woken = false;

	while (epoll_wait(fixture->local.epoll_fd, &event, 1, 0) == 1)
		woken = true;
	return woken;
}

/* Another thread took the wake-up of the packet itself, from an epoll that it has given back. */
Test(shm_comms, a_packet_that_is_read_for_another_wakes_its_sleeper)
{
	struct two two;

	begin(&two, "shm");
	for (int comm = 0; comm < 3; comm += 2) {
		listen_in(&two, comm);
		open_in(&two, comm);
	}
	fixture_close(&two.comms[2][1]);
	cr_expect(is_woken(&two.comms[2][0]));
	advance_much(&two.comms[0][0]);
	cr_expect(is_woken(&two.comms[2][0]));
	advance_much(&two.comms[0][0]);
	cr_expect_not(is_woken(&two.comms[2][0]));
	end(&two);
}

/* The same with a connection that another thread has accepted. */
Test(tcp_comms, a_wire_that_is_accepted_for_another_wakes_its_sleeper)
{
	struct two two;

	begin(&two, "tcp");
	listen_in(&two, 0);
	open_in(&two, 0);
	listen_in(&two, 2);
	open_at(&two, 2, 0);
	is_woken(&two.comms[2][0]);
	open_at(&two, 2, 1);
	advance_much(&two.comms[2][1]);
	cr_expect(is_woken(&two.comms[2][0]));
	advance_much(&two.comms[0][0]);
	cr_expect(is_woken(&two.comms[2][0]));
	advance_much(&two.comms[0][0]);
	cr_expect_not(is_woken(&two.comms[2][0]));
	cr_assert(fixture_until_ready(two.comms[2]));
	talk_in(&two, 2);
	end(&two);
}

/* ---- Greetings that come early --------------------------------------------------------------- */

/* Rank 1 of the second comm greets; then this rank reads the connection for the first comm. */
static void greet_early(struct two *two, const char *transport)
{
	begin(two, transport);
	for (int comm = 0; comm < 3; comm += 2)
		listen_in(two, comm);
	open_in(two, 0);
	open_at(two, 2, 1);
	advance_much(&two->comms[2][1]);
	advance_much(&two->comms[0][0]);
}

static void a_greeting_waits_for_the_comm(const char *transport)
{
	struct two two;

	greet_early(&two, transport);
	open_at(&two, 2, 0);
	cr_assert(fixture_until_ready(two.comms[2]));
	talk_in(&two, 2);
	talk_in(&two, 0);
	end(&two);
}
TEST_BOTH(a_greeting_waits_for_the_comm)

static void a_greeting_waits_in_vain_for_one_that_closes(const char *transport)
{
	struct two two;

	greet_early(&two, transport);
	fixture_close(&two.comms[2][0]);
	advance_much(&two.comms[2][1]);
	cr_expect(link_of(&two, 2, 1)->error);
	talk_in(&two, 0);
	end(&two);
}
TEST_BOTH(a_greeting_waits_in_vain_for_one_that_closes)

Test(shm_comms, a_greeting_ends_with_its_sender)
{
	int files;
	struct two two;

	greet_early(&two, "shm");
	files = contract_open_files();
	fixture_close(&two.comms[2][1]);
	advance_much(&two.comms[0][0]);
	/* Its epoll, and the memory of the greeting. */
	cr_expect_eq(contract_open_files(), files - 2);
	open_at(&two, 2, 0);
	advance_much(&two.comms[2][0]);
	cr_expect(!link_of(&two, 2, 0)->ready);
	end(&two);
}

/* ---- Regions --------------------------------------------------------------------------------- */

Test(shm_comms, a_region_belongs_to_the_comm_in_which_it_is_offered)
{
	int fd = memfd_create("rondo-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	const struct rd_transport *shm;
	struct two two;
	size_t size;

	cr_assert(
		fd >= 0 && ftruncate(fd, 4096) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
	begin(&two, "shm");
	for (int comm = 0; comm < 3; comm += 2) {
		listen_in(&two, comm);
		open_in(&two, comm);
	}
	shm = two.comms[0][0].transport;
	cr_assert(shm->offer(two.comms[0][1].endpoint, 7, fd, 4096));
	/* Read for the other comm first. */
	advance_much(&two.comms[2][0]);
	cr_expect_null(shm->map(link_of(&two, 2, 0), 7, &size));
	cr_expect_not_null(shm->map(link_of(&two, 0, 0), 7, &size));
	shm->withdraw(two.comms[0][1].endpoint, 7);
	advance_much(&two.comms[2][0]);
	advance_much(&two.comms[0][0]);
	cr_expect_null(shm->map(link_of(&two, 0, 0), 7, &size));
	close(fd);
	end(&two);
}

/* ---- Threads --------------------------------------------------------------------------------- */

#define ROUNDS 12
#define MESSAGES 60

struct speaker {
	const char *transport;
	struct rd_shared **jobs;
	int number;
};

struct wanted {
	struct rd_link *link;
	uint64_t key;
};

static bool look(struct fixture *fixture, void *argument)
{
	const struct wanted *wanted = argument;

	return try_recv(fixture, wanted->link, wanted->key, 40);
}

static void answer(struct fixture *fixture, struct rd_link **links)
{
	for (uint64_t key = 0; key < MESSAGES; key++) {
		struct wanted wanted = { links[0], key };

		if (fixture->local.rank == 0 && !send_message(fixture, links[0], key, 40))
			return;
		if (!sleep_until(fixture, look, &wanted))
			return;
		if (fixture->local.rank == 1 && !send_message(fixture, links[0], key, 40))
			return;
	}
}

/* Makes comms one after the other, with two threads that sleep while they wait. */
static void *speak(void *argument)
{
	const struct speaker *speaker = argument;

	for (int round = 0; round < ROUNDS; round++) {
		struct rd_shared *jobs[2] = { speaker->jobs[round % 2],
			speaker->jobs[1 - round % 2] };
		struct shape shape = shape_small;

		shape.comm_id = (uint64_t)(speaker->number * ROUNDS + round + 1);
		shape.sleepy = round % 3 > 0;
		shape.jobs = jobs;
		fixture_pair(speaker->transport, &shape, THREADS, answer, answer);
	}
	return NULL;
}

static void of_many_threads_open_talk_sleep_and_close_at_once(const char *transport)
{
	int files = contract_open_files();
	struct rd_shared *jobs[2];
	struct speaker speakers[COMMS];
	pthread_t threads[COMMS];

	for (int rank = 0; rank < 2; rank++)
		cr_assert_eq(rd_shared_make(&jobs[rank]), 0);
	for (int i = 0; i < COMMS; i++) {
		speakers[i] = (struct speaker){ transport, jobs, i };
		cr_assert_eq(pthread_create(&threads[i], NULL, speak, &speakers[i]), 0);
	}
	for (int i = 0; i < COMMS; i++)
		pthread_join(threads[i], NULL);
	for (int rank = 0; rank < 2; rank++)
		rd_shared_release(jobs[rank]);
	cr_expect_eq(contract_open_files(), files);
}
TEST_BOTH(of_many_threads_open_talk_sleep_and_close_at_once)
