/* A stream of bytes that goes on from socket to socket, as these are reset at any moment. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/settings.h"
#include "draw.h"
#include "rondo.h"
#include "secure/wire.h"

#define TOTAL (8 << 20)
#define PART_MAX 70000

static const unsigned char key[RD_PSK_SIZE] = "the key of this job";

/* One side of a stream: it sends TOTAL bytes, and expects those of the other side. */
struct side {
	struct rd_wire wire;
	int number;
	size_t sent, received;
	bool left;
	uint64_t count; /* once left: the bytes that it has received, of the socket */
};

static struct side sides[2];
static struct draw choices;

static unsigned char byte_at(int side, size_t i)
{
	return (unsigned char)((i * 2654435761u >> 13) + (unsigned)side * 77);
}

static void connect_both(struct rd_wire wires[2])
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), fds[2];

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&address, &size), 0);
	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(connect(fds[0], (struct sockaddr *)&address, sizeof(address)), 0);
	fds[1] = accept(listener, NULL, NULL);
	close(listener);
	for (int i = 0; i < 2; i++)
		wires[i] = (struct rd_wire)RD_WIRE(fds[i]);
}

static void prove_both(struct rd_wire wires[2])
{
	int proved[2] = { 0 };

	for (int i = 0; i < 2; i++)
		cr_assert_eq(rd_wire_secure(&wires[i], i == 1, key), 0);
	for (int i = 0; i < 100000 && (proved[0] <= 0 || proved[1] <= 0); i++)
		for (int side = 0; side < 2; side++)
			proved[side] = rd_wire_prove(&wires[side]);
	cr_assert(proved[0] > 0 && proved[1] > 0);
}

static void begin(bool encrypts)
{
	struct rd_wire wires[2];

	if (encrypts)
		cr_assert_eq(rd_tls_load(), 0, "%s", rondo_last_error());
	connect_both(wires);
	if (encrypts)
		prove_both(wires);
	for (int i = 0; i < 2; i++) {
		sides[i] = (struct side){ .wire = wires[i], .number = i };
		cr_assert_eq(rd_wire_outlive(&sides[i].wire), 0);
	}
}

static void end(void)
{
	for (int i = 0; i < 2; i++)
		rd_wire_close(&sides[i].wire);
}

static void send_some(struct side *side)
{
	static unsigned char bytes[PART_MAX];
	size_t size = draw(&choices, PART_MAX) + 1, half;
	struct iovec parts[2];
	ssize_t sent;

	if (size > TOTAL - side->sent)
		size = TOTAL - side->sent;
	if (size == 0)
		return;
	for (size_t i = 0; i < size; i++)
		bytes[i] = byte_at(side->number, side->sent + i);
	half = draw(&choices, size);
	parts[0] = (struct iovec){ bytes, half };
	parts[1] = (struct iovec){ bytes + half, size - half };
	sent = rd_wire_send(&side->wire, parts, 2);
	cr_assert(sent > 0 || errno == EAGAIN, "%m");
	side->sent += sent > 0 ? (size_t)sent : 0;
	/* The caller's memory is its own again, but for a byte that TLS does not count. */
	memset(bytes, 0xee, sizeof(bytes));
}

static void receive_some(struct side *side)
{
	static unsigned char bytes[PART_MAX];
	size_t size = draw(&choices, PART_MAX) + 1, half = draw(&choices, size);
	struct iovec parts[2] = { { bytes, half }, { bytes + half, size - half } };
	ssize_t got = rd_wire_recv(&side->wire, parts, 2);

	cr_assert(got > 0 || (got < 0 && errno == EAGAIN), "%zd: %m", got);
	for (ssize_t i = 0; i < got; i++)
		cr_assert_eq(bytes[i], byte_at(!side->number, side->received + (size_t)i),
			"side %d: byte %zu", side->number, side->received + (size_t)i);
	side->received += got > 0 ? (size_t)got : 0;
}

static void leave(struct side *side)
{
	struct linger at_once = { 1, 0 };

	if (side->left)
		return;
	/* Where this side is the first, its end is a reset for the other. */
	setsockopt(side->wire.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	cr_assert_eq(rd_wire_leave(&side->wire, &side->count), 0);
	side->left = true;
}

static void go_on_with(struct side *side, struct rd_wire *wire, enum rd_resume_side role)
{
	uint64_t count = sides[!side->number].count;

	cr_assert_eq(rd_wire_go_on(&side->wire, wire, role, count), 0, "%s", rondo_last_error());
	side->left = false;
}

/* The network resets this socket as well, before the side that has asked has the answer. The bytes
   behind the answer are acknowledged, and nobody reads them. */
static void lose_answer(struct side *answers, struct rd_wire *asked)
{
	struct linger at_once = { 1, 0 };

	for (int i = 0; i < 3; i++)
		send_some(answers);
	setsockopt(asked->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	rd_wire_close(asked);
	receive_some(answers);
	leave(answers);
}

static void go_on(bool encrypts)
{
	struct rd_wire wires[2];
	int answers = (int)draw(&choices, 2);

	for (int i = 0; i < 2; i++)
		leave(&sides[i]);
	connect_both(wires);
	if (encrypts)
		prove_both(wires);
	go_on_with(&sides[answers], &wires[answers], RD_RESUME_ANSWERED);
	if (draw(&choices, 3) == 0)
		lose_answer(&sides[answers], &wires[!answers]);
	else
		go_on_with(&sides[!answers], &wires[!answers], RD_RESUME_ASKED);
}

static void stream(bool encrypts, uint64_t seed)
{
	int resets = 0;

	choices = draw_from(seed, 0);
	begin(encrypts);
	while (sides[0].received < TOTAL || sides[1].received < TOTAL) {
		struct side *side = &sides[draw(&choices, 2)];

		if (!side->left && draw(&choices, 2))
			send_some(side);
		else if (!side->left)
			receive_some(side);
		rd_wire_sends_again(&side->wire);
		if (draw(&choices, 60) == 0) {
			leave(side);
			resets++;
		}
		if ((sides[0].left || sides[1].left) && draw(&choices, 4) == 0)
			go_on(encrypts);
	}
	cr_expect_gt(resets, 5);
	cr_expect_eq(sides[0].received, TOTAL);
	cr_expect_eq(sides[1].received, TOTAL);
	end();
}

Test(resume, a_plain_stream_loses_and_doubles_nothing, .timeout = 60)
{
	for (uint64_t seed = 1; seed <= 6; seed++)
		stream(false, seed);
}

Test(resume, an_encrypted_stream_loses_and_doubles_nothing, .timeout = 60)
{
	for (uint64_t seed = 1; seed <= 4; seed++)
		stream(true, seed);
}

Test(resume, bytes_that_are_gone_are_an_error, .timeout = 60)
{
	struct rd_wire wires[2];

	choices = draw_from(1, 0);
	begin(false);
	while (sides[1].received < 200000) {
		send_some(&sides[0]);
		receive_some(&sides[1]);
	}
	leave(&sides[0]);
	leave(&sides[1]);
	connect_both(wires);
	cr_expect_eq(rd_wire_go_on(&sides[0].wire, &wires[0], RD_RESUME_ASKED,
			     sides[1].count + PART_MAX * 100),
		RONDO_PROTOCOL);
	cr_expect_eq(rd_wire_go_on(&sides[0].wire, &wires[0], RD_RESUME_ASKED, 0), RONDO_PROTOCOL);
	cr_expect_str_eq(rondo_last_error(), "bytes were lost with a connection");
	for (int i = 0; i < 2; i++)
		rd_wire_close(&wires[i]);
	end();
}

Test(resume, the_end_of_the_peer_is_an_end, .timeout = 60)
{
	struct iovec room = { &(char){ 0 }, 1 };

	begin(false);
	rd_wire_close(&sides[1].wire);
	cr_expect_eq(rd_wire_peek(&sides[0].wire), 0);
	cr_expect_eq(rd_wire_recv(&sides[0].wire, &room, 1), 0);
	cr_expect_eq(rd_wire_lost(&sides[0].wire), 0);
	end();
}

/* The peer gave that socket up before it had the answer: it goes on over another. */
Test(resume, an_end_before_the_confirmation_is_no_end, .timeout = 60)
{
	struct iovec room = { &(char){ 0 }, 1 };
	struct rd_wire wires[2];

	begin(false);
	leave(&sides[0]);
	leave(&sides[1]);
	connect_both(wires);
	go_on_with(&sides[0], &wires[0], RD_RESUME_ANSWERED);
	rd_wire_close(&wires[1]);
	cr_expect_eq(rd_wire_recv(&sides[0].wire, &room, 1), -1);
	cr_expect_eq(errno, EAGAIN);
	cr_expect_eq(rd_wire_lost(&sides[0].wire), ECONNRESET);
	end();
}

/* Another byte would be taken for the confirmation. */
Test(resume, a_socket_that_does_not_take_the_confirmation_is_lost, .timeout = 60)
{
	static char bytes[PART_MAX];
	struct rd_wire wires[2];

	begin(false);
	leave(&sides[0]);
	leave(&sides[1]);
	connect_both(wires);
	while (send(wires[0].fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	go_on_with(&sides[0], &wires[0], RD_RESUME_ASKED);
	cr_expect_neq(rd_wire_lost(&sides[0].wire), 0);
	rd_wire_close(&wires[1]);
	end();
}
