/*
 * The card and the hello of tcp. Cards travel through the rendezvous; a hello is the first message
 * on a connection. tcp.c describes their place in the wire format.
 */
#ifndef RD_TCP_CARD_H
#define RD_TCP_CARD_H

#include <sys/socket.h>

#include "topo/place.h"
#include "rondo/transport.h"
#include "base/settings.h"

#define RD_TCP_VERSION 8
#define RD_TCP_CHANNELS_MAX 64
#define RD_TCP_ADDRESSES_MAX 8
#define RD_TCP_HELLO_MAGIC 0x68646f72u /* "rodh": RD_HELLO_FIRST (bootstrap/listener.h) */

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
	uint8_t shared; /* the first `shared` carry channels; the others are in reserve */
	uint64_t host; /* a hash of the host's id: ranks of one host send plain messages */
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
	uint8_t key[RD_COMM_KEY_SIZE];
};

/* Initialise a card without addresses, for a rank at this place; add one address to it. */
void rd_tcp_card_init(struct rd_tcp_card *card, const struct rd_place *place);
void rd_tcp_card_add(struct rd_tcp_card *card, const struct sockaddr_storage *address);

/* Checks bytes that came over the network: RONDO_PROTOCOL, with a reason, if they are no card. */
int rd_tcp_card_read(struct rd_tcp_card *card, const unsigned char *bytes, size_t size, int peer);

/* interface: the name of the interface, for an address that is valid on one link only. */
void rd_tcp_card_address(const struct rd_tcp_card *card, int index, const char *interface,
	struct sockaddr_storage *address);

/* Whether it may be a hello, of any comm. */
bool rd_tcp_hello_valid(const struct rd_tcp_hello *hello);
/* Whether a valid one is from a rank of this comm to this one, with the comm's key. */
bool rd_tcp_hello_fits(const struct rd_tcp_hello *hello, const struct rd_local *local);
/* Whether two are the same. The time taken reveals nothing about the key, here and there. */
bool rd_tcp_hello_same(const struct rd_tcp_hello *a, const struct rd_tcp_hello *b);

#endif
