/*
 * The participant's state, as data. participant.c holds its life, the rank's requests and the
 * deadlines; receive.c takes messages, failure.c ends it, and send.c chooses what is sent.
 */
#ifndef RD_PARTICIPANT_STATE_H
#define RD_PARTICIPANT_STATE_H

#include "base/reason.h"
#include "bootstrap/participant/participant.h"

/* The part of the state that ends once the members are known. */
struct rd_joining {
	struct rd_identity self;
	uint64_t group; /* of HELLO; 0: none */
	struct rd_table_reader table; /* how far the members have come */
};

struct rd_participant {
	const struct rd_settings *settings;
	struct rd_joining *joining; /* NULL: the members are known */
	struct rd_activity *activity;
	const char *address;
	enum rd_participant_phase phase;
	bool connecting;
	bool accepted; /* a first message came from rank 0, so it is a coordinator */
	bool ready, reported, leaving;
	bool zero_left; /* rank 0 has, so the end of its process is no death */
	bool unattended; /* it has ended: this rank judges its failures itself */
	bool cut_off; /* or the network has ended the connection to it */
	bool spares; /* a verdict waits until so many calls of this rank are done: */
	uint32_t spared;
	bool awaits_costs; /* before its first call */
	int64_t ended_ms; /* rank 0 died: until when another may report its calls */
	rd_control_kinds to_send; /* beside link failures and a death: */

	int64_t started_ms, ticked_ms, received_ms;
	int64_t connect_ms, heartbeat_ms, report_ms, leave_ms;
	int64_t hold_ms; /* when our report goes out, where it waits; else RD_NEVER */
	int connect_wait_ms, heartbeat_wait_ms;
	bool refused; /* the latest attempt to connect was */
	char *refusal; /* why it failed; NULL: it was not */

	struct rd_member *members;
	struct rd_cards cards; /* of each */
	struct rd_link_failures link_failures; /* of our links, to be sent */
	struct rd_link_failures fallbacks; /* that have been received */
	int link_failures_sent;
	struct rd_rank_list opens, opened; /* ranks to which we open links; that do to us */
	int opens_sent;
	struct rd_comm_id id;
	struct rd_link_limits limits; /* of our links; then, of all ranks' */
	char *costs; /* rank 0's own, or as they came; NULL: not yet */
	uint32_t query;
	int leaver; /* with the fewest calls, leaver_calls; -1: none has left */
	uint32_t leaver_calls;
	uint64_t digest; /* of our calls, when leaving */

	int report, culprit; /* of our own report: its error */
	char *report_reason; /* base/reason.h */
	int dead; /* a rank whose death is to be reported; -1: none */
	uint32_t dead_done; /* calls that it had finished */
	int64_t slow_line_ms; /* our call that waits for long */
	int slow_culprit;
	char *slow_reason;

	int error; /* the verdict */
	int lost; /* the rank that it is about, which died or was lost; -1: none */
	bool *late; /* [size]: of its STRAGGLERS; NULL: none has come, or no memory for them */
	char *reason;
};

static inline bool rd_participant_is_over(const struct rd_participant *participant)
{
	return participant->phase == RD_PARTICIPANT_LEFT ||
	       participant->phase == RD_PARTICIPANT_FAILED;
}

static inline bool rd_participant_is_connected(const struct rd_participant *participant)
{
	return participant->phase != RD_PARTICIPANT_CONNECTING && !participant->unattended &&
	       !rd_participant_is_over(participant);
}

#endif
