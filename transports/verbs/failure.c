#include "transports/verbs/failure.h"

#include <string.h>
#include <sys/socket.h>

#include "transports/verbs/endpoint.h"

struct meaning {
	const char *name, *text;
};

static struct meaning meaning_of(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
		return (struct meaning){ "IBV_WC_RETRY_EXC_ERR",
			"it does not answer: its port or a cable is down, or packets get lost" };
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return (struct meaning){ "IBV_WC_RNR_RETRY_EXC_ERR", "it had no receive posted" };
	case IBV_WC_WR_FLUSH_ERR:
		return (struct meaning){ "IBV_WC_WR_FLUSH_ERR",
			"the queue pair was moved to error" };
	case IBV_WC_REM_ACCESS_ERR:
		return (struct meaning){ "IBV_WC_REM_ACCESS_ERR",
			"its memory is not registered any more" };
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
		return (struct meaning){ "IBV_WC_REM_OP_ERR", "its device refused a write" };
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
		return (struct meaning){ "IBV_WC_LOC_PROT_ERR",
			"memory here is not registered any more" };
	default:
		return (struct meaning){ "", "the device failed" };
	}
}

/* Whether the peer has closed its socket, which explains all else. */
static bool has_ended(const struct rd_verbs_link *link)
{
	char byte;

	return recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void rd_verbs_rail_failed(
	struct rd_verbs_link *link, struct rd_verbs_queue_pair *pair, enum ibv_wc_status status)
{
	const struct rd_verbs_port *port = &pair->rail->port;
	struct meaning meaning = meaning_of(status);

	if (link->base.error || link->hung_up)
		return;
	if (link->fd >= 0 && has_ended(link)) {
		link->hung_up = link->endpoint->hung_up = true;
		return;
	}
	if (pair->error)
		rd_verbs_link_fail(link, RONDO_BROKEN,
			"is out of reach: %s:%d refuses a request: %s", port->device, port->number,
			strerror(pair->error));
	else
		rd_verbs_link_fail(link, RONDO_BROKEN,
			"is out of reach by %s:%d: %s (status %d %s)", port->device, port->number,
			meaning.text, status, meaning.name);
}
