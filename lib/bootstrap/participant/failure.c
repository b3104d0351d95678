#include "bootstrap/participant/failure.h"

#include <stdarg.h>
#include <stdio.h>

#include "plan/collective.h"

static void end(
	struct rd_participant *participant, int lost, int error, const char *format, va_list args)
{
	if (rd_participant_is_over(participant))
		return;
	participant->phase = RD_PARTICIPANT_FAILED;
	participant->error = error;
	participant->lost = lost;
	vsnprintf(participant->reason, sizeof(participant->reason), format, args);
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

void rd_participant_fail(struct rd_participant *participant, int error, const char *reason)
{
	rd_participant_end(participant, error, "%s", reason);
}

const char *rd_participant_name_0(
	const struct rd_participant *participant, char name[RD_RANK_NAME_SIZE])
{
	if (participant->table.count > 0)
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

void rd_participant_report(struct rd_participant *participant, int error, int culprit,
	const char *reason, int64_t now_ms)
{
	if (rd_participant_is_over(participant) || participant->reported)
		return;
	participant->reported = true;
	participant->report = error;
	participant->culprit = culprit;
	snprintf(participant->report_reason, sizeof(participant->report_reason), "%s", reason);
	participant->report_ms = now_ms + RD_REPORT_MS;
	if (error == RONDO_BROKEN)
		participant->hold_ms = now_ms + RD_HOLD_MS;
	else
		participant->to_send |= rd_control_bit(RD_CONTROL_REPORT);
}

/* The coordinator checks whether the rank had left before. It cannot report its own death. */
void rd_participant_died(struct rd_participant *participant, int rank)
{
	char name[RD_RANK_NAME_SIZE];

	if (participant->phase != RD_PARTICIPANT_OPEN)
		return;
	if (rank == 0) {
		rd_participant_end_without(participant, 0, RONDO_DIED, "%s died",
			rd_participant_name_0(participant, name));
		return;
	}
	participant->dead = rank;
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
