#include "transports/verbs/failover.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "transports/verbs/endpoint.h"
#include "transports/verbs/messages.h"
#include "transports/verbs/resume.h"
#include "transports/verbs/status.h"

#define REASON_MAX 120

/* ---- Resuming ------------------------------------------------------------------------------ */

static void repeat_messages(struct rd_verbs_link *link)
{
	const struct rd_verbs_output *out = &link->out;
	struct rd_verbs_counts counts;

	if (!rd_verbs_resume_decode(link->peer_resume, out->count, out->released, &counts)) {
		rd_verbs_link_fail(link, RONDO_PROTOCOL, "resumed with counts that cannot be");
		return;
	}
	link->paused = false;
	rd_verbs_messages_repeat(link, counts.arrived, counts.released);
}

static void try_resume(struct rd_verbs_link *link)
{
	if (!link->paused || link->draining || link->base.error)
		return;
	if (!link->resumed) {
		link->resumed = true;
		rd_verbs_resume_send(link);
	}
	if (link->peer_resumed)
		repeat_messages(link);
	if (link->pairs[link->base.rail].error)
		rd_verbs_request_refused(link, &link->pairs[link->base.rail]);
}

void rd_verbs_resume_arrived(
	struct rd_verbs_link *link, struct rd_verbs_queue_pair *pair, uint32_t immediate)
{
	int rail = (int)(pair - link->pairs);

	if (pair->dead)
		return; /* this side's resume on a later rail answers it */
	/* A rail does not fail once the peer has closed its socket: that ends the link. */
	while (link->base.rail != rail && !link->base.error && !link->hung_up)
		rd_verbs_rail_failed(link, link->base.rail, "the peer has given it up");
	if (link->base.error || link->hung_up)
		return;
	if (!link->paused)
		rd_verbs_link_fail(link, RONDO_PROTOCOL, "resumed without a failure");
	link->peer_resumed = true;
	link->peer_resume = immediate;
	try_resume(link);
}

/* ---- Failing ------------------------------------------------------------------------------- */

/* Whether the peer has closed its socket, which explains all else. */
static bool has_ended(struct rd_verbs_link *link)
{
	ssize_t size = 1;

	if (link->wire.fd >= 0)
		size = rd_wire_peek(&link->wire);
	if (size == 0 || (size < 0 && errno == ECONNRESET))
		link->hung_up = link->endpoint->hung_up = true;
	return link->hung_up;
}

static void go_on(struct rd_verbs_link *link, int failed, const char *reason)
{
	const struct rd_verbs_port *from = &link->pairs[failed].rail->port;
	int next = rd_verbs_rail_after(failed, link->connected);

	if (next < 0 || !link->base.ready) {
		rd_verbs_link_fail(link, RONDO_BROKEN, "is out of reach by %s:%d: %s", from->device,
			from->number, reason);
		return;
	}
	rd_log(RD_WARN, RD_NET,
		"NET/IB : rank %d does not reach rank %d by %s:%d (%s), and goes on over %s:%d",
		link->endpoint->local->rank, link->base.peer, from->device, from->number, reason,
		link->pairs[next].rail->port.device, link->pairs[next].rail->port.number);
	link->base.rail = next;
	link->paused = true;
	link->resumed = link->peer_resumed = false;
}

void rd_verbs_rail_failed(struct rd_verbs_link *link, int rail, const char *reason)
{
	struct rd_verbs_queue_pair *pair = &link->pairs[rail];

	if (pair->dead || link->base.error)
		return;
	pair->dead = true;
	link->connected &= ~(1u << rail);
	if (has_ended(link))
		return;
	if (rd_verbs_queue_pair_stop(pair))
		link->draining |= 1u << rail;
	if (rail == link->base.rail || !link->base.ready)
		go_on(link, rail, reason);
	try_resume(link);
}

void rd_verbs_completion_failed(struct rd_verbs_link *link, struct rd_verbs_queue_pair *pair,
	const struct ibv_wc *completion)
{
	struct rd_verbs_status status = rd_verbs_completion_status(completion->status);
	int rail = (int)(pair - link->pairs);
	char reason[REASON_MAX];

	if (!pair->dead) {
		snprintf(reason, sizeof(reason), "%s (%s)", status.meaning, status.name);
		rd_verbs_rail_failed(link, rail, reason);
	}
	/* Receives complete in order: all that succeeded have been counted. */
	if (rd_verbs_is_receive(completion)) {
		link->draining &= ~(1u << rail);
		try_resume(link);
	}
}

void rd_verbs_request_refused(struct rd_verbs_link *link, struct rd_verbs_queue_pair *pair)
{
	char reason[REASON_MAX];

	snprintf(reason, sizeof(reason), "the device refuses a request: %s", strerror(pair->error));
	rd_verbs_rail_failed(link, (int)(pair - link->pairs), reason);
}
