/* A connection: frames in and out, however the bytes between its ends are cut. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "net/codec.h"
#include "net/connection.h"

#define FRAME_MOST 64
#define OUT_MOST 256

static const unsigned char key[RD_PSK_SIZE] = "the key of this job";

TestSuite(connection, .timeout = 60);

static void pair(int fds[2])
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
}

static void init_over(struct rd_connection *connection, int fd)
{
	struct rd_wire wire = RD_WIRE(fd);

	rd_connection_init(connection, &wire, FRAME_MOST, OUT_MOST);
}

/* A frame of one number, behind which so many bytes are zero. */
static size_t write_frame(unsigned char *frame, uint32_t number, size_t zeros)
{
	struct rd_codec codec = rd_frame_write(frame, FRAME_MOST);

	rd_codec_u32(&codec, &number);
	memset(codec.at, 0, zeros);
	codec.at += zeros;
	return rd_frame_end(&codec, frame, 1);
}

static void put(struct rd_connection *connection, uint32_t number)
{
	unsigned char *frame = rd_connection_reserve(connection);

	cr_assert(frame);
	rd_connection_commit(connection, write_frame(frame, number, 0));
}

static void flush(struct rd_connection *connection)
{
	int error;

	cr_assert(rd_connection_flush(connection, &error));
}

static uint32_t number_of(const unsigned char *frame, long size)
{
	unsigned kind;
	uint32_t number = 0;
	struct rd_codec codec = rd_frame_read(frame, (size_t)size, &kind);

	rd_codec_u32(&codec, &number);
	return number;
}

/* The next frame's number, of those that have been read; 0: none. */
static uint32_t next(struct rd_connection *connection)
{
	const unsigned char *frame;
	long size = rd_connection_next(connection, &frame);

	cr_assert_geq(size, 0);
	return size ? number_of(frame, size) : 0;
}

/* Reads all that has come. Returns the last number of those up to there, which come in order. */
static uint32_t receive_from(struct rd_connection *connection, uint32_t seen)
{
	uint32_t number;
	int error;

	while (rd_connection_read(connection, &error) > 0)
		while ((number = next(connection)))
			cr_assert_eq(number, ++seen);
	return seen;
}

Test(connection, cuts_frames_out_of_bytes_that_come_one_by_one)
{
	unsigned char bytes[4 * FRAME_MOST];
	struct rd_connection there;
	size_t size = 0;
	uint32_t seen = 0;
	int fds[2], error;

	pair(fds);
	init_over(&there, fds[1]);
	for (uint32_t number = 1; number <= 4; number++)
		size += write_frame(bytes + size, number, 9 * number);
	for (size_t i = 0; i < size; i++) {
		uint32_t number;

		cr_assert_eq(write(fds[0], bytes + i, 1), 1);
		cr_assert_eq(rd_connection_read(&there, &error), 1);
		cr_assert_eq(rd_connection_read(&there, &error), 0);
		number = next(&there);
		cr_assert(number == 0 || number == seen + 1);
		seen = number ? number : seen;
	}
	cr_expect_eq(seen, 4);
	close(fds[0]);
	cr_expect_eq(rd_connection_read(&there, &error), -1);
	cr_expect_eq(error, 0);
	rd_connection_close(&there, false);
}

Test(connection, cuts_frames_out_of_many_at_once)
{
	struct rd_connection here, there;
	uint32_t sent = 0;
	int fds[2];

	pair(fds);
	init_over(&here, fds[0]);
	init_over(&there, fds[1]);
	while (rd_connection_reserve(&here))
		put(&here, ++sent);
	cr_assert_geq(sent, 10);
	flush(&here);
	cr_expect(rd_connection_is_flushed(&here));
	cr_expect_eq(receive_from(&there, 0), sent);
	rd_connection_close(&here, false);
	rd_connection_close(&there, false);
}

Test(connection, holds_no_buffer_while_it_is_idle)
{
	struct rd_connection here, there;
	const unsigned char *frame;
	int fds[2], error;

	pair(fds);
	init_over(&here, fds[0]);
	init_over(&there, fds[1]);
	put(&here, 1);
	cr_expect(here.out);
	flush(&here);
	cr_expect(!here.out && !here.in);
	cr_expect_eq(rd_connection_read(&there, &error), 1);
	cr_expect_eq(rd_connection_read(&there, &error), 0);
	cr_expect_gt(rd_connection_next(&there, &frame), 0);
	cr_expect(there.in, "the frame is valid until the next read");
	cr_expect_eq(rd_connection_read(&there, &error), 0);
	cr_expect(!there.out && !there.in);
	put(&here, 2);
	flush(&here);
	cr_expect_eq(receive_from(&there, 1), 2);
	rd_connection_close(&here, false);
	rd_connection_close(&there, false);
}

Test(connection, reads_no_further_than_its_frames_are_taken)
{
	unsigned char bytes[FRAME_MOST];
	struct rd_connection there;
	const unsigned char *frame;
	int fds[2], error;

	pair(fds);
	init_over(&there, fds[1]);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(
			write(fds[0], bytes, write_frame(bytes, 1, FRAME_MOST - RD_FRAME_HEAD - 4)),
			FRAME_MOST);
	cr_expect_eq(rd_connection_read(&there, &error), 1);
	cr_expect_eq(rd_connection_read(&there, &error), 0);
	for (int i = 0; i < 3; i++) {
		cr_expect_eq(rd_connection_next(&there, &frame), FRAME_MOST);
		cr_expect_eq(rd_connection_read(&there, &error), i < 2);
	}
	close(fds[0]);
	rd_connection_close(&there, false);
}

Test(connection, tells_what_is_no_frame)
{
	static const char *const bytes[] = { "G", "RNDO\1\0\71\0" };
	const unsigned char *frame;
	int fds[2], error;

	for (int i = 0; i < 2; i++) {
		struct rd_connection there;

		pair(fds);
		init_over(&there, fds[1]);
		cr_assert_eq(write(fds[0], bytes[i], i ? 8 : 1), i ? 8 : 1);
		cr_assert_eq(rd_connection_read(&there, &error), 1);
		cr_expect_eq(rd_connection_next(&there, &frame), -1, "%s", bytes[i]);
		cr_expect_eq(rd_connection_next(&there, &frame), 0);
		close(fds[0]);
		rd_connection_close(&there, false);
	}
}

Test(connection, sends_the_rest_once_the_socket_has_room)
{
	struct rd_connection here, there;
	uint32_t sent = 0, seen = 0;
	int fds[2], least = 1;

	pair(fds);
	setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
	init_over(&here, fds[0]);
	init_over(&there, fds[1]);
	while (rd_connection_is_flushed(&here)) {
		put(&here, ++sent);
		flush(&here);
	}
	while (rd_connection_reserve(&here))
		put(&here, ++sent);
	for (int i = 0; i < 1000 && seen < sent; i++) {
		flush(&here);
		seen = receive_from(&there, seen);
	}
	cr_expect_eq(seen, sent);
	rd_connection_close(&here, false);
	rd_connection_close(&there, false);
}

static void dial(int fds[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&at, &size), 0);
	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(connect(fds[0], (struct sockaddr *)&at, size), 0);
	fds[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	close(listener);
}

/* A child that does not know of the connection holds a copy of its socket, or not. */
static void end(bool resets)
{
	int fds[2], error, ends[2];
	struct rd_connection here, there;
	pid_t child;
	char byte;

	dial(fds);
	cr_assert_eq(pipe(ends), 0);
	init_over(&here, fds[0]);
	init_over(&there, fds[1]);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		close(ends[1]);
		(void)!read(ends[0], &byte, 1);
		_exit(here.wire.fd != -1 || there.wire.fd != -1);
	}
	rd_connection_close(&here, resets);
	cr_assert_eq(poll(&(struct pollfd){ .fd = there.wire.fd, .events = POLLIN }, 1, 10000), 1);
	cr_expect_eq(rd_connection_read(&there, &error), -1);
	cr_expect_eq(error, resets ? ECONNRESET : 0);
	rd_connection_close(&here, false);
	rd_connection_close(&there, false);
	close(ends[1]);
	cr_assert_eq(waitpid(child, &error, 0), child);
	cr_expect_eq(error, 0);
	close(ends[0]);
}

Test(connection, ends_though_a_child_was_forked)
{
	end(false);
	end(true);
}

Test(connection, moves_no_frame_before_the_proof)
{
	struct rd_wire here_wire, there_wire;
	struct rd_connection here, there;
	int fds[2], error;

	if (rd_tls_load())
		cr_skip("%s", rondo_last_error());
	pair(fds);
	here_wire = (struct rd_wire)RD_WIRE(fds[0]);
	there_wire = (struct rd_wire)RD_WIRE(fds[1]);
	cr_assert_eq(rd_wire_secure(&here_wire, false, key), 0);
	cr_assert_eq(rd_wire_secure(&there_wire, true, key), 0);
	rd_connection_init(&here, &here_wire, FRAME_MOST, OUT_MOST);
	rd_connection_init(&there, &there_wire, FRAME_MOST, OUT_MOST);
	put(&here, 7);
	put(&here, 8);
	flush(&here);
	cr_expect(!rd_connection_is_flushed(&here) && !rd_connection_is_proved(&here));
	for (int i = 0; i < 10 && !rd_connection_is_flushed(&here); i++) {
		cr_expect_eq(rd_connection_read(&there, &error), 0);
		flush(&here);
	}
	cr_assert(rd_connection_is_flushed(&here) && rd_connection_is_proved(&here));
	cr_expect_eq(rd_connection_read(&there, &error), 1);
	while (rd_connection_read(&there, &error) > 0)
		;
	cr_expect_eq(next(&there), 7);
	cr_expect_eq(next(&there), 8);
	rd_connection_close(&here, false);
	rd_connection_close(&there, false);
}
