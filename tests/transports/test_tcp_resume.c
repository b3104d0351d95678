/* Connections with a fake on another host that are reset: how they go on, and when they do not. */
#include <criterion/criterion.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tcp/fakes.h"

#define SIZE 1000

/* A connection that is to go on, after so many bytes. Returns its socket. */
static int connect_again(struct staged *staged, uint32_t attempt, uint64_t received)
{
	struct hello hello = fake_hello(&staged->rank, 1);
	int fd = fake_connect(&staged->rank);

	hello.attempt = attempt;
	hello.received = received;
	fake_write(fd, &hello, sizeof(hello));
	return fd;
}

static void go_on(struct staged *staged, uint32_t attempt, uint64_t received, uint64_t sent)
{
	struct hello answer;

	staged->fd = connect_again(staged, attempt, received);
	fake_read(staged->fd, &staged->rank, &answer, sizeof(answer));
	cr_expect_eq(answer.attempt, attempt);
	cr_expect_eq(answer.received, sent, "%llu", (unsigned long long)answer.received);
	/* The answer has come. */
	fake_write(staged->fd, "", 1);
}

static void send_one(struct staged *staged, unsigned key)
{
	struct rd_link *link = staged->rank.link;
	void *room = link->ops->reserve(link, SIZE);
	struct rd_tag tag = tag_of(key);

	cr_assert_not_null(room);
	fill_bytes(room, SIZE, key);
	link->ops->commit(link, &tag, SIZE);
}

static void expect_message(
	struct staged *staged, unsigned number, unsigned key, size_t from, size_t to)
{
	unsigned char wanted[64 + SIZE], got[64 + SIZE];
	size_t size = fake_message(wanted, number, key, SIZE);

	fake_read(staged->fd, &staged->rank, got, (to ? to : size) - from);
	cr_expect_eq(memcmp(got, wanted + from, (to ? to : size) - from), 0, "message %u", number);
}

Test(tcp_resume, both_send_what_the_other_has_not_received, .timeout = 60)
{
	unsigned char bytes[64 + SIZE];
	size_t size = fake_message(bytes, 0, 7, SIZE);
	struct staged staged;

	staged_open_far(&staged);
	fake_write(staged.fd, bytes, 300);
	rank_advance_long(&staged.rank);
	send_one(&staged, 5);
	expect_message(&staged, 0, 5, 0, 400);
	staged_reset(&staged);
	/* The last of the bytes that the kernel had acknowledged. */
	go_on(&staged, 1, 400, 300);
	expect_message(&staged, 0, 5, 400, 0);
	send_one(&staged, 6);
	expect_message(&staged, 1, 6, 0, 0);
	fake_write(staged.fd, bytes + 300, size - 300);
	rank_recv(&staged.rank, 7, SIZE, NULL, 0);
	cr_expect_eq(staged.rank.link->error, 0);
	staged_close(&staged);
}

Test(tcp_resume, a_connection_that_comes_before_its_reset_is_noticed_takes_its_place, .timeout = 60)
{
	unsigned char bytes[64 + SIZE];
	size_t size = fake_message(bytes, 0, 7, SIZE);
	struct staged staged;
	int first;

	staged_open_far(&staged);
	first = staged.fd;
	fake_write(first, bytes, size);
	go_on(&staged, 3, 0, size);
	rank_recv(&staged.rank, 7, SIZE, NULL, 0);
	/* An attempt from before, which was on its way for longer. */
	fake_is_rejected(connect_again(&staged, 2, 0), &staged.rank);
	send_one(&staged, 5);
	expect_message(&staged, 0, 5, 0, 0);
	close(first);
	staged_close(&staged);
}

Test(tcp_resume, bytes_that_are_gone_fail_the_link, .timeout = 60)
{
	struct staged staged;

	staged_open_far(&staged);
	staged_reset(&staged);
	staged.fd = connect_again(&staged, 1, 4000);
	staged_fails(&staged, RONDO_PROTOCOL, "bytes were lost with a connection");
	staged_close(&staged);
}

Test(tcp_resume, a_peer_that_listens_no_more_fails_the_link, .timeout = 60)
{
	struct staged staged;

	staged_open_far(&staged);
	close(staged.listener);
	staged_reset(&staged);
	AWAIT(staged.rank.link->error, rank_advance(&staged.rank));
	cr_expect_eq(staged.rank.link->error, RONDO_BROKEN);
	cr_expect(strstr(staged.rank.link->reason, "Connection refused"), "%s",
		staged.rank.link->reason);
	staged.listener = -1;
	staged_close(&staged);
}

Test(tcp_resume, the_end_of_the_peer_is_no_reset, .timeout = 60)
{
	struct staged staged;

	staged_open_far(&staged);
	close(staged.fd);
	staged.fd = -1;
	staged_fails(&staged, RONDO_BROKEN, "closed its connection");
	staged_close(&staged);
}
