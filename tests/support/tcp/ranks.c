#include "ranks.h"

#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

bool rank_checksums;

static void rank_fill(struct rank *rank, int number, const char *address)
{
	*rank = (struct rank){ 0 };
	rank->settings.size = 8;
	rank->settings.channels = 1;
	rank->settings.interface = "";
	rank->settings.piece_size = PIECE;
	rank->settings.checksum = rank_checksums;
	strcpy(rank->settings.address, address);
	rank->local.rank = number;
	rank->local.size = 8;
	rank->local.settings = &rank->settings;
	rank->local.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
}

/* As in a comm, which gets its id after its ranks have made cards. */
static int start(struct rank *rank)
{
	int err = rd_transport_tcp.listen(
		&rank->endpoint, &rank->local, rank->card, &rank->card_size);

	rank->local.comm_id = COMM;
	memset(rank->local.key, 7, sizeof(rank->local.key));
	return err;
}

int rank_listen(struct rank *rank, int number, const char *address, const char *interface)
{
	rank_fill(rank, number, address);
	rank->settings.interface = interface;
	return start(rank);
}

int rank_listen_secured(struct rank *rank, int number, const char *address, const char *host,
	const char *key, int encrypt)
{
	rank_fill(rank, number, address);
	strcpy(rank->local.place.host_id, host);
	rank->settings.encrypt = encrypt;
	rank->settings.has_psk = true;
	strcpy((char *)rank->settings.psk, key);
	return start(rank);
}

int rank_listen_shared(struct rank *rank, int number, struct rd_shared *shared)
{
	rank_fill(rank, number, "127.0.0.1");
	rank->local.shared = shared;
	return start(rank);
}

void rank_open(struct rank *rank, int peer, const void *card, size_t card_size)
{
	cr_assert_eq(rd_transport_tcp.open(rank->endpoint, peer, 0, card, card_size, &rank->link),
		0, "%s", rondo_last_error());
}

void rank_advance(struct rank *rank)
{
	rd_transport_tcp.advance(rank->endpoint);
}

void rank_advance_long(struct rank *rank)
{
	for (int i = 0; i < 1000; i++)
		rank_advance(rank);
}

void rank_close(struct rank *rank)
{
	if (rank->endpoint)
		rd_transport_tcp.close(rank->endpoint);
	rank->endpoint = NULL;
	close(rank->local.epoll_fd);
}

void pair_advance(struct pair *pair)
{
	rank_advance(&pair->zero);
	rank_advance(&pair->one);
}

void pair_open_for(struct pair *pair, const char *address, size_t piece_size)
{
	cr_assert_eq(rank_listen(&pair->zero, 0, address, ""), 0, "%s", rondo_last_error());
	cr_assert_eq(rank_listen(&pair->one, 1, address, ""), 0, "%s", rondo_last_error());
	pair->zero.settings.piece_size = pair->one.settings.piece_size = piece_size;
	rank_open(&pair->zero, 1, pair->one.card, pair->one.card_size);
	rank_open(&pair->one, 0, pair->zero.card, pair->zero.card_size);
	AWAIT(pair->zero.link->ready && pair->one.link->ready, pair_advance(pair));
}

void pair_open(struct pair *pair, const char *address)
{
	pair_open_for(pair, address, PIECE);
}

void pair_close(struct pair *pair)
{
	rank_close(&pair->zero);
	rank_close(&pair->one);
}

const void *rank_recv(struct rank *rank, unsigned key, size_t size, void *into, size_t into_size)
{
	struct rd_tag tag = tag_of(key);
	struct rd_message message = { 0 };

	AWAIT(rank->link->ops->recv(rank->link, into, into_size, &message), rank_advance(rank));
	cr_assert_eq(message.size, size, "message %u: %zu bytes, not %zu", key, message.size, size);
	cr_assert(memcmp(message.tag, &tag, sizeof(tag)) == 0, "tag of message %u", key);
	cr_assert(intact(message.data, size, key) == size, "payload of message %u", key);
	cr_assert(message.data == into || (uintptr_t)message.data % 8 == 0);
	rank->link->ops->release(rank->link);
	return message.data;
}

bool rank_has_message(struct rank *rank)
{
	struct rd_message message;

	return rank->link->ops->recv(rank->link, NULL, 0, &message);
}
