/*
 * The card of shm, and the packets that pass over a connection. Cards travel through the
 * rendezvous. A hello is the first packet that each side of a connection sends. All others belong
 * to one comm: a greeting is the first of them each way. shm.c describes the exchange.
 */
#ifndef RD_SHM_CARD_H
#define RD_SHM_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "rondo/transport.h"
#include "transports/shm/region.h"

#define RD_SHM_NAME_SIZE 8

struct rd_shm_card {
	uint32_t magic, version;
	unsigned char name[RD_SHM_NAME_SIZE];
	uint32_t number; /* of two stations the one with the higher number connects */
	uint32_t reserved;
};

/* With the sender's eventfd. */
struct rd_shm_hello {
	uint32_t magic, version;
	struct rd_shm_card from;
	unsigned char to[RD_SHM_NAME_SIZE];
	uint32_t barriers; /* 1: the sender has membarrier(2), and calls it before it sleeps */
	uint32_t reserved;
};

/* The same both ways; the higher rank's is the first, and has the memory with it. */
struct rd_shm_greeting {
	uint32_t magic, version;
	uint64_t comm_id;
	uint32_t from, to;
	uint32_t channels, slots;
	uint64_t piece_size; /* bytes */
};

/* The sender's endpoint uses the memory of this comm's pair no more. */
struct rd_shm_end {
	uint32_t magic;
	uint32_t goodbye; /* 1: it closed; 0: it found the pair at fault */
	uint64_t comm_id;
};

union rd_shm_packet {
	struct {
		uint32_t magic, first;
		uint64_t comm_id; /* but in a hello */
	} any;
	struct rd_shm_hello hello;
	struct rd_shm_greeting greeting;
	struct rd_shm_notice notice;
	struct rd_shm_end end;
};

enum rd_shm_kind { RD_SHM_INVALID, RD_SHM_HELLO, RD_SHM_GREETING, RD_SHM_NOTICE, RD_SHM_END };

/* Draws a card at random. Errors: RONDO_SYSTEM. */
int rd_shm_card_make(struct rd_shm_card *card, int number);

/* Checks bytes that came over the network: RONDO_PROTOCOL, with a reason, if they are no card. */
int rd_shm_card_read(struct rd_shm_card *card, const unsigned char *bytes, size_t size);

/* Whether the station of a card connects to the other one's. */
bool rd_shm_card_connects(const struct rd_shm_card *card, const struct rd_shm_card *to);

/* Writes the socket address of the card's station; returns its length in bytes. */
socklen_t rd_shm_card_address(const struct rd_shm_card *card, struct sockaddr_un *address);

/* A packet of `size` bytes came over a connection. */
enum rd_shm_kind rd_shm_packet_kind(const union rd_shm_packet *packet, size_t size);

struct rd_shm_hello rd_shm_hello_to(
	const struct rd_shm_card *from, const struct rd_shm_card *to, bool barriers);
/* Returns whether a hello is valid: to this card, from another. */
bool rd_shm_hello_valid(const struct rd_shm_hello *hello, const struct rd_shm_card *here);

struct rd_shm_greeting rd_shm_greeting_to(const struct rd_local *local, int to, uint32_t slots);
/* Returns whether a greeting is valid: to this rank from one of this comm, with equal settings. */
bool rd_shm_greeting_valid(const struct rd_shm_greeting *greeting, const struct rd_local *local);

struct rd_shm_end rd_shm_end_of(uint64_t comm_id, bool goodbye);

#endif
