/* tcp between hosts of a job with a secret: who gets in, and what crosses the network. */
#include <criterion/criterion.h>
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "secure/tls.h"
#include "tcp/fakes.h"

static void load(void)
{
	if (rd_tls_load())
		cr_skip("%s", rondo_last_error());
}

TestSuite(tcp_secure, .init = load, .timeout = 60);

/* Ranks 0 and 1, each on a host of its own, with these keys. */
static void listen_apart(struct pair *pair, const char *key_of_0, const char *key_of_1, int encrypt)
{
	struct rank *ranks[2] = { &pair->zero, &pair->one };
	const char *const keys[2] = { key_of_0, key_of_1 };

	for (int i = 0; i < 2; i++)
		cr_assert_eq(rank_listen_secured(ranks[i], i, "127.0.0.1", i ? "host1" : "host0",
				     keys[i], encrypt),
			0);
}

static void open_both(struct pair *pair)
{
	rank_open(&pair->zero, 1, pair->one.card, pair->one.card_size);
	rank_open(&pair->one, 0, pair->zero.card, pair->zero.card_size);
}

static void exchange(struct pair *pair)
{
	AWAIT(pair->zero.link->ready && pair->one.link->ready, pair_advance(pair));
	cr_assert(try_send(pair->zero.link, 1, 1000));
	cr_assert(try_send(pair->one.link, 2, PIECE));
	rank_recv(&pair->one, 1, 1000, NULL, 0);
	rank_recv(&pair->zero, 2, PIECE, NULL, 0);
}

Test(tcp_secure, ranks_with_the_secret_exchange_messages)
{
	struct pair pair;

	for (int encrypt = 0; encrypt < 2; encrypt++) {
		listen_apart(&pair, "one key", "one key", encrypt);
		open_both(&pair);
		exchange(&pair);
		pair_close(&pair);
	}
}

Test(tcp_secure, a_connection_that_comes_before_open_waits_for_it)
{
	struct pair pair;

	listen_apart(&pair, "one key", "one key", 1);
	rank_open(&pair.one, 0, pair.zero.card, pair.zero.card_size);
	for (int i = 0; i < 1000; i++)
		pair_advance(&pair);
	cr_assert(!pair.one.link->ready && !pair.one.link->error, "%s", pair.one.link->reason);
	rank_open(&pair.zero, 1, pair.one.card, pair.one.card_size);
	exchange(&pair);
	pair_close(&pair);
}

Test(tcp_secure, ranks_of_different_secrets_do_not_connect)
{
	struct pair pair;

	listen_apart(&pair, "one key", "another key", 1);
	open_both(&pair);
	AWAIT(pair.one.link->error, pair_advance(&pair));
	cr_expect_eq(pair.one.link->error, RONDO_UNREACHABLE);
	cr_expect(strstr(pair.one.link->reason, "does not have the job's secret at 127.0.0.1:"),
		"%s", pair.one.link->reason);
	cr_expect(!pair.zero.link->ready);
	pair_close(&pair);
}

/* The key of the card is not enough: it may have been read on the way. */
Test(tcp_secure, a_right_hello_without_the_proof_is_refused)
{
	struct pair pair;
	struct hello hello;
	int fd;

	listen_apart(&pair, "one key", "one key", 1);
	rank_open(&pair.zero, 1, pair.one.card, pair.one.card_size);
	hello = fake_hello(&pair.zero, 1);
	fd = fake_connect(&pair.zero);
	fake_write(fd, &hello, sizeof(hello));
	fake_is_rejected(fd, &pair.zero);
	cr_expect(!pair.zero.link->ready && !pair.zero.link->error);
	close(fd);
	pair_close(&pair);
}

/* Carries bytes between two sockets, and looks for a text in them. */
struct wiretap {
	int listener, ends[2];
	bool found;
};

static void tap_bytes(struct wiretap *tap, int from, int to, const char *text)
{
	char bytes[65536];
	ssize_t size = recv(from, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (size <= 0)
		return;
	tap->found |= memmem(bytes, (size_t)size, text, strlen(text)) != NULL;
	fake_write(to, bytes, (size_t)size);
}

static void tap_advance(struct wiretap *tap, struct pair *pair, const char *text)
{
	struct pollfd caller = { .fd = tap->listener, .events = POLLIN };

	pair_advance(pair);
	if (tap->ends[0] < 0 && poll(&caller, 1, 0) == 1) {
		tap->ends[0] = accept(tap->listener, NULL, NULL);
		tap->ends[1] = fake_connect(&pair->zero);
	}
	if (tap->ends[0] < 0)
		return;
	tap_bytes(tap, tap->ends[0], tap->ends[1], text);
	tap_bytes(tap, tap->ends[1], tap->ends[0], text);
}

/* Returns whether a text in a message of rank 1 can be read on the network. */
static bool is_overheard(int encrypt)
{
	static const char text[] = "a text of which an eavesdropper would know each byte";
	struct wiretap tap = { .listener = fake_bind(), .ends = { -1, -1 } };
	struct rd_message message = { 0 };
	struct rd_tag tag = { 0 };
	struct pair pair;
	struct card card;

	cr_assert_eq(listen(tap.listener, 8), 0);
	listen_apart(&pair, "one key", "one key", encrypt);
	card = card_of(&pair.zero);
	card.port = ntohs(fake_address(tap.listener).sin_port);
	rank_open(&pair.zero, 1, pair.one.card, pair.one.card_size);
	rank_open(&pair.one, 0, &card, sizeof(card));
	AWAIT(pair.zero.link->ready && pair.one.link->ready, tap_advance(&tap, &pair, text));
	cr_assert(pair.one.link->ops->send(pair.one.link, &tag, text, sizeof(text)));
	AWAIT(pair.zero.link->ops->recv(pair.zero.link, NULL, sizeof(text), &message),
		tap_advance(&tap, &pair, text));
	cr_expect_str_eq(message.data, text);
	pair.zero.link->ops->release(pair.zero.link);
	pair_close(&pair);
	close(tap.listener);
	close(tap.ends[0]);
	close(tap.ends[1]);
	return tap.found;
}

Test(tcp_secure, messages_cannot_be_read_on_the_network)
{
	cr_expect_not(is_overheard(1));
	cr_expect(is_overheard(0), "the test hears nothing");
}
