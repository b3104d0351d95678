/* Cases: invalid cards, other comms, and processes that are no ranks. */
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transports/contract/fixture.h"
#include "transports/contract/suite.h"
#include "transports/contract/traffic.h"

/* Advances long enough, on one machine, for anything that should not happen. Yields seldom: on a
   busy core, each yield takes milliseconds. */
static void advance_much(struct fixture *fixture)
{
	for (int i = 0; i < 500 && !failed(fixture); i++) {
		fixture_advance_all(fixture);
		if (i % 100 == 99)
			sched_yield();
	}
}

/* A card of a wrong size is refused. */
static void refuse_card(struct fixture *fixture, const unsigned char *card, size_t card_size)
{
	struct rd_link *link = NULL;
	int err = fixture->transport->open(fixture->endpoint, 0, 0, card, card_size, &link);

	ok(fixture, err < 0, "a card of %zu bytes was taken: open returned %d", card_size, err);
}

/* One endpoint refuses them all, and goes on. */
static void refuse_sizes(const char *transport, const unsigned char *card, size_t card_size)
{
	struct shared *shared = shared_create();
	struct fixture fixture;

	if (fixture_listen(&fixture, shared, transport, 1, &shape_small)) {
		for (size_t size = 0; size < card_size && !failed(&fixture); size++)
			refuse_card(&fixture, card, size);
		refuse_card(&fixture, card, card_size + 1);
		advance_much(&fixture);
	}
	fixture_close(&fixture);
	shared_end(shared);
}

/* A card of the right size may be taken, but makes no link. */
static void try_card(const char *transport, int rank, const unsigned char *card, size_t card_size)
{
	struct shared *shared = shared_create();
	struct fixture fixture;
	struct rd_link *link = NULL;

	if (fixture_listen(&fixture, shared, transport, rank, &shape_small)) {
		int err = fixture.transport->open(
			fixture.endpoint, 1 - rank, 0, card, card_size, &link);

		ok(&fixture, err <= 0, "open returned %d", err);
		advance_much(&fixture);
		ok(&fixture, err != 0 || !link->ready, "a bad card made a link");
	}
	fixture_close(&fixture);
	shared_end(shared);
}

void contract_a_bad_card_is_an_error(const char *transport)
{
	struct shared *shared = shared_create();
	struct fixture fixture;
	unsigned char card[RD_CARD_MAX + 1] = { 0 };

	if (fixture_listen(&fixture, shared, transport, 0, &shape_small)) {
		memcpy(card, fixture.card, fixture.card_size);
		refuse_sizes(transport, card, fixture.card_size);
		for (int rank = 0; rank < 2; rank++) {
			memset(card, 0, sizeof(card));
			try_card(transport, rank, card, fixture.card_size);
			memset(card, 0xff, sizeof(card));
			try_card(transport, rank, card, fixture.card_size);
		}
	}
	fixture_close(&fixture);
	shared_end(shared);
}

/* The peer closes before this rank opens the link; with `opened`, after it opened its own. */
static void lose_early(const char *transport, int rank, bool opened)
{
	struct shared *shared = shared_create();
	struct fixture here, there;
	int peer = 1 - rank;

	if (fixture_listen(&here, shared, transport, rank, &shape_small) &&
		fixture_listen(&there, shared, transport, peer, &shape_small)) {
		if (opened)
			fixture_open(&there, rank, here.card, here.card_size);
		fixture_close(&there);
		if (fixture_open(&here, peer, there.card, there.card_size)) {
			advance_much(&here);
			ok(&here, !here.links[peer][0]->ready || here.links[peer][0]->error,
				"a link to nobody is ready");
		}
	}
	fixture_close(&here);
	shared_end(shared);
}

void contract_a_peer_that_left_before_the_link_was_ready_does_no_harm(const char *transport)
{
	for (int rank = 0; rank < 2; rank++) {
		lose_early(transport, rank, false);
		lose_early(transport, rank, true);
	}
}

void contract_another_comm_is_kept_out(const char *transport)
{
	struct shared *shared = shared_create();
	struct fixture fixtures[2] = { 0 };

	for (int rank = 0; rank < 2; rank++) {
		struct shape shape = shape_small;

		shape.comm_id = 100 + (uint64_t)rank;
		fixture_listen(&fixtures[rank], shared, transport, rank, &shape);
		fixtures[rank].all = fixtures;
		fixtures[rank].all_count = 2;
	}
	for (int rank = 0; rank < 2 && !failed(fixtures); rank++)
		fixture_open(&fixtures[rank], 1 - rank, fixtures[1 - rank].card,
			fixtures[1 - rank].card_size);
	if (!failed(fixtures)) {
		advance_much(fixtures);
		ok(fixtures, !fixtures[0].links[1][0]->ready && !fixtures[1].links[0][0]->ready,
			"a link between two comms is ready");
	}
	fixtures_close(fixtures);
	shared_end(shared);
}

#define STRANGERS 60

struct strangers {
	int sockets[STRANGERS];
	int count;
};

/* In turn: sends nothing, shuts down, sends a few bytes, sends many. */
static void stranger_send(struct strangers *strangers, int socket)
{
	static const char noise[8192] = "GET / HTTP/1.1\r\nHost: rondo\r\n\r\n";
	int what = strangers->count % 4;

	strangers->sockets[strangers->count++] = socket;
	if (what == 1)
		shutdown(socket, SHUT_RDWR);
	else if (what > 1)
		send(socket, noise, what == 2 ? 10 : sizeof(noise), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void strangers_come(struct strangers *strangers, int listener, int how_many)
{
	struct sockaddr_storage address;
	socklen_t size = sizeof(address), type_size = sizeof(int);
	int type = 0;

	if (getsockname(listener, (struct sockaddr *)&address, &size) ||
		getsockopt(listener, SOL_SOCKET, SO_TYPE, &type, &type_size))
		return;
	for (int i = 0; i < how_many && strangers->count < STRANGERS; i++) {
		int stranger = socket(address.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

		connect(stranger, (struct sockaddr *)&address, size);
		stranger_send(strangers, stranger);
	}
}

/* All listening sockets of this process belong to the transport. */
static void strangers_come_to_all(struct strangers *strangers, int how_many)
{
	for (int fd = 3; fd < 256; fd++) {
		int listens = 0;
		socklen_t size = sizeof(listens);

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens)
			strangers_come(strangers, fd, how_many);
	}
}

void contract_strangers_do_not_get_in_the_way(const char *transport)
{
	struct shared *shared = shared_create();
	struct strangers strangers = { .count = 0 };
	struct fixture fixtures[2] = { 0 };
	bool valid = true;

	for (int rank = 0; rank < 2 && valid; rank++) {
		valid = fixture_listen(&fixtures[rank], shared, transport, rank, &shape_small);
		fixtures[rank].all = fixtures;
		fixtures[rank].all_count = 2;
	}
	strangers_come_to_all(&strangers, 20);
	for (int rank = 0; rank < 2 && valid; rank++)
		valid = fixture_open(&fixtures[rank], 1 - rank, fixtures[1 - rank].card,
			fixtures[1 - rank].card_size);
	if (valid && fixture_until_ready(fixtures)) {
		size_t size = fixture_fit(fixtures, 100);

		strangers_come_to_all(&strangers, 10);
		for (uint64_t key = 0; key < 100; key++)
			if (!send_message(fixtures, fixtures[0].links[1][0], key, size) ||
				!recv_message(fixtures, fixtures[1].links[0][0], key, size))
				break;
	}
	fixtures_close(fixtures);
	for (int i = 0; i < strangers.count; i++)
		close(strangers.sockets[i]);
	shared_end(shared);
}
