/* RONDO_TRACE's files: calls of one that is accepted have steps in order, and can be laid beside
   their plans. */
#include "fuzz.h"
#include "plan/difference.h"
#include "plan/program.h"

static struct plan_problem made;

static void check_order(const struct plan_trace_call *call)
{
	for (int i = 0; i < call->count; i++) {
		const struct plan_trace_step *step = &call->steps[i], *before = step - 1;

		FUZZ_CHECK(step->bytes <= call->slice && step->block <= call->block);
		FUZZ_CHECK(step->begin_ns >= call->begin_ns);
		FUZZ_CHECK(i == 0 || before->rank < step->rank ||
			   (before->rank == step->rank &&
				   (before->piece < step->piece ||
					   (before->piece == step->piece &&
						   before->step < step->step))));
	}
}

static void run_program(struct plan_trace *trace, const char *path)
{
	struct plan_options options = { .source = path };
	struct plan_program program;
	int64_t *calls_ns = malloc((size_t)trace->call_count * sizeof(*calls_ns)), end_ns;
	int lacking;

	FUZZ_CHECK(calls_ns);
	if (plan_program_make(&program, trace) == 0 &&
		plan_program_simulate(
			&program, &made, &options, NULL, calls_ns, &end_ns, &lacking) == 0)
		for (int i = 0; i < program.call_count; i++)
			FUZZ_CHECK(calls_ns[i] >= 0 && calls_ns[i] <= end_ns);
	plan_program_finish(&program);
	free(calls_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct plan_trace *trace;
	char path[32];
	int fd = fuzz_file(data, size);

	rd_costs_default(&made.costs);
	if (plan_trace_read(&trace, fuzz_path(path, fd)) == 0) {
		struct plan_difference difference = { 0 };
		struct plan_options options;

		for (int i = 0; i < trace->call_count; i++) {
			options = (struct plan_options){ .source = path };
			check_order(&trace->calls[i]);
			plan_difference_find(
				&difference, &made, &options, trace, &trace->calls[i], NULL, 2);
		}
		plan_difference_finish(&difference);
		run_program(trace, path);
		plan_trace_destroy(trace);
	}
	close(fd);
	return 0;
}
