/* ctest label: threads */
/* How ranks meet over real sockets, and how meeting fails. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/socket.h"
#include "control_ranks.h"
#include "free_port.h"
#include "bootstrap/control_state.h"
#include "bootstrap/listener.h"
#include "transports/contract/leaks.h"

/* ---- Meeting ------------------------------------------------------------------------------- */

static int check_members(struct control_rank *rank)
{
	const struct rd_member *members;
	struct rd_card card;

	if (control_join(rank))
		return rank->error;
	members = rd_control_members(rank->control);
	for (int i = 0; i < rank->size; i++)
		if (!rd_cards_at(rd_control_cards(rank->control), i, 0, &card) ||
			card.bytes[0] != 100 + i || members[i].place.pid != getpid())
			rank->error = 1;
	if (control_keep_error(rank, control_ready(rank)))
		return rank->error;
	return control_leave(rank);
}

Test(control, ranks_meet_exchange_places_and_part, .timeout = 30)
{
	for (int size = 1; size <= RANKS_MAX; size++) {
		int files = contract_open_files();

		control_prepare(size, check_members);
		control_run(size);
		control_expect(0, size, 0, "");
		for (int i = 0; i < size; i++)
			cr_expect_eq(ranks[i].comm_id, ranks[0].comm_id);
		cr_expect_neq(ranks[0].comm_id, 0);
		cr_expect_eq(contract_open_files(), files);
	}
}

Test(control, a_rank_alone_needs_no_address, .timeout = 10)
{
	control_prepare_rank(&ranks[0], 0, 1, 1, control_no_call);
	strcpy(ranks[0].settings.address, "no such name");
	control_run(1);
	control_expect(0, 1, 0, "");
}

Test(control, rank_0_binds_its_address_and_may_come_last, .timeout = 30)
{
	int port = free_port();

	for (int i = 0; i < 3; i++)
		control_prepare_rank(&ranks[i], i, 3, port, control_no_call);
	control_start(1, 3);
	poll(NULL, 0, 50);
	control_start(0, 1);
	control_wait(0, 3);
	control_expect(0, 3, 0, "");
}

/* Each rank moves on to the next comm at once: it must not fall into the one that still ends. */
static int many_comms(struct control_rank *rank)
{
	for (int i = 0; i < 20; i++)
		if (control_no_call(rank))
			return rank->error;
	return 0;
}

Test(control, comm_after_comm_at_one_port_are_kept_apart, .timeout = 60)
{
	int port = free_port();

	for (int i = 0; i < 4; i++)
		control_prepare_rank(&ranks[i], i, 4, port, many_comms);
	control_start(0, 4);
	control_wait(0, 4);
	for (int i = 0; i < 4; i++)
		cr_expect_eq(ranks[i].error, 0, "rank %d: %s", i, ranks[i].reason);
}

Test(control, ipv6_and_names_do_as_well, .timeout = 30)
{
	static const char *const addresses[] = { "localhost", "::1" };

	for (int a = 0; a < 2; a++) {
		int port = free_port();
		for (int i = 0; i < 2; i++) {
			control_prepare_rank(&ranks[i], i, 2, port, control_no_call);
			strcpy(ranks[i].settings.address, addresses[a]);
			ranks[i].settings.init_timeout_ms = 3000;
		}
		control_run(2);
		if (a == 1 && strstr(ranks[0].reason, "is no address of this host"))
			cr_skip_test("this host has no IPv6 loopback");
		control_expect(0, 2, 0, "");
	}
}

/* ---- Meeting that fails -------------------------------------------------------------------- */

Test(control, a_rank_that_never_comes_is_named_on_every_rank, .timeout = 30)
{
	int files = contract_open_files(), threads = count_threads();

	control_prepare(5, control_no_call);
	for (int i = 0; i < 5; i++)
		ranks[i].settings.init_timeout_ms = 1000;
	control_start(0, 2);
	control_start(4, 5);
	control_wait(0, 2);
	control_wait(4, 5);
	ranks[2] = ranks[4];
	control_expect(0, 3, RONDO_TIMEOUT, "ranks 2 and 3 of 5 have not come to 127.0.0.1:");
	control_expect(0, 3, RONDO_TIMEOUT, "within 1 s");
	cr_expect_eq(contract_open_files(), files);
	cr_expect_eq(count_threads(), threads);
}

Test(control, where_nobody_listens_the_address_is_named, .timeout = 30)
{
	int files = contract_open_files();

	control_prepare_rank(&ranks[0], 3, 4, free_port(), control_no_call);
	ranks[0].settings.init_timeout_ms = 200;
	control_run(1);
	control_expect(0, 1, RONDO_UNREACHABLE, "rank 3: no one listens at 127.0.0.1:");
	control_expect(0, 1, RONDO_UNREACHABLE, "(Connection refused, tried for 200 ms)");
	cr_expect_eq(contract_open_files(), files);
}

/* This may happen where no process listens at an ephemeral port. */
Test(control, a_socket_that_met_itself_met_nobody, .timeout = 10)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, size), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&address, size), 0);
	cr_expect_eq(rd_connect_finish(fd), ECONNREFUSED);
	close(fd);
}

Test(control, a_listener_that_never_answers_is_given_up, .timeout = 30)
{
	int port, fd = listen_somewhere(&port);

	control_prepare_rank(&ranks[0], 1, 2, port, control_no_call);
	ranks[0].settings.init_timeout_ms = 200;
	control_run(1);
	control_expect(0, 1, RONDO_TIMEOUT, "does not answer (tried for 200 ms)");
	close(fd);
}

Test(control, a_name_without_an_address_is_named, .timeout = 60)
{
	int files = contract_open_files();

	for (int number = 0; number < 2; number++) {
		control_prepare_rank(&ranks[0], number, 2, 29500, control_no_call);
		strcpy(ranks[0].settings.address, "no-such-host.invalid");
		ranks[0].settings.init_timeout_ms = 200;
		control_run(1);
		control_expect(0, 1, RONDO_UNREACHABLE,
			"MASTER_ADDR \"no-such-host.invalid\" has no address here");
	}
	cr_expect_eq(contract_open_files(), files);
}

Test(control, an_address_of_another_host_is_refused_in_rank_0, .timeout = 30)
{
	control_prepare_rank(&ranks[0], 0, 2, 29500, control_no_call);
	strcpy(ranks[0].settings.address, "192.0.2.1");
	control_run(1);
	control_expect(0, 1, RONDO_SETTING, "192.0.2.1:29500 is no address of this host");
}

Test(control, a_port_in_use_is_reported, .timeout = 30)
{
	int port, fd = listen_somewhere(&port), files = contract_open_files();

	control_prepare_rank(&ranks[0], 0, 2, port, control_no_call);
	control_run(1);
	control_expect(0, 1, RONDO_SYSTEM, "the port is in use");
	cr_expect_eq(contract_open_files(), files);
	close(fd);
}

Test(control, a_descriptor_that_does_not_listen_is_refused, .timeout = 30)
{
	int fd = eventfd(0, 0);

	control_prepare_rank(&ranks[0], 0, 2, 29500, control_no_call);
	ranks[0].settings.rendezvous_fd = fd;
	control_run(1);
	control_expect(0, 1, RONDO_SETTING, "is not a listening socket");
	cr_expect_geq(fcntl(fd, F_GETFD), 0, "a descriptor of the program was closed");
	close(fd);
}

Test(control, another_world_size_is_reported_to_all, .timeout = 30)
{
	control_prepare(3, control_no_call);
	ranks[2].settings.size = 4;
	control_run(3);
	control_expect(0, 3, RONDO_SETTING, "was started with WORLD_SIZE 4, rank 0");
}

Test(control, two_of_one_rank_are_reported_to_all, .timeout = 30)
{
	control_prepare(3, control_no_call);
	ranks[2].settings.rank = 1;
	control_run(3);
	control_expect(0, 3, RONDO_SETTING, "two processes say they are rank 1: rank 1 (host");
}

Test(control, another_piece_size_is_reported_to_all, .timeout = 30)
{
	control_prepare(3, control_no_call);
	ranks[1].settings.piece_size = 8192;
	control_run(3);
	control_expect(0, 3, RONDO_SETTING, "has RONDO_PIECE 8192, rank 0");
}

/* ---- Parents --------------------------------------------------------------------------------- */

/* The verdict of a parent, which comes to one rank while it makes a group. */

static int join_group(struct control_rank *rank, struct control_rank *in_group)
{
	int wake_fd = eventfd(0, EFD_CLOEXEC);
	struct rd_control_config config = { .settings = &in_group->settings,
		.self = &in_group->self,
		.activity = &in_group->activity,
		.failed = &in_group->failed,
		.wake_fd = wake_fd,
		.parent = rank->control,
		.group = 17 };

	control_prepare_rank(in_group, rank->rank, rank->size, rank->settings.port, NULL);
	in_group->wake_fd = wake_fd;
	rd_lineage_meet(&in_group->settings, &rd_control_members(rank->control)[0].lineage);
	return control_keep_error(rank, rd_control_create(&in_group->control, &config)) ||
	       control_keep_error(rank, control_ready(in_group));
}

static int fail_in_1(struct control_rank *rank)
{
	struct control_rank in_group;

	if (control_join_and_open(rank) || join_group(rank, &in_group))
		return rank->error;
	/* In rank 0 the group is made. */
	if (rank->rank == 0)
		rd_control_detach(in_group.control);
	pthread_barrier_wait(&together);
	if (rank->rank == 1)
		rd_control_fail_child(in_group.control, RONDO_REVOKED, "enough");
	control_await_verdict(&in_group);
	control_keep_error(rank, rd_control_verdict(in_group.control));
	rd_control_destroy(in_group.control);
	close(in_group.wake_fd);
	pthread_barrier_wait(&together);
	return rank->error;
}

Test(control_parents, a_verdict_that_comes_late_to_one_rank_reaches_all, .timeout = 30)
{
	control_prepare(2, fail_in_1);
	control_run(2);
	control_expect(0, 2, RONDO_REVOKED, "enough");
}
