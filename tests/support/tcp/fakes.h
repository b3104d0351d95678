/*
 * Fakes: plain sockets that play a peer of tcp, byte by byte if need be.
 */
#ifndef TCP_FAKES_H
#define TCP_FAKES_H

#include <netinet/in.h>

#include "ranks.h"

/* The wire format, spelled out once more: these are the bytes that tcp.c describes. */
struct card {
	uint32_t magic;
	uint16_t version;
	uint8_t count, shared, key[16];
	uint16_t family, port; /* of the first address */
	uint32_t zero;
	uint8_t address[16];
	struct {
		uint16_t family, port;
		uint32_t zero;
		uint8_t address[16];
	} more[7];
};

struct hello {
	uint32_t magic;
	uint16_t version, stripe;
	int32_t from, to, channel;
	uint32_t zero;
	uint64_t comm_id;
	uint8_t key[16];
};

struct header {
	uint32_t size, check;
	struct rd_tag tag;
};

/* The card that the rank made for its peers. */
struct card card_of(const struct rank *rank);
int fake_socket(void);
struct sockaddr_in fake_address(int fd);
/* The other end of the fake's connection, which the endpoint holds. */
int fake_peer(int fake);
/* A socket that is bound and does not listen (yet): its port is refused. */
int fake_bind(void);
int fake_connect(const struct rank *to);
/* A card that leads to the fake's port, with a key of sevens. */
struct card fake_card(int fd);
struct hello fake_hello(const struct rank *to, int from);
void fake_write(int fd, const void *bytes, size_t size);
void fake_read(int fd, struct rank *rank, void *bytes, size_t size);
/* The endpoint closes the fake's connection, with or without a reset, and tells it nothing. */
void fake_is_rejected(int fd, struct rank *rank);
/* Message number `number` on its wire, header and payload, into bytes; returns its size there. */
size_t fake_message(unsigned char *bytes, unsigned number, unsigned key, size_t size);

/* Rank 0 is real, rank 1 is the fake, and they are connected. */
struct staged {
	struct rank rank;
	int listener, fd;
};

void staged_open(struct staged *staged);
void staged_close(struct staged *staged);
/* Asserts how the link fails, from advance() alone. */
void staged_fails(struct staged *staged, int error, const char *reason);
/* The same, while the layer above waits for a message. */
void staged_recv_fails(struct staged *staged, int error, const char *reason);
/* The fake vanishes with a reset. */
void staged_reset(struct staged *staged);

#endif
