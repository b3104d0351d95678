#include "comm/route.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/nearest.h"
#include "comm/registration.h"
#include "transports/transports.h"

/* Whether a list with commas has a name; an empty list has every name. */
static bool listed(const char *list, const char *name)
{
	size_t length = strlen(name);

	if (!*list)
		return true;
	for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (strncmp(at, name, length) == 0 && (at[length] == ',' || !at[length]))
			return true;
	return false;
}

/* Every name in RONDO_TRANSPORT must be one of ours. */
static int check_names(const struct rd_settings *settings)
{
	char text[RD_STRING_MAX], known[128] = "", meant[RD_NEAREST_TEXT], *rest = NULL;

	for (int i = 0; rd_transports[i]; i++) {
		strncat(known, i ? ", " : "", sizeof(known) - strlen(known) - 1);
		strncat(known, rd_transports[i]->name, sizeof(known) - strlen(known) - 1);
	}
	strncpy(text, settings->transport, sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (char *name = strtok_r(text, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
		if (!rd_transport_find(name)) {
			struct rd_nearest nearest = RD_NEAREST(name);

			for (int i = 0; rd_transports[i]; i++)
				rd_nearest_try(&nearest, rd_transports[i]->name);
			return rd_fail(RONDO_SETTING,
				"%s names \"%s\", which is no transport: choose among %s%s",
				rd_settings_source(settings, "RONDO_TRANSPORT"), name, known,
				rd_nearest_text(&nearest, meant));
		}
	return 0;
}

static int listen_on(
	struct rondo_comm *comm, const struct rd_transport *transport, struct rd_card *card)
{
	size_t size = 0;
	int err = transport->probe ? transport->probe(&comm->settings) : 0;

	if (!err && !transport->shares)
		err = rd_comm_make_epoll(comm);
	if (!err)
		err = transport->listen(
			&comm->endpoints[comm->endpoint_count], &comm->local, card->bytes, &size);
	if (err) {
		rd_log(RD_INFO, RD_NET, "transport %s is not used: %s", transport->name,
			rondo_last_error());
		return err;
	}
	comm->endpoint_count++;
	strncpy(card->transport, transport->name, sizeof(card->transport) - 1);
	card->size = (uint16_t)size;
	return 0;
}

int rd_route_listen(struct rondo_comm *comm, struct rd_card cards[RD_TRANSPORTS_MAX])
{
	int err = check_names(&comm->settings), last = 0;

	if (err)
		return err;
	memset(cards, 0, RD_TRANSPORTS_MAX * sizeof(*cards));
	for (int i = 0; rd_transports[i] && comm->endpoint_count < RD_TRANSPORTS_MAX; i++) {
		if (!listed(comm->settings.transport, rd_transports[i]->name))
			continue;
		err = listen_on(comm, rd_transports[i], &cards[comm->endpoint_count]);
		if (err)
			last = err;
	}
	return comm->endpoint_count > 0 ? 0 : last;
}

bool rd_route_card(const struct rondo_comm *comm, int peer, const struct rd_transport *transport,
	struct rd_card *card)
{
	return rd_cards_find(rd_control_cards(comm->control), peer, transport->name, card);
}

/* Between equal costs the first name wins. The order in the table may differ between ranks, because
   a process adds plug-ins as it loads them. */
static bool is_cheaper(const struct rd_endpoint *a, int cost, const struct rd_endpoint *b, int than)
{
	return cost < than || (cost == than && strcmp(a->transport->name, b->transport->name) < 0);
}

/* Both sides of a pair compare the costs from the lower rank to the higher, so they agree. */
struct rd_endpoint *rd_route_cheapest(
	const struct rondo_comm *comm, const struct rd_member *members, int peer, unsigned barred)
{
	const struct rd_place *low = &members[peer < comm->rank ? peer : comm->rank].place;
	const struct rd_place *high = &members[peer < comm->rank ? comm->rank : peer].place;
	struct rd_endpoint *best = NULL;
	int best_cost = 0;

	for (int i = 0; i < comm->endpoint_count; i++) {
		struct rd_endpoint *endpoint = comm->endpoints[i];
		int cost = endpoint->transport->reach(low, high);
		struct rd_card card;

		if (barred >> i & 1 || cost < 0 ||
			!rd_route_card(comm, peer, endpoint->transport, &card))
			continue;
		if (!best || is_cheaper(endpoint, cost, best, best_cost)) {
			best = endpoint;
			best_cost = cost;
		}
	}
	return best;
}

void rd_route_halt(struct rondo_comm *comm)
{
	int failed = atomic_load(&comm->failed);

	if (!failed || comm->halted)
		return;
	comm->halted = true;
	for (int i = 0; comm->links && i < comm->size * comm->channels; i++)
		if (comm->links[i] && !comm->links[i]->error)
			comm->links[i]->error = failed;
	for (int i = 0; i < comm->endpoint_count; i++)
		if (comm->endpoints[i]->transport->halt)
			comm->endpoints[i]->transport->halt(comm->endpoints[i]);
}

void rd_route_close(struct rondo_comm *comm)
{
	rd_registration_leave(comm);
	for (int i = 0; i < comm->endpoint_count; i++)
		comm->endpoints[i]->transport->close(comm->endpoints[i]);
	comm->endpoint_count = 0;
	free(comm->links);
	comm->links = NULL;
}

void rd_route_abandon(struct rondo_comm *comm)
{
	for (int i = 0; i < comm->endpoint_count; i++)
		if (comm->endpoints[i]->transport->abandon)
			comm->endpoints[i]->transport->abandon(comm->endpoints[i]);
	comm->endpoint_count = 0;
	free(comm->links);
	comm->links = NULL;
}
