#include "transports/tcp/early.h"

#include <stdlib.h>

#include "transports/tcp/connector.h"

struct rd_tcp_early {
	struct rd_wire wire;
	struct rd_tcp_hello hello;
	struct rd_tcp_early *next;
};

/* Returns the place of a wire in the list; it holds NULL if there is none. */
static struct rd_tcp_early **find(struct rd_tcp_connector *connector, int from, int channel)
{
	struct rd_tcp_early **at = &connector->early;

	while (*at && ((*at)->hello.from != from || (*at)->hello.channel != channel))
		at = &(*at)->next;
	return at;
}

/* The peer may have tried another address since: the socket that came first has then ended. */
static void drop_ended(struct rd_tcp_connector *connector, struct rd_tcp_early **at)
{
	struct rd_tcp_early *early = *at;

	if (!early || rd_wire_peek(&early->wire) != 0)
		return;
	*at = early->next;
	rd_door_reject(
		connector->arrivals.door, &early->wire, "it left before its link was opened");
	free(early);
}

void rd_tcp_early_keep(
	struct rd_tcp_connector *connector, struct rd_wire *wire, const struct rd_tcp_hello *hello)
{
	struct rd_tcp_early **at = find(connector, hello->from, hello->channel), *early = NULL;

	drop_ended(connector, at);
	if (!*at)
		early = malloc(sizeof(*early));
	if (!early) {
		rd_door_reject(connector->arrivals.door, wire, "it is here already");
		return;
	}
	*early = (struct rd_tcp_early){ *wire, *hello, connector->early };
	connector->early = early;
}

bool rd_tcp_early_take(struct rd_tcp_connector *connector, int from, int channel,
	struct rd_wire *wire, struct rd_tcp_hello *hello)
{
	struct rd_tcp_early **at = find(connector, from, channel), *early = *at;

	if (!early)
		return false;
	*at = early->next;
	*hello = early->hello;
	*wire = early->wire;
	free(early);
	return true;
}

void rd_tcp_early_close(struct rd_tcp_connector *connector)
{
	while (connector->early) {
		struct rd_tcp_early *early = connector->early;

		connector->early = early->next;
		rd_wire_close(&early->wire);
		free(early);
	}
}
