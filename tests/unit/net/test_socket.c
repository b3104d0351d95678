/* Sockets that another program has opened for rank 0. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/port.h"
#include "net/socket.h"

static int listen_with(int backlog)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(listen(fd, backlog), 0);
	return fd;
}

/* The kernel gives the backlog of a listening socket in this field. */
static unsigned backlog_of(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);

	cr_assert_eq(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
	return info.tcpi_sacked;
}

Test(socket, one_with_a_short_backlog_gets_room_for_all_ranks)
{
	int full = listen_with(RD_BACKLOG), fd = listen_with(8), listener;
	struct rd_settings settings = { .rendezvous_fd = fd };
	struct rd_addresses none = { 0 };

	cr_assert_eq(backlog_of(fd), 8);
	cr_assert_eq(rd_listen(&listener, &none, &settings), 0);
	cr_expect_eq(listener, fd);
	cr_expect_eq(backlog_of(fd), backlog_of(full));
	close(fd);
	close(full);
}
