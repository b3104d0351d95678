/* The host of a shrink has room for some strangers. A new one takes the place of another. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "bootstrap/shrink/host.h"

#define VISITS 4

static struct rd_settings settings = { .has_psk = true };
static struct rd_visit visits[VISITS];
static struct rd_shrink shrink = { .visits = visits, .visit_count = VISITS };
static struct rd_tls *others[VISITS];
static int fds[VISITS][2];

/* An old handshake, sent again, begins as this one. */
static void show_secret(int visit)
{
	struct rd_control_socket *connection = visits[visit].connection;
	int error;

	others[visit] = rd_tls_create(fds[visit][1], false, settings.psk);
	cr_assert(others[visit]);
	cr_assert_eq(rd_tls_handshake(others[visit]), 0);
	cr_assert_eq(rd_control_socket_read(connection, &error), 0);
	cr_assert(rd_control_socket_has_shown_key(connection));
}

static void fill(void)
{
	if (rd_tls_load())
		cr_skip("%s", rondo_last_error());
	shrink.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < VISITS; i++) {
		cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds[i]), 0);
		visits[i] = (struct rd_visit){ .rank = -1, .came_ms = 100 - i };
		visits[i].connection = rd_control_socket_open(
			shrink.epoll_fd, fds[i][0], (uint64_t)i, EPOLLIN, &settings, true);
		cr_assert(visits[i].connection);
	}
}

static void empty(void)
{
	for (int i = 0; i < VISITS; i++) {
		rd_control_socket_close(&visits[i].connection, false);
		rd_tls_destroy(others[i]);
		close(fds[i][1]);
	}
	close(shrink.epoll_fd);
}

TestSuite(shrink_strangers, .init = fill, .fini = empty);

static void expect_room(struct rd_visit *wanted)
{
	struct rd_visit *room = rd_host_find_room(&shrink);

	cr_expect_eq(room, wanted, "visit %td", room ? room - visits : -1);
	cr_expect(!room || !room->connection);
}

Test(shrink_strangers, the_oldest_that_has_shown_no_secret_goes)
{
	show_secret(3);
	expect_room(&visits[2]);
	expect_room(&visits[2]);
}

Test(shrink_strangers, where_all_have_shown_it_the_oldest_goes)
{
	for (int i = 0; i < VISITS; i++)
		show_secret(i);
	expect_room(&visits[3]);
}

Test(shrink_strangers, a_rank_that_has_come_stays)
{
	visits[3].rank = 3;
	shrink.visit_of = (int[]){ -1, -1, -1, 3 };
	show_secret(1);
	expect_room(&visits[2]);
	for (int i = 0; i < VISITS; i++)
		visits[i].rank = i;
	visits[2].connection = visits[3].connection;
	expect_room(NULL);
	visits[2].connection = NULL;
}
