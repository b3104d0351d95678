#include "bootstrap/coordinator/parts.h"

#include <stdio.h>
#include <string.h>

void rd_query_all(struct rd_coordinator *coordinator, int64_t now_ms)
{
	coordinator->query++;
	coordinator->query_ms = now_ms + RD_QUERY_MS;
	for (int rank = 0; rank < coordinator->size; rank++)
		coordinator->ranks[rank].answered = false;
	rd_coordinator_send_to_all(coordinator, RD_CONTROL_QUERY);
}

bool rd_query_take_answer(
	struct rd_coordinator *coordinator, int rank, const struct rd_control_message *message)
{
	struct rd_coordinator_rank *state = &coordinator->ranks[rank];

	if ((coordinator->failure_reporter < 0 && coordinator->slow_rank < 0) ||
		message->answer.number != coordinator->query)
		return false;
	state->answered = true;
	state->calls = message->answer.calls;
	state->done = message->answer.done;
	state->collective = message->answer.collective;
	state->waiting_for = message->answer.waiting_for;
	state->waited_ms = message->answer.waited_ms;
	state->slept_in = message->answer.slept_in;
	memcpy(state->called_at, message->answer.called_at, sizeof(state->called_at));
	memcpy(state->waits_at, message->answer.waits_at, sizeof(state->waits_at));
	return rd_query_unresponsive(coordinator, -1) < 0;
}

int rd_query_unresponsive(const struct rd_coordinator *coordinator, int suspect)
{
	if (suspect >= 0 && !coordinator->ranks[suspect].left &&
		!coordinator->ranks[suspect].answered)
		return suspect;
	for (int rank = 0; rank < coordinator->size; rank++)
		if (!coordinator->ranks[rank].left && !coordinator->ranks[rank].answered)
			return rank;
	return -1;
}

uint32_t rd_query_present_call(const struct rd_coordinator_rank *state)
{
	return state->calls == state->done ? state->calls : state->done + 1;
}

/* "all_reduce #17 of 100 f32 sum at train+0x11b8". */
static void print_call(const struct rd_coordinator_rank *state, char *text, size_t size)
{
	size_t length;

	rd_signature_print(&state->slept_in, text, size);
	length = strlen(text);
	if (state->waits_at[0])
		snprintf(text + length, size - length, " at %s", state->waits_at);
}

bool rd_query_judge_calls(struct rd_coordinator *coordinator)
{
	char there[128 + RD_CALL_SITE_SIZE], here[128 + RD_CALL_SITE_SIZE];

	for (int rank = 1; rank < coordinator->size; rank++) {
		const struct rd_coordinator_rank *state = &coordinator->ranks[rank];

		for (int other = 0; other < rank && state->slept_in.number > 0; other++) {
			if (!rd_signature_mismatches(
				    &state->slept_in, &coordinator->ranks[other].slept_in))
				continue;
			print_call(state, there, sizeof(there));
			print_call(&coordinator->ranks[other], here, sizeof(here));
			rd_coordinator_decide(coordinator, RONDO_MISMATCH,
				"ranks made different calls: rank %d %s, rank %d %s", rank, there,
				other, here);
			return true;
		}
	}
	return false;
}
