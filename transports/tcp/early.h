/*
 * Wires with a valid hello that came before their connection begins, or before this rank has their
 * comm: one at most for each hello, and a bounded number. Where one more comes, the oldest whose
 * peer has not proved that it is of this job is closed, else the oldest.
 */
#ifndef RD_TCP_EARLY_H
#define RD_TCP_EARLY_H

#include "bootstrap/listener.h"
#include "transports/tcp/card.h"

struct rd_tcp_early;

struct rd_tcp_early_wires {
	struct rd_tcp_early *first; /* the oldest */
	int count, most;
};

/* Takes over the wire; rejects it where another with this hello is here. known: this
   rank has the comm, and the hello its key. */
void rd_tcp_early_keep(struct rd_tcp_early_wires *wires, struct rd_listener *listener,
	struct rd_wire *wire, const struct rd_tcp_hello *hello, bool known);

/* Hands over the wire with this hello. False: there is none. */
bool rd_tcp_early_take(
	struct rd_tcp_early_wires *wires, const struct rd_tcp_hello *hello, struct rd_wire *wire);

/* This rank uses a comm no more, or none (0): closes its wires. */
void rd_tcp_early_refuse(struct rd_tcp_early_wires *wires, uint64_t comm_id);

#endif
