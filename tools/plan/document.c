#include "document.h"

#include <string.h>

#include "base/error.h"
#include "plan/print.h"

#define STEP_SIZE 160

/* ---- Parts ---------------------------------------------------------------------------------- */

const char *plan_time_text(int64_t ns, char text[PLAN_TIME_SIZE])
{
	if (ns < 1000)
		snprintf(text, PLAN_TIME_SIZE, "%d ns", (int)ns);
	else if (ns < 1000000)
		snprintf(text, PLAN_TIME_SIZE, "%.4g us", (double)ns / 1e3);
	else if (ns < 1000000000)
		snprintf(text, PLAN_TIME_SIZE, "%.4g ms", (double)ns / 1e6);
	else
		snprintf(text, PLAN_TIME_SIZE, "%.4g s", (double)ns / 1e9);
	return text;
}

static const char *size_text(size_t size, char text[PLAN_TIME_SIZE])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
	double value = (double)size;
	int unit = 0;

	for (; value >= 1024 && unit < 3; unit++)
		value /= 1024;
	snprintf(text, PLAN_TIME_SIZE, "%.4g %s", value, units[unit]);
	return text;
}

void plan_call_text(const struct plan_problem *made, const struct rd_algorithm *algorithm,
	size_t block, uint64_t pieces, char *text, size_t size)
{
	const struct rd_problem *problem = &made->problem;
	int hosts = made->layout.group_count;
	char bytes[PLAN_TIME_SIZE], on[40] = "";

	if (hosts > 1)
		snprintf(on, sizeof(on), " on %d hosts", hosts);
	snprintf(text, size, "%s %s, %d rank%s%s, %s a block in %llu piece%s", algorithm->name,
		rd_collective_name(problem->collective), problem->size, RD_PLURAL(problem->size),
		on, size_text(block, bytes), (unsigned long long)pieces, RD_PLURAL(pieces));
}

void plan_heading(const struct plan_timeline *timeline, char *text, size_t size)
{
	plan_call_text(timeline->made, timeline->algorithm, timeline->size, timeline->all_pieces,
		text, size);
}

const char *plan_kind(const struct rd_step *step, char text[PLAN_KIND_SIZE])
{
	char line[STEP_SIZE];

	rd_step_print(step, line, sizeof(line));
	snprintf(text, PLAN_KIND_SIZE, "%.*s", (int)strcspn(line, " "), line);
	return text;
}

static bool is_shown(const struct plan_timeline *timeline, int rank, int at)
{
	return at < timeline->made->problem.size && (rank < 0 || rank == at);
}

/* Calls `write` for each step of each piece, in order. */
static void each_step(const struct plan_timeline *timeline, int rank, FILE *out,
	void (*write)(
		const struct plan_timeline *timeline, int piece, int rank, int step, FILE *out))
{
	for (int at = 0; at < timeline->made->problem.size; at++)
		for (int piece = 0; piece < timeline->pieces && is_shown(timeline, rank, at);
			piece++)
			for (int step = 0; step < timeline->plans[at]->step_count; step++)
				write(timeline, piece, at, step, out);
}

/* ---- Text ----------------------------------------------------------------------------------- */

static void write_line(
	const struct plan_timeline *timeline, int piece, int rank, int step, FILE *out)
{
	size_t at = plan_timeline_at(timeline, piece, rank, step);
	const struct rd_event_time *times = &timeline->schedule->times[at];
	const struct rd_plan *plan = timeline->plans[rank];
	char begin[PLAN_TIME_SIZE], end[PLAN_TIME_SIZE], text[STEP_SIZE];

	if (step == 0 && piece == 0)
		fprintf(out, "rank %d: %d step%s, %d chunk%s of scratch memory\n", rank,
			plan->step_count, plan->step_count == 1 ? "" : "s", plan->scratch_chunks,
			plan->scratch_chunks == 1 ? "" : "s");
	if (step == 0 && timeline->pieces > 1)
		fprintf(out, " piece %d\n", piece);
	rd_step_print(&plan->steps[step], text, sizeof(text));
	fprintf(out, "%c %4d  %11s %11s  %s\n", timeline->critical[at] ? '*' : ' ', step,
		plan_time_text(times->begin_ns, begin), plan_time_text(times->end_ns, end), text);
}

void plan_text_write(const struct plan_timeline *timeline, int rank, FILE *out)
{
	char heading[200], end[PLAN_TIME_SIZE], all[PLAN_TIME_SIZE];

	plan_heading(timeline, heading, sizeof(heading));
	fprintf(out, "%s; %d shown\n", heading, timeline->pieces);
	fprintf(out, "these end after %s; the call is predicted to take %s; * the critical path\n",
		plan_time_text(timeline->end_ns, end), plan_time_text(timeline->predicted_ns, all));
	each_step(timeline, rank, out, write_line);
}

/* ---- Tab-separated -------------------------------------------------------------------------- */

static const char *where_text(struct rd_where where, char text[PLAN_TIME_SIZE])
{
	static const char *const names[] = { "", "in", "out", "scratch" };

	if (where.memory == RD_NOWHERE)
		return "";
	snprintf(text, PLAN_TIME_SIZE, "%s[%d]", names[where.memory], where.chunk);
	return text;
}

static const char *number_text(bool there, int number, char text[PLAN_TIME_SIZE])
{
	if (!there)
		return "";
	snprintf(text, PLAN_TIME_SIZE, "%d", number);
	return text;
}

static bool has_peer(const struct rd_step *step)
{
	return rd_step_takes(step) || step->kind == RD_STEP_FETCH || step->kind == RD_STEP_SWAP ||
	       step->kind == RD_STEP_SPREAD;
}

static bool has_to(const struct rd_step *step)
{
	return rd_step_puts(step) || step->kind == RD_STEP_FLUSH ||
	       (step->kind == RD_STEP_COMBINE && step->to >= 0);
}

static void write_tsv(
	const struct plan_timeline *timeline, int piece, int rank, int step, FILE *out)
{
	size_t at = plan_timeline_at(timeline, piece, rank, step);
	const struct rd_event_time *times = &timeline->schedule->times[at];
	const struct rd_step *it = &timeline->plans[rank]->steps[step];
	char kind[PLAN_KIND_SIZE], chunk[PLAN_TIME_SIZE], peer[PLAN_TIME_SIZE], to[PLAN_TIME_SIZE];
	char from[PLAN_TIME_SIZE], into[PLAN_TIME_SIZE];

	fprintf(out, "%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%lld\t%lld\t%d\n", rank, piece, step,
		plan_kind(it, kind), number_text(!rd_step_is_signal(it), it->chunk, chunk),
		number_text(has_peer(it), it->peer, peer), number_text(has_to(it), it->to, to),
		where_text(it->from, from), where_text(it->into, into), (long long)times->begin_ns,
		(long long)times->end_ns, timeline->critical[at]);
}

void plan_tsv_write(const struct plan_timeline *timeline, int rank, FILE *out)
{
	fprintf(out, "rank\tpiece\tstep\tkind\tchunk\tpeer\tto\tfrom\tinto\tbegin_ns\tend_ns\t"
		     "critical\n");
	each_step(timeline, rank, out, write_tsv);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void write_where(const char *name, struct rd_where where, FILE *out)
{
	static const char *const names[] = { "", "in", "out", "scratch" };

	if (where.memory != RD_NOWHERE)
		fprintf(out, ", \"%s\": [\"%s\", %d]", name, names[where.memory], where.chunk);
}

static void write_json(
	const struct plan_timeline *timeline, int piece, int rank, int step, FILE *out)
{
	size_t at = plan_timeline_at(timeline, piece, rank, step);
	const struct rd_event_time *times = &timeline->schedule->times[at];
	const struct rd_step *it = &timeline->plans[rank]->steps[step];
	char kind[PLAN_KIND_SIZE];

	fprintf(out, "%s\n      {\"kind\": \"%s\"", step || piece ? "," : "", plan_kind(it, kind));
	if (timeline->pieces > 1)
		fprintf(out, ", \"piece\": %d", piece);
	if (!rd_step_is_signal(it))
		fprintf(out, ", \"chunk\": %d", it->chunk);
	if (has_peer(it))
		fprintf(out, ", \"peer\": %d", it->peer);
	if (has_to(it))
		fprintf(out, ", \"to\": %d", it->to);
	if (it->kind == RD_STEP_FLUSH)
		fprintf(out, ", \"sender\": %d", it->sender);
	if (it->kind == RD_STEP_SWAP)
		fprintf(out, ", \"other\": %d", it->other);
	write_where("from", it->from, out);
	write_where("into", it->into, out);
	fprintf(out, ", \"begin_ns\": %lld, \"end_ns\": %lld, \"critical\": %s}",
		(long long)times->begin_ns, (long long)times->end_ns,
		timeline->critical[at] ? "true" : "false");
}

void plan_json_write(const struct plan_timeline *timeline, int rank, FILE *out)
{
	const struct rd_problem *problem = &timeline->made->problem;
	const char *comma = "";

	fprintf(out,
		"{\n  \"format\": \"rondo-plan 1\",\n  \"algorithm\": \"%s\",\n"
		"  \"collective\": \"%s\",\n  \"ranks\": %d,\n  \"hosts\": %d,\n"
		"  \"root\": %d,\n  \"parts\": %d,\n  \"direct_access\": %s,\n"
		"  \"block_bytes\": %zu,\n  \"pieces\": %llu,\n  \"end_ns\": %lld,\n"
		"  \"predicted_ns\": %lld,\n  \"plans\": [",
		timeline->algorithm->name, rd_collective_name(problem->collective), problem->size,
		timeline->made->layout.group_count, problem->root, timeline->plans[0]->parts,
		timeline->plans[0]->direct_access ? "true" : "false", timeline->size,
		(unsigned long long)timeline->all_pieces, (long long)timeline->end_ns,
		(long long)timeline->predicted_ns);
	for (int at = 0; at < problem->size; at++) {
		if (!is_shown(timeline, rank, at))
			continue;
		fprintf(out, "%s\n    {\"rank\": %d, \"scratch_chunks\": %d, \"steps\": [", comma,
			at, timeline->plans[at]->scratch_chunks);
		each_step(timeline, at, out, write_json);
		fprintf(out, "]}");
		comma = ",";
	}
	fprintf(out, "\n  ]\n}\n");
}
