#include "transports/tcp/early.h"

#include <stdlib.h>
#include <sys/socket.h>

struct rd_tcp_early {
	struct rd_wire wire;
	struct rd_tcp_hello hello;
	bool proved; /* that its peer is of this job */
	struct rd_tcp_early *next;
};

/* Returns the place of a wire in the list; it holds NULL if there is none. */
static struct rd_tcp_early **find(
	struct rd_tcp_early_wires *wires, const struct rd_tcp_hello *hello)
{
	struct rd_tcp_early **at = &wires->first;

	while (*at && !rd_tcp_hello_same(&(*at)->hello, hello))
		at = &(*at)->next;
	return at;
}

/* Returns the wire, which is the caller's from now on. */
static struct rd_wire take_out(struct rd_tcp_early_wires *wires, struct rd_tcp_early **at)
{
	struct rd_tcp_early *early = *at;
	struct rd_wire wire = early->wire;

	*at = early->next;
	wires->count--;
	free(early);
	return wire;
}

/* Peers may have tried another address since, or given up. */
static void drop_ended(struct rd_tcp_early_wires *wires, struct rd_listener *listener)
{
	for (struct rd_tcp_early **at = &wires->first; *at;)
		if (rd_wire_peek(&(*at)->wire) == 0) {
			struct rd_wire wire = take_out(wires, at);

			rd_listener_reject(listener, &wire, "it left before its link was opened");
		} else {
			at = &(*at)->next;
		}
}

/* By a reset: a peer that gets one tries again. */
static void make_room(struct rd_tcp_early_wires *wires, struct rd_listener *listener)
{
	static const struct linger none = { .l_onoff = 1 };
	struct rd_tcp_early **at = &wires->first;
	struct rd_wire wire;

	while (*at && (*at)->proved)
		at = &(*at)->next;
	wire = take_out(wires, *at ? at : &wires->first);
	setsockopt(wire.fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	rd_listener_reject(listener, &wire, "others need its place");
}

static bool append(struct rd_tcp_early_wires *wires, struct rd_wire *wire,
	const struct rd_tcp_hello *hello, bool known)
{
	struct rd_tcp_early **at = find(wires, hello), *early;

	if (*at)
		return false;
	early = malloc(sizeof(*early));
	if (!early)
		return false;
	*early = (struct rd_tcp_early){ *wire, *hello, known || wire->keyed, NULL };
	*at = early;
	wires->count++;
	return true;
}

void rd_tcp_early_keep(struct rd_tcp_early_wires *wires, struct rd_listener *listener,
	struct rd_wire *wire, const struct rd_tcp_hello *hello, bool known)
{
	drop_ended(wires, listener);
	if (!append(wires, wire, hello, known))
		rd_listener_reject(listener, wire, "it is here already");
	while (wires->count > wires->most)
		make_room(wires, listener);
}

bool rd_tcp_early_take(
	struct rd_tcp_early_wires *wires, const struct rd_tcp_hello *hello, struct rd_wire *wire)
{
	struct rd_tcp_early **at = find(wires, hello);

	if (!*at)
		return false;
	*wire = take_out(wires, at);
	return true;
}

void rd_tcp_early_refuse(struct rd_tcp_early_wires *wires, uint64_t comm_id)
{
	for (struct rd_tcp_early **at = &wires->first; *at;)
		if (!comm_id || (*at)->hello.comm_id == comm_id) {
			struct rd_wire wire = take_out(wires, at);

			rd_wire_close(&wire);
		} else {
			at = &(*at)->next;
		}
}
