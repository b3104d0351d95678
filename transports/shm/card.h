/*
 * The card and the greeting of shm. Cards travel through the rendezvous. A greeting is the first
 * packet that each side of a connection sends; shm.c describes the exchange.
 */
#ifndef RD_SHM_CARD_H
#define RD_SHM_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "rondo/transport.h"

#define RD_SHM_NAME_SIZE 8

struct rd_shm_card {
	uint32_t magic, version;
	unsigned char name[RD_SHM_NAME_SIZE];
};

/* The same both ways. */
struct rd_shm_greeting {
	uint32_t magic, version;
	uint64_t comm_id;
	uint32_t from, to;
	uint32_t channels, slots;
	uint64_t piece_size; /* bytes */
	uint32_t barriers; /* 1: the sender has membarrier(2), and calls it before it sleeps */
	uint32_t reserved;
};

/* Draws a card at random. Errors: RONDO_SYSTEM. */
int rd_shm_card_make(struct rd_shm_card *card);

/* Checks bytes that came over the network: RONDO_PROTOCOL, with a reason, if they are no card. */
int rd_shm_card_read(struct rd_shm_card *card, const unsigned char *bytes, size_t size);

/* Writes the socket address of the card's endpoint; returns its length in bytes. */
socklen_t rd_shm_card_address(const struct rd_shm_card *card, struct sockaddr_un *address);

/* Fills in all fields but slots and barriers. */
void rd_shm_greeting_init(struct rd_shm_greeting *greeting, const struct rd_local *local, int to);

/* Returns whether a greeting is valid: to this rank from one of this comm, with equal settings. */
bool rd_shm_greeting_valid(const struct rd_shm_greeting *greeting, const struct rd_local *local);

enum rd_shm_received { RD_SHM_RECEIVED_NOTHING, RD_SHM_RECEIVED_GREETING, RD_SHM_RECEIVED_INVALID };

/*
 * Receives one packet with exactly fd_count descriptors (in fds, which are then the caller's; else
 * -1). The end of the connection is invalid, too. Does not block.
 */
enum rd_shm_received rd_shm_greeting_recv(
	int socket, struct rd_shm_greeting *greeting, int fds[2], size_t fd_count);

#endif
