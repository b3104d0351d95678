/* TLS between two ends of a socket: the proof, bytes, and how a peer may break it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/wire.h"

static const unsigned char key[RD_PSK_SIZE] = "the key of this job";
static const unsigned char other_key[RD_PSK_SIZE] = "the key of another job";

struct ends {
	struct rd_wire client, server;
};

static void load(void)
{
	if (rd_tls_load())
		cr_skip("%s", rondo_last_error());
}

TestSuite(tls, .init = load, .timeout = 240);

/* Plain ends of one connection. */
static struct ends connect_ends(void)
{
	int fds[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	return (struct ends){ RD_WIRE(fds[0]), RD_WIRE(fds[1]) };
}

static struct ends secure_ends(const unsigned char *client_key, const unsigned char *server_key)
{
	struct ends ends = connect_ends();

	cr_assert_eq(rd_wire_secure(&ends.client, false, client_key), 0);
	cr_assert_eq(rd_wire_secure(&ends.server, true, server_key), 0);
	return ends;
}

static void prove_both(struct ends *ends)
{
	for (int i = 0; i < 10; i++) {
		int client = rd_wire_prove(&ends->client), server = rd_wire_prove(&ends->server);

		cr_assert_geq(client, 0);
		cr_assert_geq(server, 0);
		if (client && server)
			return;
	}
	cr_assert_fail("the proof does not end");
}

static struct ends open_ends(void)
{
	struct ends ends = secure_ends(key, key);

	prove_both(&ends);
	return ends;
}

static void close_ends(struct ends *ends)
{
	rd_wire_close(&ends->client);
	rd_wire_close(&ends->server);
}

static ssize_t send_text(struct rd_wire *wire, const char *text)
{
	struct iovec all = { (char *)text, strlen(text) };

	return rd_wire_send(wire, &all, 1);
}

static ssize_t receive(struct rd_wire *wire, void *bytes, size_t size)
{
	struct iovec room = { bytes, size };

	return rd_wire_recv(wire, &room, 1);
}

static void expect_text(struct rd_wire *wire, const char *text)
{
	char got[256] = "";

	cr_assert_eq(receive(wire, got, sizeof(got)), (ssize_t)strlen(text));
	cr_expect_str_eq(got, text);
}

/* ---- The proof ----------------------------------------------------------------------------- */

Test(tls, ends_with_one_key_prove_themselves_and_exchange_bytes)
{
	struct ends ends = open_ends();
	char byte;

	cr_expect(ends.client.keyed && ends.server.keyed);
	cr_expect_lt(receive(&ends.server, &byte, 1), 0);
	cr_expect_eq(errno, EAGAIN);
	cr_expect_eq(send_text(&ends.client, "from the client"), 15);
	cr_expect_eq(send_text(&ends.server, "from the server"), 15);
	cr_expect_eq(rd_wire_peek(&ends.server), 1);
	expect_text(&ends.server, "from the client");
	expect_text(&ends.client, "from the server");
	close_ends(&ends);
}

static void expect_no_proof(struct ends *ends)
{
	int client = 0, server = 0;

	for (int i = 0; i < 4; i++) {
		client = rd_wire_prove(&ends->client);
		server = rd_wire_prove(&ends->server);
		cr_assert_leq(server, 0);
		cr_expect_not(rd_tls_has_shown_key(ends->server.tls));
	}
	cr_expect_eq(client, -1);
	cr_expect_eq(server, -1);
	cr_expect_eq(errno, EPROTO);
	cr_expect_not(ends->client.keyed || ends->server.keyed);
}

Test(tls, ends_with_different_keys_fail_both)
{
	struct ends ends = secure_ends(key, other_key);

	expect_no_proof(&ends);
	close_ends(&ends);
}

Test(tls, bytes_that_are_no_handshake_fail)
{
	static const char *const texts[] = { "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "rodh\3\0\0",
		"\x16\3\1\x40\0", "\x16\3\1\xff\xff\1", "\x17\3\3\0\5abcde" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct ends ends = connect_ends();
		char flood[8192];

		cr_assert_eq(rd_wire_secure(&ends.server, true, key), 0);
		cr_assert_gt(write(ends.client.fd, texts[i], strlen(texts[i])), 0);
		/* Whatever length it announced, it is over before the bound. */
		memset(flood, 1, sizeof(flood));
		cr_assert_gt(write(ends.client.fd, flood, sizeof(flood)), 0);
		cr_expect_eq(rd_wire_prove(&ends.server), -1, "text %zu", i);
		cr_expect_eq(errno, EPROTO);
		close_ends(&ends);
	}
}

Test(tls, a_peer_that_ends_before_its_proof_fails)
{
	struct ends ends = secure_ends(key, key);

	cr_expect_eq(rd_wire_prove(&ends.client), 0);
	cr_expect_eq(rd_wire_prove(&ends.server), 0);
	cr_expect(rd_tls_has_shown_key(ends.server.tls));
	rd_wire_close(&ends.client);
	cr_expect_eq(rd_wire_prove(&ends.server), -1);
	cr_expect_eq(errno, ECONNRESET);
	close_ends(&ends);
}

/* Takes the bytes that wait at this end, as a listener on the network would. */
static size_t overhear(int fd, char bytes[4096])
{
	ssize_t size = recv(fd, bytes, 4096, MSG_PEEK);

	cr_assert_gt(size, 0);
	return (size_t)size;
}

Test(tls, replayed_bytes_prove_nothing)
{
	struct ends heard = secure_ends(key, key), replay = connect_ends();
	char first[4096], second[4096], answer[4096];
	size_t first_size, second_size;

	cr_assert_eq(rd_wire_prove(&heard.client), 0);
	first_size = overhear(heard.server.fd, first);
	cr_assert_eq(rd_wire_prove(&heard.server), 0);
	cr_assert_eq(rd_wire_prove(&heard.client), 1);
	second_size = overhear(heard.server.fd, second);
	cr_assert_eq(rd_wire_prove(&heard.server), 1);

	cr_assert_eq(rd_wire_secure(&replay.server, true, key), 0);
	cr_assert_eq(write(replay.client.fd, first, first_size), (ssize_t)first_size);
	cr_expect_eq(rd_wire_prove(&replay.server), 0);
	cr_assert_gt(read(replay.client.fd, answer, sizeof(answer)), 0);
	cr_assert_eq(write(replay.client.fd, second, second_size), (ssize_t)second_size);
	cr_expect_eq(rd_wire_prove(&replay.server), -1);
	cr_expect_not(replay.server.keyed);
	close_ends(&heard);
	close_ends(&replay);
}

/* ---- Bytes --------------------------------------------------------------------------------- */

/* Moves all bytes through a socket that takes a part of them at a time. */
static void stream(struct ends *ends, const char *from, char *to, size_t size, size_t header)
{
	size_t sent = 0, received = 0;

	while (received < size) {
		struct iovec parts[2] = { { (char *)from + sent, 0 }, { NULL, 0 } };
		ssize_t moved;

		/* Two parts, as a header and its message. */
		parts[0].iov_len = sent < header ? header - sent : size - sent;
		parts[1] = (struct iovec){ (char *)from + sent + parts[0].iov_len,
			size - sent - parts[0].iov_len };
		moved = sent < size ? rd_wire_send(&ends->client, parts, 2) : 0;
		if (moved > 0)
			sent += (size_t)moved;
		else
			cr_assert(sent == size || errno == EAGAIN);
		moved = receive(&ends->server, to + received, size - received);
		if (moved > 0)
			received += (size_t)moved;
		else
			cr_assert_eq(errno, EAGAIN);
	}
	cr_assert_eq(sent, size);
}

Test(tls, bytes_arrive_whole_through_full_sockets)
{
	static const size_t sizes[] = { 1, 31, 16384, 16385, 70000, 1 << 20, (5 << 20) + 3 };
	struct ends ends = open_ends();

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		char *from = malloc(sizes[i]), *to = calloc(1, sizes[i]);

		for (size_t at = 0; at < sizes[i]; at++)
			from[at] = (char)(at * 7 + at / 251);
		stream(&ends, from, to, sizes[i], 32 < sizes[i] ? 32 : 1);
		cr_expect_eq(memcmp(from, to, sizes[i]), 0, "%zu bytes", sizes[i]);
		free(from);
		free(to);
	}
	close_ends(&ends);
}

/* send() counts a byte only when the socket has all before it: else the last bytes could wait here
   with nobody to move them. */
Test(tls, nothing_is_left_behind_when_all_is_counted)
{
	enum { SIZE = 4 << 20 };
	struct ends ends = open_ends();
	char *from = calloc(1, SIZE), drained[65536];
	size_t sent = 0, arrived = 0;

	while (sent < SIZE) {
		struct iovec rest = { from + sent, SIZE - sent };
		ssize_t moved = rd_wire_send(&ends.client, &rest, 1);

		if (moved > 0) {
			sent += (size_t)moved;
			continue;
		}
		moved = receive(&ends.server, drained, sizeof(drained));
		cr_assert_gt(moved, 0);
		arrived += (size_t)moved;
	}
	rd_wire_close(&ends.client);
	for (ssize_t moved; (moved = receive(&ends.server, drained, sizeof(drained))) != 0;) {
		cr_assert_gt(moved, 0);
		arrived += (size_t)moved;
	}
	cr_expect_eq(arrived, SIZE);
	free(from);
	close_ends(&ends);
}

Test(tls, the_end_of_a_peer_is_the_end_of_its_bytes)
{
	struct ends ends = open_ends();
	char byte;

	cr_expect_eq(send_text(&ends.client, "last"), 4);
	rd_wire_close(&ends.client);
	expect_text(&ends.server, "last");
	cr_expect_eq(rd_wire_peek(&ends.server), 0);
	cr_expect_eq(receive(&ends.server, &byte, 1), 0);
	close_ends(&ends);
}

/* Between two sockets whose bytes the test carries, one flipped bit at each place. */
Test(tls, a_changed_byte_is_an_error)
{
	for (size_t at = 0; at < 26; at++) {
		struct ends ends = open_ends();
		char bytes[4096];
		ssize_t size;

		cr_assert_eq(send_text(&ends.client, "paid"), 4);
		size = recv(ends.server.fd, bytes, sizeof(bytes), 0);
		cr_assert_eq(size, 26);
		bytes[at] ^= 1;
		cr_assert_eq(write(ends.client.fd, bytes, (size_t)size), size);
		/* A longer record must come whole first. */
		cr_assert_eq(write(ends.client.fd, (char[512]){ 0 }, 512), 512);
		cr_expect_lt(receive(&ends.server, bytes, sizeof(bytes)), 0, "byte %zu", at);
		cr_expect_eq(errno, EPROTO, "byte %zu", at);
		close_ends(&ends);
	}
}

/* The sender changes its key every 2^20 records: here, each part is one. */
Test(tls, bytes_arrive_under_the_next_key)
{
	enum { PARTS = 256, RECORDS = (1 << 21) + 3 * PARTS };
	struct ends ends = open_ends();
	struct iovec parts[PARTS];
	char bytes[PARTS], got[PARTS];

	for (int i = 0; i < PARTS; i++)
		parts[i] = (struct iovec){ bytes + i, 1 };
	for (int at = 0; at < RECORDS; at += PARTS) {
		for (int i = 0; i < PARTS; i++)
			bytes[i] = (char)(at / PARTS + i);
		cr_assert_eq(rd_wire_send(&ends.client, parts, PARTS), PARTS);
		cr_assert_eq(receive(&ends.server, got, PARTS), PARTS);
		cr_assert_eq(memcmp(got, bytes, PARTS), 0);
	}
	close_ends(&ends);
}

Test(tls, plain_bytes_follow_the_proof_where_both_strip_it)
{
	struct ends ends = open_ends();
	char got[16] = "";

	rd_wire_strip(&ends.client);
	cr_assert_eq(send_text(&ends.client, "plain"), 5);
	cr_assert_eq(recv(ends.server.fd, got, sizeof(got), MSG_PEEK), 5);
	cr_expect_str_eq(got, "plain");
	rd_wire_strip(&ends.server);
	cr_expect(ends.server.keyed);
	expect_text(&ends.server, "plain");
	close_ends(&ends);
}

/* ---- Memory -------------------------------------------------------------------------------- */

/* The bytes that a connection's two sessions have once a message has come. */
static size_t memory_after_a_message(bool keeps_buffers)
{
	size_t before = mallinfo2().uordblks, after;
	struct ends ends = secure_ends(key, key);
	char byte;

	if (keeps_buffers)
		rd_wire_keep_buffers(&ends.client);
	prove_both(&ends);
	if (keeps_buffers)
		rd_wire_keep_buffers(&ends.server);
	cr_assert_eq(send_text(&ends.client, "text"), 4);
	cr_assert_eq(send_text(&ends.server, "text"), 4);
	expect_text(&ends.server, "text");
	expect_text(&ends.client, "text");
	cr_assert_lt(receive(&ends.server, &byte, 1), 0);
	cr_assert_lt(receive(&ends.client, &byte, 1), 0);
	after = mallinfo2().uordblks;
	close_ends(&ends);
	return after - before;
}

Test(tls, a_session_has_buffers_between_messages_only_where_it_keeps_them)
{
	if (mallinfo2().arena == 0)
		cr_skip("this allocator does not count");
	memory_after_a_message(false); /* OpenSSL's first session takes more */
	cr_expect_lt(memory_after_a_message(false), 48 << 10);
	cr_expect_gt(memory_after_a_message(true), 230 << 10);
}
