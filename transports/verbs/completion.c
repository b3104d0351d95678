#include "transports/verbs/completion.h"

#include <arpa/inet.h>
#include <stdatomic.h>

#include "transports/verbs/failover.h"
#include "transports/verbs/messages.h"

#define POLL_MOST 16

static void handle_immediate(
	struct rd_verbs_link *link, struct rd_verbs_queue_pair *pair, uint32_t immediate)
{
	if (rd_verbs_is_resume(immediate))
		rd_verbs_resume_arrived(link, pair, immediate);
	else
		rd_verbs_message_arrived(link, (int)(pair - link->pairs), immediate);
}

static void handle(const struct ibv_wc *completion)
{
	struct rd_verbs_queue_pair *pair = rd_verbs_queue_pair_of(completion);
	struct rd_verbs_link *link = pair->owner;

	if (completion->status != IBV_WC_SUCCESS) {
		rd_verbs_completion_failed(link, pair, completion);
		return;
	}
	if (rd_verbs_is_receive(completion)) {
		rd_verbs_queue_pair_received(pair);
		handle_immediate(link, pair, ntohl(completion->imm_data));
	} else {
		rd_verbs_message_done(link, pair);
	}
	if (pair->error)
		rd_verbs_request_refused(link, pair);
}

bool rd_verbs_rail_poll(struct rd_verbs_rail *rail)
{
	struct ibv_wc completions[POLL_MOST];
	bool some = false;
	int count;

	do {
		count = ibv_poll_cq(rail->cq, POLL_MOST, completions);
		for (int i = 0; i < count; i++)
			handle(&completions[i]);
		some |= count > 0;
		/* As after an event of the queue: event.c ends the links of this rail. */
		if (count < 0 && !atomic_exchange(&rail->overflowed, true))
			atomic_fetch_add(&rail->device->events, 1);
	} while (count == POLL_MOST);
	return some;
}
