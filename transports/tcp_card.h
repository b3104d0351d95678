/*
 * The bytes by which tcp ranks meet: the card, which travels by the rendezvous, and the hello, the
 * first thing said on a connection. Where they stand in the wire format is told in tcp.c.
 */
#ifndef RD_TCP_CARD_H
#define RD_TCP_CARD_H

#include <sys/socket.h>

#include "topo/place.h"
#include "rondo/transport.h"
#include "base/settings.h"

#define RD_TCP_VERSION 2
#define RD_TCP_KEY_SIZE 16
#define RD_TCP_CHANNELS_MAX 64
#define RD_TCP_ADDRESSES_MAX 8
#define RD_TCP_HELLO_MAGIC 0x68646f72u /* "rodh" */

struct rd_tcp_address {
	uint16_t family; /* 4 or 6 */
	uint16_t port;
	uint32_t zero;
	uint8_t bytes[16]; /* IPv4: the first four */
};

struct rd_tcp_card {
	uint32_t magic;
	uint16_t version;
	uint8_t count; /* of addresses; the others are all zero */
	uint8_t shared; /* the first so many, over which channels are spread */
	uint8_t key[RD_TCP_KEY_SIZE];
	struct rd_tcp_address at[RD_TCP_ADDRESSES_MAX];
};

struct rd_tcp_hello {
	uint32_t magic;
	uint16_t version;
	uint16_t stripe;
	int32_t from, to;
	int32_t channel;
	uint32_t zero;
	uint64_t comm_id;
	uint8_t key[RD_TCP_KEY_SIZE]; /* of the card of `to` */
};

/* A card without addresses or a key, and one address more for it. */
void rd_tcp_card_init(struct rd_tcp_card *card);
void rd_tcp_card_add(struct rd_tcp_card *card, const struct sockaddr_storage *address);

/* Checks what came over a wire: RONDO_PROTOCOL, with a reason, where it is no card. */
int rd_tcp_card_read(struct rd_tcp_card *card, const unsigned char *bytes, size_t size, int peer);

/* interface: a name, for an address that means something on one link only. */
void rd_tcp_card_address(const struct rd_tcp_card *card, int index, const char *interface,
	struct sockaddr_storage *address);

/* Can this hello be one, from a rank of this comm to this one, and did its sender know the key of our
   card? channel is at least 0. */
bool rd_tcp_hello_proves(const struct rd_tcp_hello *hello, const uint8_t key[RD_TCP_KEY_SIZE],
	const struct rd_local *local);

#endif
