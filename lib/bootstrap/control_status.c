#include "bootstrap/control_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/call_site.h"
#include "base/error.h"
#include "base/json.h"
#include "plan/collective.h"

#define RANKS_MAX 64 /* in a list; for more there is no room */

struct silences {
	FILE *out;
	int count;
};

static const char *phase_text(enum rd_participant_phase phase)
{
	static const char *const texts[] = {
		[RD_PARTICIPANT_CONNECTING] = "connecting",
		[RD_PARTICIPANT_JOINING] = "joining",
		[RD_PARTICIPANT_JOINED] = "opening links",
		[RD_PARTICIPANT_OPEN] = "open",
		[RD_PARTICIPANT_LEFT] = "left",
		[RD_PARTICIPANT_FAILED] = "failed",
	};

	return texts[phase];
}

static void write_text(FILE *out, const char *name, const char *text)
{
	fprintf(out, ",\"%s\":", name);
	rd_json_write_string(out, text);
}

static void write_site(FILE *out, uintptr_t address)
{
	char text[RD_CALL_SITE_SIZE];

	write_text(out, "at", rd_call_site(address, text));
}

static void write_calls(FILE *out, const struct rd_activity *activity, int64_t now_ms)
{
	uint32_t calls = atomic_load(&activity->calls), done = atomic_load(&activity->done);
	int collective = atomic_load(&activity->collective);
	uint32_t waited_ms = rd_activity_waited_ms(activity, now_ms);

	/* The caller counts on while this reads. */
	fprintf(out, ",\"calls\":%" PRIu32 ",\"calls_done\":%" PRIu32, calls,
		done < calls ? done : calls);
	if (collective >= 0) {
		fprintf(out, ",\"last_call\":{\"number\":%" PRIu32, calls);
		write_text(out, "collective", rd_collective_name(collective));
		write_site(out, atomic_load(&activity->called_at));
		fputc('}', out);
	}
	/* A wait is seen for a moment longer than it lasts. */
	if (waited_ms == 0 || done >= calls)
		return;
	fprintf(out, ",\"wait\":{\"ms\":%" PRIu32 ",\"for_rank\":%" PRId32, waited_ms,
		atomic_load(&activity->waiting_for));
	write_site(out, atomic_load(&activity->waits_at));
	fputc('}', out);
}

static void write_silent_rank(int rank, uint32_t silent_ms, void *argument)
{
	struct silences *silences = argument;

	if (silences->count++ < RANKS_MAX)
		fprintf(silences->out, "%s{\"rank\":%d,\"ms\":%" PRIu32 "}",
			silences->count == 1 ? ",\"silent_hosts\":[" : ",", rank, silent_ms);
}

/* Ranks whose hosts send nothing. */
static void write_silences(FILE *out, const struct rd_control *control)
{
	struct silences silences = { .out = out };

	rd_control_silent_ranks(control, write_silent_rank, &silences);
	if (silences.count)
		fputc(']', out);
}

static void write_failure(FILE *out, struct rd_control *control)
{
	int error = atomic_load(&control->verdict);
	const char *comma = "";

	if (!error)
		return;
	write_text(out, "error", rondo_error_name(error));
	write_text(out, "reason", rd_reason_text(control->reason));
	fputs(",\"failed_ranks\":[", out);
	for (int rank = 0, count = 0; rank < control->settings.size && count < RANKS_MAX; rank++) {
		if (!rd_has_failed(rd_control_presence(control, rank)))
			continue;
		fprintf(out, "%s%d", comma, rank);
		comma = ",";
		count++;
	}
	fputc(']', out);
}

void rd_control_write_status(FILE *out, struct rd_control *control, int64_t now_ms)
{
	const struct rd_settings *settings = &control->settings;
	enum rd_participant_phase phase = control->phase;

	fprintf(out, "{\"rank\":%d,\"size\":%d,\"pid\":%d", settings->rank, settings->size,
		(int)getpid());
	write_text(out, "host", control->host);
	write_text(out, "job", settings->job);
	if (phase >= RD_PARTICIPANT_JOINED)
		fprintf(out, ",\"comm\":\"%016" PRIx64 "\"", control->participant->id.number);
	write_text(out, "phase", phase_text(phase));
	write_calls(out, control->activity, now_ms);
	write_silences(out, control);
	write_failure(out, control);
	fputs("}\n", out);
}
