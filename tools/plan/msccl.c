#include "msccl.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"
#include "exec/algorithms.h"

int msccl_refuse(const struct msccl *msccl, int line, const char *format, ...)
{
	char what[200];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	return rd_fail(RONDO_INVALID, "%s:%d: %s", msccl->name, line, what);
}

void msccl_finish(struct msccl *msccl)
{
	for (int i = 0; i < msccl->block_count; i++)
		free(msccl->blocks[i].steps);
	free(msccl->blocks);
	free(msccl->firsts);
	free(msccl->scratch);
	free(msccl->counters);
}

int msccl_range_blocks(const struct rd_problem *problem)
{
	bool of_all = problem->collective == RD_ALL_GATHER ||
		      problem->collective == RD_REDUCE_SCATTER ||
		      problem->collective == RD_ALL_TO_ALL;

	return of_all ? problem->size : 1;
}

int msccl_loop_blocks(const struct rd_problem *problem)
{
	struct rd_problem at_root = *problem;
	int ins, outs;

	at_root.rank = problem->root;
	ins = rd_in_blocks(&at_root);
	outs = rd_out_blocks(&at_root);
	return ins > outs ? ins : outs;
}

/* ---- While a program is read ---------------------------------------------------------------- */

/* A name of a plan file: capitals become small, all else _. */
static void make_title(char title[RD_FILE_NAME_SIZE], const char *name)
{
	for (int i = 0; i < RD_FILE_NAME_SIZE - 1 && name[i]; i++) {
		char c = name[i];

		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		title[i] = (char)((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '_');
	}
	if (!*title)
		title[0] = '_';
}

static int no_memory(const struct msccl *msccl)
{
	return rd_fail(RONDO_MEMORY, "no memory to read %s", msccl->name);
}

int msccl_begin(struct msccl *msccl, const char *name)
{
	make_title(msccl->title, name);
	/* A name of Rondo's own could not be loaded. */
	if (rd_algorithm_called(msccl->title)) {
		size_t length = strlen(msccl->title), most = RD_FILE_NAME_SIZE - 6;

		snprintf(msccl->title + (length < most ? length : most), 6, "_%d",
			msccl->problem.size);
	}
	msccl->scratch = calloc((size_t)msccl->problem.size, sizeof(*msccl->scratch));
	msccl->firsts = calloc((size_t)msccl->problem.size + 1, sizeof(*msccl->firsts));
	return msccl->scratch && msccl->firsts ? 0 : no_memory(msccl);
}

int msccl_collective(const char *name)
{
	int collective = rd_collective_named(name);

	return collective == RD_TRANSFER || collective == RD_BARRIER ? -1 : collective;
}

bool msccl_chunks_fit(const struct msccl *msccl, int64_t parts)
{
	return rd_blocks(&msccl->problem) * parts * msccl->problem.size <= RD_FILE_CHUNKS_MAX;
}

void msccl_set_range(struct msccl *msccl, int64_t least, int64_t most)
{
	int blocks = msccl_range_blocks(&msccl->problem);

	msccl->least_bytes = least / blocks + (least % blocks > 0);
	msccl->most_bytes = most < INT64_MAX ? most / blocks : INT64_MAX;
}

void msccl_add_rank(struct msccl *msccl, int scratch)
{
	msccl->scratch[msccl->ranks++] = scratch;
	msccl->firsts[msccl->ranks] = msccl->block_count;
}

int msccl_add_block(struct msccl *msccl, struct msccl_block block)
{
	if (msccl->block_count == MSCCL_BLOCKS_MAX)
		return msccl_refuse(
			msccl, block.line, "there are more than %d tb", MSCCL_BLOCKS_MAX);
	if (!rd_grow(&msccl->blocks, msccl->block_count, &msccl->capacity, sizeof(block)))
		return no_memory(msccl);
	msccl->blocks[msccl->block_count++] = block;
	msccl->firsts[msccl->ranks] = msccl->block_count;
	return 0;
}

int msccl_add_step(struct msccl *msccl, struct msccl_step step)
{
	struct msccl_block *block = &msccl->blocks[msccl->block_count - 1];

	if (!rd_grow(&block->steps, block->step_count, &block->capacity, sizeof(step)))
		return no_memory(msccl);
	block->steps[block->step_count++] = step;
	return 0;
}

/* ---- Chunks --------------------------------------------------------------------------------- */

static int common(int a, int b)
{
	while (b) {
		int rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static bool moves_chunks(const struct msccl_step *step)
{
	return step->type < MSCCL_NOP;
}

int msccl_join_chunks(struct msccl *msccl)
{
	int together = msccl->parts;
	int64_t moved = 0;

	for (int i = 0; i < msccl->block_count; i++)
		for (int k = 0; k < msccl->blocks[i].step_count; k++) {
			const struct msccl_step *step = &msccl->blocks[i].steps[k];

			if (!moves_chunks(step))
				continue;
			together = common(together, step->count);
			together = common(together, step->from.offset);
			together = common(together, step->into.offset);
			together = common(together, step->with.offset);
		}
	msccl->parts /= together;
	for (int rank = 0; rank < msccl->ranks; rank++)
		msccl->scratch[rank] /= together;
	for (int i = 0; i < msccl->block_count; i++)
		for (int k = 0; k < msccl->blocks[i].step_count; k++) {
			struct msccl_step *step = &msccl->blocks[i].steps[k];

			if (!moves_chunks(step))
				continue;
			step->from.offset /= together;
			step->into.offset /= together;
			step->with.offset /= together;
			step->count /= together;
			moved += step->count;
			if (moved > RD_FILE_CHUNKS_MAX)
				return msccl_refuse(msccl, step->line,
					"gpu %d, tb %d: more than %d chunks are moved up to here",
					msccl->blocks[i].rank, msccl->blocks[i].id,
					RD_FILE_CHUNKS_MAX);
		}
	return 0;
}
