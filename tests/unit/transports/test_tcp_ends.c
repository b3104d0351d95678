/* The end of tcp links: messages of a peer that has gone, and bytes that are no message. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transports/contract/leaks.h"
#include "transports/contract/suite.h"
#include "tcp/fakes.h"

Test(tcp, a_close_is_noticed_on_an_idle_link, .timeout = 60)
{
	struct staged staged;

	staged_open(&staged);
	close(staged.fd);
	staged_fails(&staged, RONDO_BROKEN, "closed its connection");
	staged_close(&staged);
}

Test(tcp, a_reset_is_noticed_on_an_idle_link, .timeout = 60)
{
	struct staged staged;

	staged_open(&staged);
	staged_reset(&staged);
	staged_fails(&staged, RONDO_BROKEN, "reset the connection");
	staged_close(&staged);
}

Test(tcp, a_close_amid_a_message_has_its_own_reason, .timeout = 60)
{
	unsigned char bytes[2000], into[1000];
	struct rd_message message;
	struct staged staged;
	size_t size = fake_message(bytes, 0, 1, 1000);
	const size_t cuts[] = { 1, 31, 32, 33, size - 1 };

	for (int landing = 0; landing < 2; landing++)
		for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
			staged_open(&staged);
			fake_write(staged.fd, bytes, cuts[i]);
			close(staged.fd);
			AWAIT(staged.rank.link->error,
				cr_assert(!staged.rank.link->ops->recv(
					staged.rank.link, landing ? into : NULL, 1000, &message)));
			staged_recv_fails(&staged, RONDO_BROKEN,
				"closed its connection in the middle of a message");
			staged_close(&staged);
		}
}

Test(tcp, a_reset_amid_a_large_message_is_a_reset, .timeout = 60)
{
	unsigned char *bytes = malloc(PIECE + 32);
	struct staged staged;

	staged_open(&staged);
	fake_message(bytes, 0, 1, PIECE);
	fake_write(staged.fd, bytes, 10000);
	cr_assert(!rank_has_message(&staged.rank));
	staged_reset(&staged);
	staged_recv_fails(&staged, RONDO_BROKEN, "reset the connection");
	staged_close(&staged);
	free(bytes);
}

Test(tcp, messages_before_the_end_are_received_first, .timeout = 60)
{
	unsigned char bytes[2000];
	struct staged staged;
	size_t size;

	staged_open(&staged);
	size = fake_message(bytes, 0, 1, 100);
	size += fake_message(bytes + size, 1, 2, 0);
	size += fake_message(bytes + size, 2, 3, 333);
	fake_write(staged.fd, bytes, size);
	close(staged.fd);
	rank_advance_long(&staged.rank);
	cr_assert_eq(staged.rank.link->error, 0);
	rank_recv(&staged.rank, 1, 100, NULL, 0);
	rank_advance_long(&staged.rank);
	cr_assert_eq(staged.rank.link->error, 0);
	rank_recv(&staged.rank, 2, 0, NULL, 0);
	/* A message that recv() has returned stays valid. */
	cr_assert(rank_has_message(&staged.rank));
	rank_advance_long(&staged.rank);
	cr_assert_eq(staged.rank.link->error, 0);
	rank_recv(&staged.rank, 3, 333, NULL, 0);
	staged_fails(&staged, RONDO_BROKEN, "closed its connection");
	staged_close(&staged);
}

/* The fake sends a message and resets, while this rank sends more than the fake reads. */
static void staged_break(struct staged *staged, unsigned char *bytes)
{
	struct rd_link *link = staged->rank.link;
	struct rd_tag tag = { 0 };

	fake_write(staged->fd, bytes, fake_message(bytes, 0, 1, 100));
	while (link->ops->send(link, &tag, bytes, PIECE))
		;
	staged_reset(staged);
	AWAIT(link->sent == link->posted, rank_advance(&staged->rank));
	cr_assert_eq(link->error, 0, "%s", link->reason);
}

Test(tcp, messages_of_a_dead_peer_are_received, .timeout = 60)
{
	unsigned char *bytes = malloc(PIECE);
	struct staged staged;

	staged_open(&staged);
	staged_break(&staged, bytes);
	rank_recv(&staged.rank, 1, 100, NULL, 0);
	AWAIT(staged.rank.link->error, rank_advance(&staged.rank));
	cr_assert_eq(staged.rank.link->error, RONDO_BROKEN);
	staged_close(&staged);
	free(bytes);
}

Test(tcp, messages_of_a_dead_peer_do_not_hide_its_end_from_a_sender, .timeout = 60)
{
	unsigned char *bytes = malloc(PIECE);
	struct staged staged;

	for (int posts = 0; posts < 2; posts++) {
		struct rd_link *link;

		staged_open(&staged);
		staged_break(&staged, bytes);
		link = staged.rank.link;
		if (posts)
			cr_assert(!link->ops->send(link, &(struct rd_tag){ 0 }, bytes, 1));
		else
			cr_assert_null(link->ops->reserve(link, 1));
		cr_assert_eq(link->error, RONDO_BROKEN);
		cr_assert_str_eq(link->reason, "reset the connection");
		staged_close(&staged);
	}
	free(bytes);
}

Test(tcp, a_rank_that_only_sends_detects_a_dead_peer, .timeout = 60)
{
	struct staged staged;
	struct rd_link *link;
	unsigned char bytes[PIECE];
	struct rd_tag tag = { 0 };

	staged_open(&staged);
	link = staged.rank.link;
	while (link->ops->send(link, &tag, bytes, sizeof(bytes)))
		;
	staged_reset(&staged);
	AWAIT(link->error, rank_advance(&staged.rank));
	cr_assert_eq(link->error, RONDO_BROKEN);
	cr_assert_str_eq(link->reason, "reset the connection");
	cr_assert(!link->ops->send(link, &tag, bytes, 1));
	staged_close(&staged);
}

Test(tcp, bytes_that_are_no_message_are_an_error, .timeout = 60)
{
	unsigned char bytes[2000], into[8192];
	struct rd_message message;
	struct staged staged;

	for (int wrong = 0; wrong < 6; wrong++) {
		size_t size = fake_message(bytes, wrong == 0, 1, 100);

		if (wrong == 1)
			bytes[7] ^= 1;
		if (wrong == 2)
			memcpy(bytes, &(uint32_t){ PIECE + 1 }, 4);
		if (wrong == 3)
			memset(bytes, 0xff, size);
		if (wrong == 4)
			memset(bytes, 0, size);
		if (wrong == 5)
			memcpy(bytes, "GET / HTTP/1.1\r\n", 16);
		for (int expected = 0; expected < 2; expected++) {
			staged_open(&staged);
			fake_write(staged.fd, bytes, size);
			AWAIT(staged.rank.link->error,
				cr_assert(!staged.rank.link->ops->recv(staged.rank.link,
					expected ? into : NULL, sizeof(into), &message)));
			staged_fails(&staged, RONDO_PROTOCOL, "sent bytes that are no message");
			staged_close(&staged);
		}
	}
}

Test(tcp, descriptors_close_on_exec_and_none_is_left, .timeout = 60)
{
	int before = contract_open_files();
	struct pair pair;
	struct staged staged;

	pair_open(&pair, "127.0.0.1");
	for (int fd = 3; fd < 256; fd++) {
		struct sockaddr_storage address;
		socklen_t size = sizeof(address);

		if (getsockname(fd, (struct sockaddr *)&address, &size) == 0 &&
			address.ss_family == AF_INET)
			cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC, "descriptor %d", fd);
	}
	pair_close(&pair);
	staged_open(&staged);
	close(fake_connect(&staged.rank));
	staged_close(&staged);
	cr_assert_eq(contract_open_files(), before);
}
