/* Trunks: two ends of them in one process, whose channels carry frames of one byte each. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/port.h"
#include "bootstrap/control_socket.h"
#include "net/codec.h"
#include "net/trunk.h"

#define KIND 7
#define FRAME_MOST 256
#define JOB 0x123456789abcdef
#define WAIT_MS 10000

#define LASTING 77 /* a greeting that counts after its channel's end */
#define STRANGE 99 /* one that is for nothing here */

static struct rd_trunks near, far; /* near dials */
static struct rd_addresses address = { .count = 1 };
static int listener;
static _Atomic bool due;

/* The greeting is what a channel is for. */
static uint64_t find(const unsigned char *frame, size_t size, bool *lasts)
{
	unsigned char what = frame[size - 1];

	*lasts = what == LASTING;
	return what == STRANGE ? 0 : what;
}

static void open_trunks(struct rd_trunks *trunks)
{
	*trunks = (struct rd_trunks){ .epoll_fd = epoll_create1(EPOLL_CLOEXEC),
		.frame_most = FRAME_MOST,
		.find = find,
		.job = JOB };
	cr_assert_geq(trunks->epoll_fd, 0);
}

static void open_ends(void)
{
	struct sockaddr_in *at = (struct sockaddr_in *)&address.at[0];

	at->sin_family = AF_INET;
	at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)at, sizeof(*at)), 0);
	cr_assert_eq(listen(listener, RD_BACKLOG), 0);
	cr_assert_eq(rd_local_address_get(&address.at[0], listener), 0);
	open_trunks(&near);
	open_trunks(&far);
}

static void close_ends(void)
{
	rd_trunks_finish(&near);
	rd_trunks_finish(&far);
	close(near.epoll_fd);
	close(far.epoll_fd);
	close(listener);
}

TestSuite(trunk, .init = open_ends, .fini = close_ends);

/* Serves the trunks until none has an event within this time. */
static void serve(struct rd_trunks *trunks, int timeout_ms)
{
	struct epoll_event event;

	while (epoll_wait(trunks->epoll_fd, &event, 1, timeout_ms) > 0) {
		rd_trunk_serve(rd_trunk_of_event(event.data.u64));
		timeout_ms = 0;
	}
}

/* Both ends, until the channel has something for its owner. */
static void await(const struct rd_channel *channel)
{
	for (int i = 0; i < WAIT_MS && !channel->stirred; i++) {
		serve(&near, 1);
		serve(&far, 0);
	}
	cr_assert(channel->stirred);
}

static void put(struct rd_channel *channel, unsigned char what)
{
	unsigned char *frame = rd_channel_reserve(channel);
	struct rd_codec codec;

	cr_assert(frame);
	codec = rd_frame_write(frame, FRAME_MOST);
	rd_codec_u8(&codec, &what);
	rd_channel_commit(channel, rd_frame_end(&codec, frame, KIND));
}

static void send_over(struct rd_channel *channel, unsigned char what)
{
	int error;

	put(channel, what);
	cr_assert(rd_channel_flush(channel, &error));
}

static void await_frame(struct rd_channel *channel)
{
	channel->stirred = channel->count > 0;
	await(channel);
}

/* The byte of the next frame, which has come. */
static int next(struct rd_channel *channel)
{
	const unsigned char *frame;
	long size = rd_channel_next(channel, &frame);

	cr_assert_eq(size, RD_FRAME_HEAD + 1);
	return frame[size - 1];
}

static int end_of(struct rd_channel *channel)
{
	int error = -1;

	while (rd_channel_read(channel, &error) == 0)
		await(channel);
	cr_assert_eq(rd_channel_read(channel, &error), -1);
	return error;
}

static struct rd_channel *dial(void)
{
	struct rd_channel *channel = rd_channel_open(&near, &address, 0, NULL, 600000);

	cr_assert(channel);
	channel->due = &due;
	return channel;
}

/* One that is open. */
static struct rd_channel *open_channel(void)
{
	struct rd_channel *channel = dial();

	await(channel);
	cr_assert_not(rd_channel_is_connecting(channel));
	return channel;
}

/* Takes a trunk from the listener as a door does. */
static void accept_trunk(void)
{
	unsigned char greeting[RD_FRAME_HEAD + 8];
	struct pollfd fd = { .fd = accept(listener, NULL, NULL), .events = POLLIN };
	struct rd_wire wire = RD_WIRE(fd.fd);

	cr_assert_geq(fd.fd, 0);
	cr_assert_eq(poll(&fd, 1, WAIT_MS), 1);
	cr_assert_eq(recv(fd.fd, greeting, sizeof(greeting), 0), sizeof(greeting));
	cr_assert_eq(rd_frame_size(greeting, sizeof(greeting)), sizeof(greeting));
	cr_assert_eq(rd_trunk_job(greeting, sizeof(greeting)), JOB);
	rd_trunks_adopt(&far, &wire);
}

/* The other end of a channel with this greeting. */
static struct rd_channel *take(unsigned char what)
{
	struct rd_channel *channel = rd_trunks_take(&far, what);

	for (int i = 0; i < WAIT_MS && !channel; i++) {
		serve(&near, 0);
		serve(&far, 1);
		channel = rd_trunks_take(&far, what);
	}
	cr_assert(channel);
	channel->due = &due;
	cr_assert_eq(next(channel), what);
	return channel;
}

static void close_both(struct rd_channel *here, struct rd_channel *there)
{
	rd_channel_close(here, false);
	rd_channel_close(there, false);
}

static int count_fds(void)
{
	int fd = dup(listener);

	close(fd);
	return fd;
}

Test(trunk, frames_of_each_channel_pass_both_ways_in_order)
{
	struct rd_channel *here[20], *there[20];

	for (unsigned char i = 0; i < 20; i++) {
		here[i] = open_channel();
		send_over(here[i], i + 1);
		send_over(here[i], i + 100);
	}
	accept_trunk();
	for (unsigned char i = 0; i < 20; i++) {
		there[i] = take(i + 1);
		cr_assert_eq(next(there[i]), i + 100);
		send_over(there[i], i + 40);
	}
	for (int i = 19; i >= 0; i--) {
		await_frame(here[i]);
		cr_assert_eq(next(here[i]), i + 40);
		close_both(here[i], there[i]);
	}
}

Test(trunk, a_further_channel_has_no_descriptor_of_its_own)
{
	struct rd_channel *here = open_channel(), *more, *there;
	int fds;

	send_over(here, 1);
	accept_trunk();
	there = take(1);
	fds = count_fds();
	more = open_channel();
	send_over(more, 2);
	close_both(more, take(2));
	cr_assert_eq(count_fds(), fds);
	close_both(here, there);
}

Test(trunk, channels_greet_in_any_order)
{
	struct rd_channel *first = open_channel(), *second = open_channel(), *last;

	send_over(second, 2);
	send_over(first, 1);
	accept_trunk();
	close_both(first, take(1));
	close_both(second, take(2));
	/* One that has not greeted leaves nothing to tell. */
	last = open_channel();
	rd_channel_close(last, false);
	last = open_channel();
	send_over(last, 3);
	close_both(last, take(3));
}

Test(trunk, an_end_follows_the_frames_and_a_reset_is_one)
{
	struct rd_channel *here = open_channel(), *other = open_channel(), *there, *two;

	send_over(here, 1);
	send_over(other, 2);
	accept_trunk();
	there = take(1);
	two = take(2);
	send_over(here, 3);
	rd_channel_close(here, false);
	rd_channel_close(other, true);
	await_frame(there);
	cr_assert_eq(next(there), 3);
	cr_assert_eq(end_of(there), 0);
	cr_assert_eq(end_of(two), ECONNRESET);
	close_both(there, two);
}

Test(trunk, a_reset_that_a_write_finds_is_no_end_of_file)
{
	struct rd_channel *here = open_channel(), *there;
	struct pollfd fd = { .fd = rd_channel_fd(here) };
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int error = 0;

	send_over(here, 1);
	accept_trunk();
	there = take(1);
	cr_assert_eq(connect(rd_channel_fd(there), &none, sizeof(none)), 0);
	cr_assert_eq(poll(&fd, 1, WAIT_MS), 1);
	put(here, 2);
	cr_assert_not(rd_channel_flush(here, &error));
	cr_assert_eq(error, ECONNRESET);
	cr_assert_eq(end_of(here), ECONNRESET);
	close_both(here, there);
}

/* Both ends are on one host, where a reset of the trunk is a death. */
Test(trunk, a_rank_that_resets_a_channel_lives)
{
	struct rd_channel *here = open_channel(), *other = open_channel();
	struct rd_control_socket *one, *two;
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	send_over(here, 1);
	send_over(other, 2);
	accept_trunk();
	one = rd_control_socket_join(take(1), &due);
	two = rd_control_socket_join(take(2), &due);
	rd_channel_close(here, true);
	cr_assert_eq(end_of(one->channel), ECONNRESET);
	cr_assert_eq(rd_control_socket_judge(one, ECONNRESET), ECONNRESET);
	cr_assert_eq(connect(rd_channel_fd(other), &none, sizeof(none)), 0);
	cr_assert_eq(end_of(two->channel), ECONNRESET);
	cr_assert_eq(rd_control_socket_judge(two, ECONNRESET), EPIPE);
	rd_channel_close(other, false);
	rd_control_socket_close(&one, false);
	rd_control_socket_close(&two, false);
}

Test(trunk, its_loss_ends_all_its_channels)
{
	struct rd_channel *here = open_channel(), *other = open_channel(), *there;

	send_over(here, 1);
	send_over(other, 2);
	accept_trunk();
	there = take(1);
	cr_assert_eq(shutdown(rd_channel_fd(here), SHUT_RDWR), 0);
	cr_assert_eq(end_of(there), 0);
	cr_assert_eq(end_of(here), 0);
	cr_assert_eq(end_of(other), 0);
	cr_assert_null(rd_trunks_take(&far, 2), "a channel that has ended waits");
	rd_channel_close(other, false);
	close_both(here, there);
	/* The next channel has a new one. */
	here = open_channel();
	send_over(here, 4);
	accept_trunk();
	close_both(here, take(4));
}

Test(trunk, a_channel_that_is_for_nothing_is_reset)
{
	struct rd_channel *here = open_channel();

	send_over(here, STRANGE);
	accept_trunk();
	cr_assert_eq(end_of(here), ECONNRESET);
	rd_channel_close(here, false);
}

Test(trunk, one_that_has_gone_is_not_taken_unless_its_greeting_counts)
{
	struct rd_channel *gone = open_channel(), *lasting = open_channel(), *there;

	send_over(gone, 1);
	send_over(lasting, LASTING);
	accept_trunk();
	rd_channel_close(gone, true);
	rd_channel_close(lasting, true);
	there = take(LASTING);
	cr_assert_eq(end_of(there), ECONNRESET);
	cr_assert_null(rd_trunks_take(&far, 1));
	rd_channel_close(there, false);
}

Test(trunk, an_address_that_refuses_ends_each_channel_to_it)
{
	struct rd_channel *here, *other;

	cr_assert_eq(shutdown(listener, SHUT_RD), 0);
	here = dial();
	other = dial();
	await(here);
	cr_assert_not(rd_channel_is_connecting(here));
	cr_assert_eq(here->error, ECONNREFUSED);
	cr_assert_eq(other->error, ECONNREFUSED);
	close_both(here, other);
}

Test(trunk, an_end_that_is_stuck_leaves_room_for_ends)
{
	struct rd_channel *here = open_channel(), *other = open_channel(), *there, *two;
	int error, sent = 0;

	send_over(here, 1);
	send_over(other, 2);
	accept_trunk();
	there = take(1);
	two = take(2);
	while (rd_channel_has_room(here)) {
		put(here, 5);
		sent++;
		/* The far end is not served. */
		cr_assert(rd_channel_flush(here, &error));
	}
	rd_channel_close(other, false);
	cr_assert_eq(end_of(two), 0);
	await(here);
	cr_assert(rd_channel_is_flushed(here));
	for (; sent > 0; sent--) {
		await_frame(there);
		cr_assert_eq(next(there), 5);
	}
	rd_channel_close(two, false);
	close_both(here, there);
}

Test(trunk, bytes_that_make_no_sense_end_it)
{
	struct rd_channel *here = open_channel(), *there;

	send_over(here, 1);
	accept_trunk();
	there = take(1);
	cr_assert_eq(send(rd_channel_fd(here), "RNDO\x01\x71\x03\0abc", 11, 0), 11);
	cr_assert_eq(end_of(there), EPROTO);
	cr_assert_eq(end_of(here), ECONNRESET);
	close_both(here, there);
}
