/*
 * The socket at which rank 0 accepts the other ranks.
 */
#ifndef RUN_RENDEZVOUS_H
#define RUN_RENDEZVOUS_H

#include <stdbool.h>

#include "run/world.h"

/*
 * Listens at the world's rondo_port before any rank starts: no other program can take the port, and
 * no rank connects too early. Sets both ports of the world where they were 0; `port` is free then.
 *
 * *fd is -1 where the address is not this node's own (a forwarded one): rank 0 listens itself.
 * False, with one line on stderr, where nobody can listen. The caller closes *fd.
 */
bool rendezvous_open(struct world *world, int *fd);

/* Whether the program can listen at the world's port; 0 is free. False, with one line on stderr. */
bool rendezvous_port_is_free(const struct world *world);

#endif
