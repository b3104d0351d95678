/*
 * Traffic of the contract suite: message `key` of a link. Its size, tag and every byte follow from
 * the key, so that the receiver can check them. Sizes are bytes.
 */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include "transports/contract/fixture.h"

/* Fills memory with the bytes of message `key`. */
void fill_bytes(unsigned char *bytes, size_t size, uint64_t key);
/* Returns how many bytes are right, to the nearest 256 below the first wrong one; size: all are. */
size_t intact(const void *message, size_t size, uint64_t key);
struct rd_tag tag_of(uint64_t key);
/* Returns a size for message `key`, up to `most`. About half are at most 100. */
size_t size_of(uint64_t key, size_t most);

/* Sends a message by reserve() and commit(). False: no room now. */
bool try_send(struct rd_link *link, uint64_t key, size_t size);
/* As try_send(), but waits for room. */
bool send_message(struct fixture *fixture, struct rd_link *link, uint64_t key, size_t size);
/* Checks size, tag and bytes of message `key`. */
bool verify_message(
	struct fixture *fixture, const struct rd_message *message, uint64_t key, size_t size);
/* Waits for message `key`, checks it and releases it. */
bool recv_message(struct fixture *fixture, struct rd_link *link, uint64_t key, size_t size);
/* As recv_message(), without waiting. False: not here, or wrong: see failed(). */
bool try_recv(struct fixture *fixture, struct rd_link *link, uint64_t key, size_t size);
/* Waits for the failure of the link, which must be RONDO_BROKEN with a reason. No message may
   come. */
bool until_broken(struct fixture *fixture, struct rd_link *link, uint64_t wait_ms);

/* Waits for the next message, as recv() returns it. */
bool await_message(struct fixture *fixture, struct rd_link *link, void *into, size_t size,
	struct rd_message *message);

/* Sends until the link is full; returns the next key. A link that never fills is a failure. */
uint64_t flood(struct fixture *fixture, struct rd_link *link, uint64_t key, size_t size);

/* Sends and takes `count` messages, in bursts of changing length. */
void run_bursts(struct ends *ends, uint64_t count);

#endif
