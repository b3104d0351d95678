/*
 * The bytes by which tcp ranks meet: the card, which travels by the rendezvous, and the hello, the
 * first thing said on a connection. Where they stand in the wire format is told in tcp.c.
 */
#ifndef RD_TCP_CARD_H
#define RD_TCP_CARD_H

#include <sys/socket.h>

#include "place.h"
#include "rondo/transport.h"
#include "settings.h"

#define RD_TCP_VERSION 1
#define RD_TCP_KEY_SIZE 16
#define RD_TCP_CHANNELS_MAX 64
#define RD_TCP_HELLO_MAGIC 0x68646f72u /* "rodh" */

struct rd_tcp_card {
	uint32_t magic;
	uint16_t version;
	uint16_t family; /* 4 or 6 */
	uint16_t port;
	uint16_t zero;
	uint8_t address[16]; /* IPv4: the first four */
	uint8_t key[RD_TCP_KEY_SIZE];
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

/* All but the key. */
void rd_tcp_card_fill(struct rd_tcp_card *card, const struct sockaddr_storage *address);

/* Checks what came over a wire: RONDO_PROTOCOL, with a story, where it is no card. */
int rd_tcp_card_read(struct rd_tcp_card *card, const unsigned char *bytes, size_t size, int peer);

/* interface: a name, for an address that means something on one link only. */
void rd_tcp_card_address(
	const struct rd_tcp_card *card, const char *interface, struct sockaddr_storage *address);

/* Can this hello be one, and did its sender know the key? from and channel are at least 0. */
bool rd_tcp_hello_sound(const struct rd_tcp_hello *hello, const uint8_t key[RD_TCP_KEY_SIZE]);

#endif
