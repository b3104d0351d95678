/* Fakes: plain sockets in the place of a peer of the tcp transport. Failed calls fail the test. */
#ifndef TCP_FAKES_H
#define TCP_FAKES_H

#include <netinet/in.h>

#include "ranks.h"

/* The wire format. It is written here a second time, so that a test sees when it changes. */
struct card {
	uint32_t magic;
	uint16_t version;
	uint8_t count, shared;
	uint64_t host;
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
/* An IPv4 socket, which the caller closes, as those of fake_bind() and fake_connect(). */
int fake_socket(void);
/* The socket's own address. */
struct sockaddr_in fake_address(int fd);
/* The endpoint's descriptor of its connection with the fake. The endpoint owns it. */
int fake_peer(int fake);
/* A socket that is bound to a port and does not listen yet: connections are refused. */
int fake_bind(void);
/* A connection to the first address on the rank's card. */
int fake_connect(const struct rank *to);
/* A card with the fake's address. */
struct card fake_card(int fd);
/* The valid first message of rank `from` to this rank. */
struct hello fake_hello(const struct rank *to, int from);
void fake_write(int fd, const void *bytes, size_t size);
/* Receives `size` bytes, and advances the rank meanwhile. */
void fake_read(int fd, struct rank *rank, void *bytes, size_t size);
/* Asserts that the endpoint closes the connection, with or without a reset, and sends no byte. */
void fake_is_rejected(int fd, struct rank *rank);
/* Writes header and payload of a message into bytes. Returns the size of both. */
size_t fake_message(unsigned char *bytes, unsigned number, unsigned key, size_t size);

/* A connection between an endpoint, rank 0, and a fake, rank 1. */
struct staged {
	struct rank rank;
	int listener, fd; /* the fake's; fd is connected */
};

void staged_open(struct staged *staged);
void staged_close(struct staged *staged);
/* Asserts that calls of advance() alone fail the link with this error and reason. */
void staged_fails(struct staged *staged, int error, const char *reason);
/* The same with calls of recv(). */
void staged_recv_fails(struct staged *staged, int error, const char *reason);
/* Closes the fake's connection with a reset. */
void staged_reset(struct staged *staged);

#endif
