/* ctest label: threads */
/* Events that wake a sleeping rank. The links of a rank that does not sleep are not watched. */
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tcp/fakes.h"

/* As a driver sleeps: until woken, or this is a failure. */
static void sleep_until_woken(struct rank *rank)
{
	struct epoll_event event;

	cr_assert_eq(epoll_wait(rank->local.epoll_fd, &event, 1, fixture_wait_ms), 1, "no wake-up");
	rd_transport_tcp.disarm(rank->endpoint);
}

static void *send_one(void *argument)
{
	struct rank *rank = argument;

	try_send(rank->link, 5, 100);
	return NULL;
}

static void *close_rank(void *argument)
{
	rank_close(argument);
	return NULL;
}

/* Closes the fake, and waits until the kernel reports that to the rank. */
static void staged_hang_up(struct staged *staged)
{
	struct pollfd end = { .fd = fake_peer(staged->fd), .events = POLLRDHUP };

	close(staged->fd);
	cr_assert_eq(poll(&end, 1, fixture_wait_ms), 1);
}

Test(tcp, arming_handles_all_events, .timeout = 60)
{
	struct staged staged;

	staged_open(&staged);
	staged_hang_up(&staged);
	rd_transport_tcp.arm(staged.rank.endpoint);
	cr_assert_eq(staged.rank.link->error, RONDO_BROKEN);
	staged_close(&staged);
}

/* More than the sockets hold. */
#define LARGE (16 << 20)

/* The driver's epoll reports bytes that arrive after arm(). arm() itself reads the earlier ones. */
Test(tcp, arming_reads_bytes_that_have_arrived, .timeout = 60)
{
	unsigned char *memory = malloc(LARGE);
	struct rd_tag tag = tag_of(1);
	struct pair pair;

	pair_open_for(&pair, "127.0.0.1", LARGE);
	fill_bytes(memory, LARGE, 1);
	cr_assert(pair.one.link->ops->send(pair.one.link, &tag, memory, LARGE));
	AWAIT(pair.one.link->sent == 1,
		(rd_transport_tcp.arm(pair.zero.endpoint),
			rd_transport_tcp.disarm(pair.zero.endpoint), rank_advance(&pair.one)));
	rank_recv(&pair.zero, 1, LARGE, NULL, 0);
	pair_close(&pair);
	free(memory);
}

/* Descriptors that wake the driver. */
static int count_watched(const struct rank *rank)
{
	char path[64], line[256];
	int watched = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", rank->local.epoll_fd);
	file = fopen(path, "r");
	cr_assert_not_null(file);
	while (fgets(line, sizeof(line), file))
		watched += strncmp(line, "tfd:", 4) == 0;
	fclose(file);
	return watched;
}

/* Advances until links are no longer watched. */
static void stay_awake(struct rank *rank)
{
	for (int i = 0; i < 2000; i++)
		rank_advance(rank);
}

Test(tcp, links_of_a_rank_that_does_not_sleep_are_in_no_epoll, .timeout = 60)
{
	struct pair pair;
	int watched;

	pair_open(&pair, "127.0.0.1");
	rd_transport_tcp.arm(pair.zero.endpoint);
	watched = count_watched(&pair.zero);
	rd_transport_tcp.disarm(pair.zero.endpoint);
	stay_awake(&pair.zero);
	cr_assert_eq(count_watched(&pair.zero), watched - 1);
	rd_transport_tcp.arm(pair.zero.endpoint);
	cr_assert_eq(count_watched(&pair.zero), watched);
	rd_transport_tcp.disarm(pair.zero.endpoint);
	pair_close(&pair);
}

Test(tcp, a_rank_that_was_long_awake_is_woken_too, .timeout = 60)
{
	struct epoll_event event;
	struct staged staged;

	staged_open(&staged);
	stay_awake(&staged.rank);
	rd_transport_tcp.arm(staged.rank.endpoint);
	/* The wake-up by EPOLLOUT when the link is watched again. */
	while (epoll_wait(staged.rank.local.epoll_fd, &event, 1, 0) > 0)
		;
	staged_hang_up(&staged);
	sleep_until_woken(&staged.rank);
	rank_advance(&staged.rank);
	cr_assert_eq(staged.rank.link->error, RONDO_BROKEN);
	staged_close(&staged);
}

/* ---- A message that arrives in parts ------------------------------------------------------- */

#define PARTED ((size_t)50000) /* bytes of its payload */

/* Writes bytes of the message, and waits until the rank's socket has as many unread. */
static void deliver(struct staged *staged, const unsigned char *bytes, size_t size, int unread)
{
	int fd = fake_peer(staged->fd), there = 0;

	fake_write(staged->fd, bytes, size);
	AWAIT(ioctl(fd, FIONREAD, &there) == 0 && there == unread, (void)0);
}

static bool is_woken(struct rank *rank)
{
	struct epoll_event event;

	return epoll_wait(rank->local.epoll_fd, &event, 1, 0) > 0;
}

static bool receive(struct rank *rank, struct rd_message *message)
{
	return rank->link->ops->recv(rank->link, NULL, PARTED, message);
}

/* bytes: as fake_message() wrote them. */
static void receive_all(struct rank *rank, const unsigned char *bytes)
{
	struct rd_message message;

	AWAIT(receive(rank, &message), (void)0);
	cr_assert_eq(message.size, PARTED);
	cr_assert_eq(memcmp(message.data, bytes + sizeof(struct header), PARTED), 0);
	rank->link->ops->release(rank->link);
}

/* A wake-up for each segment would cost more than the segment. */
Test(tcp, a_sleeper_is_woken_by_a_whole_message_not_by_its_parts, .timeout = 60)
{
	static unsigned char bytes[PARTED + 64];
	size_t size = fake_message(bytes, 0, 1, PARTED);
	struct rd_message message;
	struct staged staged;
	struct rank *rank = &staged.rank;

	staged_open(&staged);
	cr_assert(!receive(rank, &message));
	rd_transport_tcp.arm(rank->endpoint);
	cr_assert(!receive(rank, &message));
	while (is_woken(rank))
		;
	deliver(&staged, bytes, 20000, 20000);
	cr_assert(!is_woken(rank));
	deliver(&staged, bytes + 20000, 20000, 40000);
	cr_assert(!is_woken(rank));
	fake_write(staged.fd, bytes + 40000, size - 40000);
	sleep_until_woken(rank);
	receive_all(rank, bytes);
	/* The next message is small: its first byte wakes the rank. */
	cr_assert(!rank->link->ops->recv(rank->link, NULL, 8, &message));
	rd_transport_tcp.arm(rank->endpoint);
	cr_assert(!rank->link->ops->recv(rank->link, NULL, 8, &message));
	while (is_woken(rank))
		;
	deliver(&staged, bytes, 1, 1);
	sleep_until_woken(rank);
	staged_close(&staged);
}

/* The last look before the sleep reads a part: fewer bytes are left than arm() counted. */
Test(tcp, a_part_that_is_read_after_arming_still_leaves_a_wake_up, .timeout = 60)
{
	static unsigned char bytes[PARTED + 64];
	size_t size = fake_message(bytes, 0, 1, PARTED);
	struct rd_message message;
	struct staged staged;
	struct rank *rank = &staged.rank;

	staged_open(&staged);
	cr_assert(!receive(rank, &message));
	rd_transport_tcp.arm(rank->endpoint);
	deliver(&staged, bytes, 30000, 30000);
	cr_assert(!receive(rank, &message));
	while (is_woken(rank))
		;
	fake_write(staged.fd, bytes + 30000, size - 30000);
	sleep_until_woken(rank);
	receive_all(rank, bytes);
	staged_close(&staged);
}

Test(tcp, the_first_advance_after_a_sleep_handles_events, .timeout = 60)
{
	struct staged staged;

	staged_open(&staged);
	rd_transport_tcp.arm(staged.rank.endpoint);
	staged_hang_up(&staged);
	sleep_until_woken(&staged.rank);
	rank_advance(&staged.rank);
	cr_assert_eq(staged.rank.link->error, RONDO_BROKEN);
	staged_close(&staged);
}

Test(tcp, a_sleeper_is_woken_by_a_message_and_by_the_end, .timeout = 60)
{
	struct pair pair;
	pthread_t thread;
	struct rd_message message;
	bool came = false;

	pair_open(&pair, "127.0.0.1");
	cr_assert_eq(pthread_create(&thread, NULL, send_one, &pair.zero), 0);
	while (!came) {
		rd_transport_tcp.arm(pair.one.endpoint);
		came = pair.one.link->ops->recv(pair.one.link, NULL, 0, &message);
		if (!came)
			sleep_until_woken(&pair.one);
	}
	pthread_join(thread, NULL);
	pair.one.link->ops->release(pair.one.link);
	cr_assert_eq(pthread_create(&thread, NULL, close_rank, &pair.zero), 0);
	/* No recv(): arm() and advance() alone detect the end. */
	for (;;) {
		rd_transport_tcp.arm(pair.one.endpoint);
		if (pair.one.link->error)
			break;
		sleep_until_woken(&pair.one);
		rank_advance(&pair.one);
	}
	pthread_join(thread, NULL);
	rank_close(&pair.one);
}
