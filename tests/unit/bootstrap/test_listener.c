/* A rank's listener: whose a connection is, and which ones need the proof of the secret. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/port.h"
#include "bootstrap/control_message.h"
#include "bootstrap/listener.h"

#define LINEAGE 17

static struct rd_settings settings = { .size = 2, .channels = 1 };
static struct rd_listener *listener;
static struct rd_arrivals *members, *hellos, *trunks;
static int port, job_fd;

static void open_listener(bool has_secret)
{
	int fd;

	settings.has_psk = has_secret;
	if (has_secret && rd_tls_load())
		cr_skip("%s", rondo_last_error());
	cr_assert_eq(rd_listener_create(&listener, &settings), 0, "%s", rondo_last_error());
	fd = rd_listen_on_loopback(&port);
	cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	cr_assert_eq(rd_door_listen(listener->door, fd), 0);
	members = rd_arrivals_open(listener, RD_ARRIVALS_LINEAGE, LINEAGE, 4, -1);
	hellos = rd_arrivals_open(listener, RD_ARRIVALS_TCP, 0, 4, -1);
	job_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	trunks = rd_arrivals_open(listener, RD_ARRIVALS_TRUNKS, 0, 0, job_fd);
}

static void close_listener(void)
{
	rd_arrivals_release(members);
	rd_arrivals_release(hellos);
	rd_arrivals_release(trunks);
	rd_listener_release(listener);
	close(job_fd);
}

static int dial(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static void serve(void)
{
	struct pollfd event = { .fd = rd_door_fd(listener->door), .events = POLLIN };

	cr_assert_eq(poll(&event, 1, 10000), 1);
	rd_listener_serve(listener, rd_clock_ms());
}

static int dial_with(const void *bytes, size_t size)
{
	int fd = dial();

	cr_assert_eq(send(fd, bytes, size, 0), (ssize_t)size);
	serve();
	return fd;
}

static int gather(uint64_t lineage)
{
	struct rd_control_message message = { .kind = RD_CONTROL_GATHER,
		.gather = { .lineage = lineage, .origin = 1 } };
	unsigned char frame[RD_FRAME_MAX];

	return dial_with(frame, rd_control_encode(&message, frame));
}

/* Frees the next one that has come. */
static bool has_come(struct rd_arrivals *arrivals)
{
	struct rd_arrival *arrival = rd_arrivals_take(arrivals);

	if (arrival)
		rd_wire_close(&arrival->wire);
	free(arrival);
	return arrival;
}

TestSuite(listener, .timeout = 60, .fini = close_listener);

Test(listener, hands_each_connection_over_to_its_owner)
{
	unsigned char hello[RD_HELLO_SIZE] = { RD_HELLO_FIRST };
	int fds[2];

	open_listener(false);
	fds[0] = gather(LINEAGE);
	fds[1] = dial_with(hello, sizeof(hello));
	cr_expect(has_come(members) && !has_come(members));
	cr_expect(has_come(hellos) && !has_come(hellos));
	close(fds[0]);
	close(fds[1]);
}

Test(listener, answers_no_control_message_without_the_proof)
{
	unsigned char hello[RD_HELLO_SIZE] = { RD_HELLO_FIRST };
	int fds[3];
	char byte;

	open_listener(true);
	fds[0] = gather(LINEAGE);
	fds[1] = gather(LINEAGE + 1);
	cr_expect_not(has_come(members));
	for (int i = 0; i < 2; i++)
		cr_expect_leq(recv(fds[i], &byte, 1, 0), 0, "it was answered");
	/* The station looks where it is from. */
	fds[2] = dial_with(hello, sizeof(hello));
	cr_expect(has_come(hellos));
	for (int i = 0; i < 3; i++)
		close(fds[i]);
}

static bool is_woken(void)
{
	eventfd_t count;

	return eventfd_read(job_fd, &count) == 0;
}

/* The thread that has accepted the connection may look no more. */
Test(listener, wakes_the_job_for_a_deadline)
{
	int fds[2];

	open_listener(false);
	fds[0] = dial();
	serve();
	cr_expect(is_woken());
	fds[1] = dial();
	serve();
	cr_expect_not(is_woken(), "the first deadline has not changed");
	close(fds[0]);
	close(fds[1]);
}

/* Else each look of a thread would wake it again. */
Test(listener, wakes_its_owners_once_for_an_error)
{
	struct rlimit none = { 0 };
	int fd;

	open_listener(false);
	fd = dial();
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &none), 0);
	none.rlim_cur = 3;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	serve();
	cr_expect_eq(rd_listener_error(listener, NULL), EMFILE);
	cr_expect(atomic_exchange(&hellos->due, false));
	cr_expect(is_woken());
	for (int i = 1; i < 3; i++) {
		rd_listener_serve(listener, rd_clock_ms() + i * 1000);
		cr_expect_eq(rd_listener_error(listener, NULL), EMFILE);
		cr_expect_not(atomic_load(&hellos->due));
		cr_expect_not(is_woken());
	}
	close(fd);
}
