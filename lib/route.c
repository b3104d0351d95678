/* Which transport carries each pair of ranks, and the links themselves. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "comm.h"
#include "error.h"
#include "log.h"
#include "transports/transports.h"

/* Whether a name stands in a list with commas; an empty list holds every name. */
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
static int check_names(const char *list)
{
	char text[RD_STRING_MAX], known[128] = "", *rest = NULL;

	for (int i = 0; rd_transports[i]; i++) {
		strncat(known, i ? ", " : "", sizeof(known) - strlen(known) - 1);
		strncat(known, rd_transports[i]->name, sizeof(known) - strlen(known) - 1);
	}
	strncpy(text, list, sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (char *name = strtok_r(text, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
		if (!rd_transport_find(name))
			return rd_fail(RONDO_SETTING,
				"RONDO_TRANSPORT names \"%s\", which is no transport: choose among "
				"%s",
				name, known);
	return 0;
}

static int listen_on(
	struct rondo_comm *comm, const struct rd_transport *transport, struct rd_card *card)
{
	size_t size = 0;
	int err = transport->probe ? transport->probe(&comm->settings) : 0;

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
	int err = check_names(comm->settings.transport), last = 0;

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

static const struct rd_card *card_of(
	const struct rd_member *member, const struct rd_transport *transport)
{
	for (int i = 0; i < RD_TRANSPORTS_MAX; i++)
		if (strcmp(member->cards[i].transport, transport->name) == 0)
			return &member->cards[i];
	return NULL;
}

/* Both sides of a pair ask the same question, from the lower rank to the higher, so they agree. */
static struct rd_endpoint *cheapest(
	const struct rondo_comm *comm, const struct rd_member *members, int peer)
{
	const struct rd_place *low = &members[peer < comm->rank ? peer : comm->rank].place;
	const struct rd_place *high = &members[peer < comm->rank ? comm->rank : peer].place;
	struct rd_endpoint *best = NULL;
	int best_cost = 0;

	for (int i = 0; i < comm->endpoint_count; i++) {
		struct rd_endpoint *endpoint = comm->endpoints[i];
		int cost = endpoint->transport->reach(low, high);

		if (cost < 0 || !card_of(&members[peer], endpoint->transport))
			continue;
		if (!best || cost < best_cost) {
			best = endpoint;
			best_cost = cost;
		}
	}
	return best;
}

static int open_links(struct rondo_comm *comm, const struct rd_member *members, int peer)
{
	struct rd_endpoint *endpoint = cheapest(comm, members, peer);

	if (!endpoint)
		return rd_fail(RONDO_UNREACHABLE,
			"no transport reaches from rank %d (host %s) to rank %d (host %s): "
			"RONDO_TRANSPORT is \"%s\" on rank %d",
			comm->rank, members[comm->rank].place.host_name, peer,
			members[peer].place.host_name, comm->settings.transport, comm->rank);

	const struct rd_card *card = card_of(&members[peer], endpoint->transport);

	for (int channel = 0; channel < comm->channels; channel++) {
		struct rd_link **link = &comm->links[peer * comm->channels + channel];
		int err = endpoint->transport->open(
			endpoint, peer, channel, card->bytes, card->size, link);

		if (err)
			return rd_fail(err, "rank %d cannot open a link to rank %d over %s: %s",
				comm->rank, peer, endpoint->transport->name, rondo_last_error());
		rd_log(RD_INFO, RD_ROUTE, "Channel %02d : %d[%lld] -> %d[%lld] via %s", channel,
			comm->rank, (long long)members[comm->rank].place.pid, peer,
			(long long)members[peer].place.pid, endpoint->transport->name);
	}
	return 0;
}

/* 1: all links are ready; 0: not yet; negative: one failed, and *culprit is its peer. */
static int all_ready(const struct rondo_comm *comm, int *culprit)
{
	int ready = 1;

	for (int i = 0; i < comm->size * comm->channels; i++) {
		const struct rd_link *link = comm->links[i];

		if (link && link->error) {
			*culprit = link->peer;
			return rd_fail(link->error, "rank %d cannot connect to rank %d over %s: %s",
				comm->rank, link->peer, link->transport->name, link->story);
		}
		if (link && !link->ready) {
			*culprit = link->peer;
			ready = 0;
		}
	}
	return ready;
}

static int wait_until_ready(struct rondo_comm *comm, int *culprit)
{
	int64_t deadline = rd_clock_ms() + comm->settings.init_timeout_ms;

	for (;;) {
		bool moved = rd_comm_advance(comm);
		int ready = all_ready(comm, culprit);

		if (ready)
			return ready < 0 ? ready : 0;
		if (atomic_load(&comm->failed))
			return rd_comm_failure(comm);

		int64_t left = deadline - rd_clock_ms();

		if (left <= 0)
			return rd_fail(RONDO_TIMEOUT,
				"rank %d waited %d ms for its link to rank %d", comm->rank,
				comm->settings.init_timeout_ms, *culprit);
		if (moved)
			continue;
		rd_comm_arm(comm);
		if (!rd_comm_advance(comm))
			rd_comm_sleep(comm, (int)left);
		rd_comm_disarm(comm);
	}
}

int rd_route_connect(struct rondo_comm *comm, const struct rd_member *members)
{
	int culprit = -1;
	int err = 0;

	for (int peer = 0; peer < comm->size && !err; peer++) {
		if (peer == comm->rank)
			continue;
		culprit = peer;
		err = open_links(comm, members, peer);
	}
	if (!err)
		err = wait_until_ready(comm, &culprit);
	if (err)
		return rd_comm_fail(comm, err, culprit);
	for (int i = 0; i < comm->size * comm->channels; i++)
		if (comm->links[i] && comm->links[i]->message_max < comm->piece_size)
			comm->piece_size = comm->links[i]->message_max;
	return 0;
}

void rd_route_close(struct rondo_comm *comm)
{
	for (int i = 0; i < comm->endpoint_count; i++)
		comm->endpoints[i]->transport->close(comm->endpoints[i]);
	comm->endpoint_count = 0;
	free(comm->links);
	comm->links = NULL;
}
