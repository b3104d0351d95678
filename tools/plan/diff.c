#include "commands.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "difference.h"
#include "document.h"
#include "plan/print.h"

#define STEP_SIZE 160
#define TEXT_SIZE 400

struct writer {
	const struct plan_options *options;
	FILE *out;
	const char *comma; /* before the next call of the JSON document */
	int left_out; /* calls */
};

/* ---- Parts ---------------------------------------------------------------------------------- */

static const struct plan_trace_step *step_at(const struct plan_difference *difference, int index)
{
	return &difference->call->steps[index];
}

static int64_t measured_ns(const struct plan_difference *difference)
{
	return difference->call->end_ns - difference->call->begin_ns;
}

/* "rank 1, piece 0, step 3" */
static const char *place_text(int rank, int piece, int step, char text[STEP_SIZE])
{
	snprintf(text, STEP_SIZE, "rank %d, piece %d, step %d", rank, piece, step);
	return text;
}

/* "recv of chunk 2, peer 1, to -1" */
static const char *step_text(
	const struct plan_difference *difference, int index, char text[STEP_SIZE])
{
	const struct plan_trace_step *step = step_at(difference, index);

	snprintf(text, STEP_SIZE, "%s of chunk %d, peer %d, to %d",
		difference->trace->names[step->kind], step->chunk, step->peer, step->to);
	return text;
}

/* The plan's step, or that it has none. */
static const char *plan_text(const struct plan_difference *difference, char text[STEP_SIZE])
{
	const struct rd_plan *plan = difference->plans[difference->other_rank];
	const struct rd_step *step = &plan->steps[difference->other_step];
	char kind[PLAN_KIND_SIZE];

	if (plan->step_count == 0 ||
		(uint64_t)difference->other_piece >= difference->simulated.pieces)
		snprintf(text, STEP_SIZE, "the plan has no step there");
	else
		snprintf(text, STEP_SIZE, "the plan has %s of chunk %d, peer %d, to %d",
			plan_kind(step, kind), step->chunk, step->peer, step->to);
	return text;
}

/* The first step that is not the plan's; "": there is none. */
static const char *other_text(const struct plan_difference *difference, char text[TEXT_SIZE])
{
	char place[STEP_SIZE], traced[STEP_SIZE], planned[STEP_SIZE];

	*text = '\0';
	if (difference->other_rank < 0)
		return text;
	place_text(difference->other_rank, difference->other_piece, difference->other_step, place);
	plan_text(difference, planned);
	if (difference->other < 0)
		snprintf(text, TEXT_SIZE, "%s: the trace has no step there, %s", place, planned);
	else
		snprintf(text, TEXT_SIZE, "%s: the trace has %s (piece %d, step %d), %s", place,
			step_text(difference, difference->other, traced),
			step_at(difference, difference->other)->piece,
			step_at(difference, difference->other)->step, planned);
	return text;
}

/* The first step whose time differs; "": there is none. */
static const char *late_text(const struct plan_difference *difference, char text[TEXT_SIZE])
{
	char place[STEP_SIZE], step[STEP_SIZE];
	char wait[PLAN_TIME_SIZE], work[PLAN_TIME_SIZE];
	char to_wait[PLAN_TIME_SIZE], to_work[PLAN_TIME_SIZE];

	*text = '\0';
	if (difference->late < 0)
		return text;

	const struct plan_trace_step *it = step_at(difference, difference->late);
	const struct plan_predicted *predicted = &difference->predicted[difference->late];

	snprintf(text, TEXT_SIZE, "%s (%s): waited %s and worked %s; predicted %s and %s",
		place_text(it->rank, it->piece, it->step, place),
		step_text(difference, difference->late, step), plan_time_text(it->wait_ns, wait),
		plan_time_text(it->work_ns, work), plan_time_text(predicted->wait_ns, to_wait),
		plan_time_text(predicted->end_ns - predicted->begin_ns, to_work));
	return text;
}

/* "steps", "time" or "": how the step differs. */
static const char *mark_of(const struct plan_difference *difference, int index)
{
	if (!plan_difference_is_planned(difference, index))
		return "steps";
	return index == difference->late ? "time" : "";
}

/* ", from 0 to 2": calls of one number may differ in that alone. Returns text. */
static const char *ends_text(const struct plan_trace_key *key, char text[STEP_SIZE])
{
	*text = '\0';
	if (key->collective == RD_TRANSFER)
		snprintf(text, STEP_SIZE, ", from %d to %d", key->root, key->target);
	else if (rd_collective_has_root((enum rd_collective)key->collective))
		snprintf(text, STEP_SIZE, ", root %d", key->root);
	return text;
}

/* ---- Text ----------------------------------------------------------------------------------- */

static void write_text_step(const struct plan_difference *difference, int index, FILE *out)
{
	const struct plan_trace_step *it = step_at(difference, index);
	const struct plan_predicted *predicted = &difference->predicted[index];
	const char *mark = mark_of(difference, index);
	char text[STEP_SIZE], times[6][PLAN_TIME_SIZE];
	int64_t begin_ns = it->begin_ns - difference->call->begin_ns;

	if (index == difference->firsts[it->rank])
		fprintf(out, "rank %d\n piece step %11s %11s %11s %11s %11s %11s\n", it->rank,
			"begin", "wait", "work", "predicted", "wait", "work");
	fprintf(out, "%c%5d %4d %11s %11s %11s", *mark ? '*' : ' ', it->piece, it->step,
		plan_time_text(begin_ns, times[0]), plan_time_text(it->wait_ns, times[1]),
		plan_time_text(it->work_ns, times[2]));
	if (strcmp(mark, "steps") == 0)
		fprintf(out, " %11s %11s %11s", "-", "-", "-");
	else
		fprintf(out, " %11s %11s %11s",
			plan_time_text(predicted->begin_ns - predicted->wait_ns, times[3]),
			plan_time_text(predicted->wait_ns, times[4]),
			plan_time_text(predicted->end_ns - predicted->begin_ns, times[5]));
	fprintf(out, "  %s\n", step_text(difference, index, text));
}

static void write_text(const struct writer *writer, const struct plan_difference *difference)
{
	char name[PLAN_CALL_NAME_SIZE], heading[200], text[TEXT_SIZE], ends[STEP_SIZE];
	char measured[PLAN_TIME_SIZE], predicted[PLAN_TIME_SIZE];
	FILE *out = writer->out;

	plan_call_text(difference->made, difference->algorithm, difference->simulated.size,
		difference->simulated.pieces, heading, sizeof(heading));
	fprintf(out, "%s: %s%s: %s, predicted %s\n",
		plan_traced_name(difference->trace, difference->call, name), heading,
		ends_text(difference->call->key, ends),
		plan_time_text(measured_ns(difference), measured),
		plan_time_text(difference->predicted_ns, predicted));
	if (*other_text(difference, text))
		fprintf(out, "  first other step: %s\n", text);
	if (*late_text(difference, text))
		fprintf(out, "  first other time: %s\n", text);
	for (int i = 0; writer->options->call >= 0 && i < difference->call->count; i++)
		write_text_step(difference, i, out);
}

/* ---- Lines ---------------------------------------------------------------------------------- */

static void write_tsv(const struct writer *writer, const struct plan_difference *difference)
{
	const struct plan_trace *trace = difference->trace;
	const struct plan_trace_call *call = difference->call;
	FILE *out = writer->out;

	for (int i = 0; i < call->count; i++) {
		const struct plan_trace_step *it = &call->steps[i];
		const struct plan_predicted *predicted = &difference->predicted[i];
		const char *mark = mark_of(difference, i);

		fprintf(out,
			"%s\t%d\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%d\t%d\t%d\t%lld\t%lld\t%lld\t%lld\t",
			trace->comms[call->key->comm].name, call->key->number,
			rd_collective_name((enum rd_collective)call->key->collective),
			trace->names[call->key->algorithm], it->rank, it->channel, it->piece,
			it->step, trace->names[it->kind], it->chunk, it->peer, it->to,
			(long long)it->bytes, (long long)(it->begin_ns - call->begin_ns),
			(long long)it->wait_ns, (long long)it->work_ns);
		if (strcmp(mark, "steps") == 0)
			fprintf(out, "\t\t");
		else
			fprintf(out, "%lld\t%lld\t%lld",
				(long long)(predicted->begin_ns - predicted->wait_ns),
				(long long)predicted->wait_ns,
				(long long)(predicted->end_ns - predicted->begin_ns));
		fprintf(out, "\t%s\n", mark);
	}
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void write_json_step(const struct plan_difference *difference, int index, FILE *out)
{
	const struct plan_trace_step *it = step_at(difference, index);
	const struct plan_predicted *predicted = &difference->predicted[index];
	const char *mark = mark_of(difference, index);

	fprintf(out,
		"%s\n      {\"rank\": %d, \"channel\": %d, \"piece\": %d, \"step\": %d, \"kind\": ",
		index ? "," : "", it->rank, it->channel, it->piece, it->step);
	rd_json_write_string(out, difference->trace->names[it->kind]);
	fprintf(out,
		", \"chunk\": %d, \"peer\": %d, \"to\": %d, \"bytes\": %lld, \"begin_ns\": %lld, "
		"\"wait_ns\": %lld, \"work_ns\": %lld",
		it->chunk, it->peer, it->to, (long long)it->bytes,
		(long long)(it->begin_ns - difference->call->begin_ns), (long long)it->wait_ns,
		(long long)it->work_ns);
	if (strcmp(mark, "steps") != 0)
		fprintf(out,
			", \"predicted_begin_ns\": %lld, \"predicted_wait_ns\": %lld, "
			"\"predicted_work_ns\": %lld",
			(long long)(predicted->begin_ns - predicted->wait_ns),
			(long long)predicted->wait_ns,
			(long long)(predicted->end_ns - predicted->begin_ns));
	fprintf(out, "}");
}

static void write_json(struct writer *writer, const struct plan_difference *difference)
{
	const struct plan_trace_key *key = difference->call->key;
	char text[TEXT_SIZE];
	FILE *out = writer->out;

	fprintf(out, "%s\n    {\"comm\": ", writer->comma);
	rd_json_write_string(out, difference->trace->comms[key->comm].name);
	fprintf(out,
		", \"call\": %d, \"collective\": \"%s\", \"algorithm\": \"%s\", \"ranks\": %d, "
		"\"root\": %d, \"target\": %d, \"block_bytes\": %lld, \"pieces\": %llu, \"measured_ns\": %lld, "
		"\"predicted_ns\": %lld",
		key->number, rd_collective_name((enum rd_collective)key->collective),
		difference->algorithm->name, difference->made->problem.size, key->root, key->target,
		(long long)difference->call->block,
		(unsigned long long)difference->simulated.pieces,
		(long long)measured_ns(difference), (long long)difference->predicted_ns);
	if (*other_text(difference, text)) {
		fprintf(out, ", \"other_step\": ");
		rd_json_write_string(out, text);
	}
	if (*late_text(difference, text)) {
		fprintf(out, ", \"other_time\": ");
		rd_json_write_string(out, text);
	}
	fprintf(out, ", \"steps\": [");
	for (int i = 0; i < difference->call->count; i++)
		write_json_step(difference, i, out);
	fprintf(out, "]}");
	writer->comma = ",";
}

/* ---- All calls ------------------------------------------------------------------------------ */

static void write_head(const struct writer *writer)
{
	if (writer->options->json)
		fprintf(writer->out, "{\n  \"format\": \"rondo-trace-difference 1\",\n"
				     "  \"calls\": [");
	else if (writer->options->tsv)
		fprintf(writer->out,
			"comm\tcall\tcollective\talgorithm\trank\tchannel\tpiece\tstep\tkind\tchunk\t"
			"peer\tto\tbytes\tbegin_ns\twait_ns\twork_ns\tpredicted_begin_ns\t"
			"predicted_wait_ns\tpredicted_work_ns\tdiffers\n");
}

static void write_end(const struct writer *writer)
{
	if (writer->options->json)
		fprintf(writer->out, "\n  ],\n  \"left_out\": %d\n}\n", writer->left_out);
	else if (!writer->options->tsv && writer->left_out > 0)
		fprintf(writer->out,
			"%d call%s left out: v-calls, and those of which steps were dropped\n",
			writer->left_out, RD_PLURAL(writer->left_out));
}

static void write_call(struct writer *writer, const struct plan_difference *difference)
{
	writer->left_out += difference->left_out;
	if (difference->left_out)
		return;
	if (writer->options->json)
		write_json(writer, difference);
	else if (writer->options->tsv)
		write_tsv(writer, difference);
	else
		write_text(writer, difference);
}

static bool is_meant(const struct plan_options *options, const struct plan_trace_call *call)
{
	return options->call < 0 || options->call == call->key->number;
}

static int check_call(const struct plan_options *options, const struct plan_trace *trace)
{
	for (int i = 0; i < trace->call_count; i++)
		if (is_meant(options, &trace->calls[i]))
			return 0;
	return rd_fail(RONDO_INVALID, "%s has no call %d", options->source, options->call);
}

static int write_calls(struct writer *writer, struct plan_trace *trace, struct plan_problem *made,
	struct network *network)
{
	struct plan_difference difference = { 0 };
	struct plan_options options;
	int err = 0;

	write_head(writer);
	for (int i = 0; i < trace->call_count && !err; i++) {
		const struct plan_trace_call *call = &trace->calls[i];

		options = *writer->options;
		if (!is_meant(&options, call))
			continue;
		err = plan_difference_find(
			&difference, made, &options, trace, call, network, options.within);
		if (!err)
			write_call(writer, &difference);
	}
	plan_difference_finish(&difference);
	if (!err)
		write_end(writer);
	return err;
}

int plan_diff(struct plan_problem *made, const struct plan_options *options, FILE *out)
{
	struct writer writer = { .options = options, .out = out, .comma = "" };
	struct network *network = NULL;
	struct plan_trace *trace;
	int hosts = 1, err = plan_trace_read(&trace, options->source);

	if (err)
		return err;
	err = check_call(options, trace);
	for (int i = 0; i < trace->comm_count; i++)
		hosts = (int)rd_longer(hosts, plan_traced_hosts(&trace->comms[i]));
	if (!err && options->topology)
		err = network_create(&network, options->topology, hosts);
	if (!err)
		err = write_calls(&writer, trace, made, network);
	network_destroy(network);
	plan_trace_destroy(trace);
	return err;
}
