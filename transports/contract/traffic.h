/*
 * Traffic of the contract suite: message `key` of a link. Its size, tag and every byte follow from
 * the key, so that the receiver can check them. Sizes are bytes.
 */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include "transports/contract/fixture.h"

void fill(unsigned char *bytes, size_t size, uint64_t key);
/* How many bytes of it are right before the first that may not be; size: all are. */
size_t intact(const void *message, size_t size, uint64_t key);
struct rd_tag tag_of(uint64_t key);
/* A size for message `key`, up to `most`, with the small ones as likely as the large. */
size_t size_of(uint64_t key, size_t most);

/* Sends by reserve and commit; false: no room now. */
bool offer(struct rd_link *link, uint64_t key, size_t size);
/* The same, and waits for room. */
bool put(struct fixture *fixture, struct rd_link *link, uint64_t key, size_t size);
/* Is this the message `key`, of this size, to the last byte? */
bool check(struct fixture *fixture, const struct rd_message *message, uint64_t key, size_t size);
/* Waits for message `key`, checks and releases it. */
bool take(struct fixture *fixture, struct rd_link *link, uint64_t key, size_t size);
/* Takes it if it is here. Also false when it is, and is wrong: see failed(). */
bool accept_one(struct fixture *fixture, struct rd_link *link, uint64_t key, size_t size);
/* Reads nothing more from the link until it fails; must be RONDO_BROKEN, with a reason. */
bool until_broken(struct fixture *fixture, struct rd_link *link, uint64_t wait_ms);

/* Waits for the next message, as recv() returns it. */
bool await_message(struct fixture *fixture, struct rd_link *link, void *into, size_t size,
	struct rd_message *message);

/* Sends until there is no more room: returns the next key. A link that never fills is a failure. */
uint64_t flood(struct fixture *fixture, struct rd_link *link, uint64_t key, size_t size);

/* Sends and takes `count` messages: bursts of changing length, taken in gulps of changing length. */
void run_bursts(struct ends *ends, uint64_t count);

#endif
