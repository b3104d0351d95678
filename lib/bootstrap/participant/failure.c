#include "bootstrap/participant/participant.h"

#include <stdarg.h>
#include <stdio.h>

#include "plan/collective.h"
#include "topo/place.h"

static void end(
	struct rd_participant *participant, int lost, int error, const char *format, va_list args)
{
	if (rd_participant_is_over(participant))
		return;
	participant->phase = RD_PARTICIPANT_FAILED;
	/* The one that spared a call stands. */
	if (participant->spares)
		return;
	participant->error = error;
	participant->lost = lost;
	rd_reason_set_args(&participant->reason, format, args);
}

void rd_participant_end(struct rd_participant *participant, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	end(participant, -1, error, format, args);
	va_end(args);
}

void rd_participant_end_without(
	struct rd_participant *participant, int lost, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	end(participant, lost, error, format, args);
	va_end(args);
}

/* Nobody judges failures of the spared calls but this rank. */
void rd_participant_end_sparing(struct rd_participant *participant, uint32_t spared, int lost,
	int error, const char *reason)
{
	bool spares = participant->phase == RD_PARTICIPANT_OPEN && !participant->reported &&
		      !participant->leaving && !participant->spares &&
		      atomic_load(&participant->activity->done) < spared;

	rd_participant_end_without(participant, lost, error, "%s", reason);
	if (!spares)
		return;
	participant->phase = RD_PARTICIPANT_OPEN;
	participant->spares = participant->unattended = true;
	participant->spared = spared;
	participant->ended_ms = RD_NEVER;
}

const char *rd_participant_name_0(
	const struct rd_participant *participant, char name[RD_RANK_NAME_SIZE])
{
	if (!participant->joining || participant->joining->table.count > 0)
		return rd_place_name(&participant->members[0].place, 0, name);
	snprintf(name, RD_RANK_NAME_SIZE, "rank 0 (at %s)", participant->address);
	return name;
}

void rd_participant_bad_message(struct rd_participant *participant)
{
	char name[RD_RANK_NAME_SIZE];

	if (participant->accepted)
		rd_participant_end(participant, RONDO_PROTOCOL, "%s sent bytes that make no sense",
			rd_participant_name_0(participant, name));
	else
		rd_participant_end(participant, RONDO_PROTOCOL,
			"rank %d: what listens at %s is not rank 0 of a comm%s",
			participant->settings->rank, participant->address,
			participant->settings->has_psk
				? ""
				: ", or has a secret that is not here (RONDO_SECRET_FILE)");
}

void rd_participant_list(
	struct rd_participant *participant, struct rd_rank_list *list, int32_t rank)
{
	if (!rd_rank_list_add(list, rank))
		rd_participant_end(participant, RONDO_MEMORY, "rank %d: no memory to open a link",
			participant->settings->rank);
}

void rd_participant_keep(struct rd_participant *participant, struct rd_link_failures *link_failures,
	const struct rd_link_failure *link_failure)
{
	if (!rd_link_failures_add(link_failures, link_failure))
		rd_participant_end(participant, RONDO_MEMORY,
			"rank %d: no memory for a link failure", participant->settings->rank);
}

/* As this rank knows. */
static bool has_left(const struct rd_participant *participant, int rank)
{
	const struct rd_link_failures *fallbacks = &participant->fallbacks;

	for (int i = 0; i < fallbacks->count; i++)
		if (fallbacks->at[i].transport[0] == '\0' &&
			(fallbacks->at[i].low == rank || fallbacks->at[i].high == rank))
			return true;
	return rank == 0 || (rank > 0 && rank == participant->leaver);
}

static void end_left(struct rd_participant *participant)
{
	int culprit = participant->culprit;
	char name[RD_RANK_NAME_SIZE];

	rd_participant_end(participant, RONDO_LEFT, "%s left after call #%u; %s",
		rd_place_name(&participant->members[culprit].place, culprit, name),
		participant->leaver_calls, rd_reason_text(participant->report_reason));
}

void rd_participant_end_unanswered(struct rd_participant *participant)
{
	if (participant->report == RONDO_LEFT)
		end_left(participant);
	else
		rd_participant_end(participant, participant->report, "%s",
			rd_reason_text(participant->report_reason));
}

void rd_participant_end_alone(struct rd_participant *participant)
{
	char name[RD_RANK_NAME_SIZE];

	if (participant->report != RONDO_TIMEOUT && has_left(participant, participant->culprit))
		end_left(participant);
	else if (participant->cut_off)
		rd_participant_end(participant, participant->report,
			"%s; the network had ended the connection to %s, which had left",
			rd_reason_text(participant->report_reason),
			rd_participant_name_0(participant, name));
	else
		rd_participant_end(participant, participant->report, "%s",
			rd_reason_text(participant->report_reason));
}

void rd_participant_report(struct rd_participant *participant, int error, int culprit,
	const char *reason, int64_t now_ms)
{
	/* A link to a rank that has left may break before its next check. */
	if (error == RONDO_BROKEN)
		rd_participant_check_calls(participant, now_ms);
	if (rd_participant_is_over(participant) || participant->reported)
		return;
	participant->reported = true;
	participant->report = error;
	participant->culprit = culprit;
	rd_reason_set(&participant->report_reason, "%s", reason);
	if (participant->unattended) {
		rd_participant_end_alone(participant);
		return;
	}
	participant->report_ms = now_ms + RD_REPORT_MS;
	if (error == RONDO_BROKEN)
		participant->hold_ms = now_ms + RD_HOLD_MS;
	else
		participant->to_send |= rd_control_bit(RD_CONTROL_REPORT);
}

void rd_participant_cancel(struct rd_participant *participant, const char *reason, int64_t now_ms)
{
	if (participant->phase == RD_PARTICIPANT_CONNECTING)
		rd_participant_end(participant, RONDO_REVOKED, "%s", reason);
	rd_participant_report(
		participant, RONDO_REVOKED, participant->settings->rank, reason, now_ms);
	/* The connection may be in the backlog of a rank 0 that has yet to come. */
	if (!participant->accepted)
		participant->report_ms = now_ms + RD_CANCEL_MS;
}

bool rd_participant_may_spare(const struct rd_participant *participant)
{
	const struct rd_member *members = participant->members;
	bool one_host = participant->phase == RD_PARTICIPANT_OPEN;

	for (int rank = 1; rank < participant->settings->size && one_host; rank++)
		one_host = rd_place_same_host(&members[rank].place, &members[0].place);
	return one_host;
}

/* Nobody but this rank judges the death. */
static void take_death(struct rd_participant *participant, int rank, uint32_t done)
{
	char reason[RD_REASON_SIZE], name[RD_RANK_NAME_SIZE];

	if (participant->spares && done >= participant->spared)
		return;
	snprintf(reason, sizeof(reason), "%s died",
		rd_place_name(&participant->members[rank].place, rank, name));
	if (rank == 0 && !rd_participant_may_spare(participant))
		done = 0;
	rd_participant_end_sparing(participant, done, rank, RONDO_DIED, reason);
}

/* The coordinator checks whether the rank had left before. It cannot report its own death. */
void rd_participant_died(struct rd_participant *participant, int rank, uint32_t done)
{
	if (participant->phase != RD_PARTICIPANT_OPEN || (rank == 0 && participant->zero_left))
		return;
	if (rank == 0 || participant->unattended) {
		take_death(participant, rank, done);
		return;
	}
	participant->dead = rank;
	participant->dead_done = done;
}

void rd_participant_check_calls(struct rd_participant *participant, int64_t now_ms)
{
	int collective = atomic_load(&participant->activity->collective);
	uint32_t calls = atomic_load(&participant->activity->calls);
	char reason[RD_REASON_SIZE];

	if (participant->leaver < 0 || participant->leaving || calls <= participant->leaver_calls)
		return;
	snprintf(reason, sizeof(reason), "rank %d is in %s #%u", participant->settings->rank,
		collective < 0 ? "call" : rd_collective_name((enum rd_collective)collective),
		calls);
	rd_participant_report(participant, RONDO_LEFT, participant->leaver, reason, now_ms);
}
