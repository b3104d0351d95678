#include "traced.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "exec/algorithms.h"

const char *plan_traced_name(const struct plan_trace *trace, const struct plan_trace_call *call,
	char text[PLAN_CALL_NAME_SIZE])
{
	const struct plan_trace_comm *comm = &trace->comms[call->key->comm];
	int length = snprintf(text, PLAN_CALL_NAME_SIZE, "call %d", call->key->number);

	if (strcmp(comm->name, "0") != 0)
		snprintf(text + length, PLAN_CALL_NAME_SIZE - (size_t)length, " of comm %s",
			comm->name);
	return text;
}

int plan_traced_hosts(const struct plan_trace_comm *comm)
{
	int last = 0;

	for (int rank = 0; rank < comm->size; rank++)
		last = (int)rd_longer(last, comm->ranks[rank].groups[0]);
	return last + 1;
}

/* Each slice of a block takes a step at least. */
bool plan_traced_is_short(const struct plan_trace_call *call)
{
	return call->block / rd_longer(call->slice, 1) > call->count;
}

void plan_traced_cut(struct plan_options *options, const struct plan_trace_call *call)
{
	options->size = (size_t)call->block;
	options->piece_size = (size_t)rd_longer(call->slice, 1);
}

/* The channels on which the call ran, as bits. */
static unsigned channels_of(const struct plan_trace_call *call)
{
	unsigned channels = 1;

	for (int i = 0; i < call->count; i++)
		channels |= 1U << call->steps[i].channel;
	return channels;
}

/* A simulation has one channel: the others' layouts must be that of the first. */
static int check_channels(const char *name, const struct plan_trace_comm *comm, unsigned channels)
{
	for (int r = 0; r < comm->size; r++) {
		const struct plan_trace_rank *rank = &comm->ranks[r];

		if ((rank->channels & channels) != channels)
			return rd_fail(RONDO_INVALID,
				"%s: the trace lacks lines of rank %d of %d: join the files of all "
				"hosts",
				name, r, comm->size);
		for (int channel = 1; channel < RD_CHANNELS_MAX; channel++)
			if (channels >> channel & 1 &&
				(rank->places[channel] != rank->places[0] ||
					rank->groups[channel] != rank->groups[0]))
				return rd_fail(RONDO_UNSUPPORTED,
					"%s: its channels have different orders of ranks, and a "
					"simulation has one",
					name);
	}
	return 0;
}

int plan_traced_check(const struct plan_trace *trace, const struct plan_trace_call *call)
{
	char name[PLAN_CALL_NAME_SIZE];

	return check_channels(plan_traced_name(trace, call, name), &trace->comms[call->key->comm],
		channels_of(call));
}

static int lay(struct plan_problem *made, const char *name, const struct plan_trace_comm *comm,
	int *groups)
{
	int group = 0;

	for (int place = 0; place < comm->size; place++)
		made->order[place] = -1;
	for (int rank = 0; rank < comm->size; rank++) {
		made->order[comm->ranks[rank].places[0]] = rank;
		made->group[rank] = comm->ranks[rank].groups[0];
	}
	for (int place = 0; place < comm->size; place++) {
		int rank = made->order[place], next = rank < 0 ? -1 : made->group[rank];

		if (next < 0 || next < group || next > group + (place > 0))
			return rd_fail(RONDO_INVALID,
				"%s: \"place\" and \"group\" of its ranks contradict each other",
				name);
		group = next;
	}
	*groups = group + 1;
	return 0;
}

int plan_traced_make(struct plan_problem *made, struct plan_options *options,
	const struct plan_trace *trace, const struct plan_trace_call *call)
{
	const struct plan_trace_comm *comm = &trace->comms[call->key->comm];
	char name[PLAN_CALL_NAME_SIZE];
	int err;

	plan_traced_name(trace, call, name);
	if (comm->size > PLAN_SHOWN_MAX)
		return rd_fail(RONDO_UNSUPPORTED, "%s has %d ranks, more than %d", name, comm->size,
			PLAN_SHOWN_MAX);
	if (call->key->collective == RD_TRANSFER && call->key->root == call->key->target)
		return rd_fail(RONDO_INVALID, "%s: a transfer has two ranks", name);
	if (options->hosts_given && options->hosts > comm->size)
		return rd_fail(RONDO_INVALID, "%d hosts for %d ranks: each has one", options->hosts,
			comm->size);
	err = plan_traced_check(trace, call);
	if (err)
		return err;
	options->algorithm = trace->names[call->key->algorithm];
	options->collective = (enum rd_collective)call->key->collective;
	options->ranks = comm->size;
	options->root = call->key->root;
	plan_traced_cut(options, call);
	options->hosts = options->hosts_given ? options->hosts : 1;
	plan_problem_lay(made, options);
	if (!options->hosts_given)
		err = lay(made, name, comm, &options->hosts);
	made->problem.target = call->key->target;
	made->layout.group_count = options->hosts;
	made->problem.layout = &made->layout;
	return err;
}

int plan_traced_algorithm(const struct rd_algorithm **algorithm, const struct plan_problem *made,
	const struct plan_options *options)
{
	const char *name = options->algorithm;
	int err;

	if (!rd_algorithm_called(name))
		return rd_fail(RONDO_INVALID,
			"there is no algorithm '%s': give the --plugin of the run, or its plan "
			"file behind the trace",
			name);
	err = plan_algorithm_find(algorithm, made, name);
	return err ? err : plan_simulated_check(made, *algorithm);
}

int plan_traced_spend(struct plan_trace *trace, const struct plan_trace_call *call, int64_t steps)
{
	char name[PLAN_CALL_NAME_SIZE];

	/* A file of calls has no steps that an edited line multiplies. */
	if (trace->of_calls)
		return 0;
	if (steps > trace->steps_left)
		return rd_fail(RONDO_UNSUPPORTED,
			"%s: the calls up to here have more than %d steps to simulate",
			plan_traced_name(trace, call, name), PLAN_TRACE_SIMULATED_MAX);
	trace->steps_left -= steps;
	return 0;
}
