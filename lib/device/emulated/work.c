/* The kernels of lib/device/cuda/kernels.cu on an emulated GPU: work_run.h and small_run.h, with
   host reductions. */
#include "device/emulated/kernels.h"
#include "device/emulated/machine.h"
#include "exec/mean.h"
#include "exec/reduce.h"

/* Bytes that are combined at a time: in place, an output is an input still to be read. */
#define PART 4096

/* The elements of a unit, combined; of a mean, those of each rank. */
struct sums {
	uint64_t bits[RD_WORK_RANKS];
};

#define SUMS struct sums

#include "device/small_run.h"
#include "device/work_run.h"

/* Elements times the factor, of `size` bytes in all. */
static void scale(
	int type, char *to, const char *from, size_t size, uint64_t factor, size_t element)
{
	_Alignas(64) char factors[PART];

	for (size_t at = 0; at < size; at += element)
		memcpy(factors + at, &factor, element);
	rd_reduce(type, RONDO_PROD)(to, from, factors, size / element);
}

/* A rank's elements at this byte: where they lie or, with a factor, in `scaled`. */
static const char *input(const struct rd_work *work, const struct block *block, int rank, size_t at,
	size_t size, char *scaled, size_t element)
{
	if (!work->scales)
		return block->in[rank] + at;
	scale(work->type, scaled, block->in[rank] + at, size, block->factors[rank], element);
	return scaled;
}

/* A part of all ranks' inputs. */
struct inputs {
	const struct block *block;
	size_t at;
};

static const char *input_of(const void *context, int rank)
{
	const struct inputs *inputs = context;

	return inputs->block->in[rank] + inputs->at;
}

static void combine_part(const struct rd_work *work, const struct block *block, char *part,
	size_t at, size_t size, struct elements elements)
{
	_Alignas(64) char scaled[PART];
	rd_reduce_function reduce = rd_reduce(work->type, work->op);
	struct inputs inputs = { block, at };

	if (work->op == RONDO_AVG) {
		rd_mean_all(part, input_of, &inputs, work->size, size / elements.size, work->type);
		return;
	}
	memcpy(part, input(work, block, 0, at, size, scaled, elements.size), size);
	for (int rank = 1; rank < work->size; rank++)
		reduce(part, part, input(work, block, rank, at, size, scaled, elements.size),
			size / elements.size);
}

static void combine(const struct rd_work *work, const struct block *block,
	const struct rd_work_step *step, struct elements elements)
{
	_Alignas(64) char part[PART];
	size_t size = step->count * elements.size;

	for (size_t done = 0; done < size; done += PART) {
		size_t n = size - done < PART ? size - done : PART;

		combine_part(work, block, part, step->in_at + done, n, elements);
		for (int rank = 0; rank < work->size; rank++)
			if (step->peer < 0 || step->peer == rank)
				memcpy(block->out[rank] + step->out_at + done, part, n);
	}
}

static void spread_bytes(const struct rd_work *work, const struct block *block,
	const struct rd_work_step *step, size_t size)
{
	for (int rank = first_to(work, step); rank < end_to(work, step); rank++)
		copy_bytes(place_at(work, block, step, rank), block->in[step->peer] + step->in_at,
			size, ALL_BLOCKS);
}

static void swap_bytes(char *here, const char *theirs, char *there, const char *ours, size_t size)
{
	char part[PART];

	for (size_t at = 0; at < size; at += PART) {
		size_t n = size - at < PART ? size - at : PART;

		memcpy(part, theirs + at, n);
		memmove(there + at, ours + at, n);
		memcpy(here + at, part, n);
	}
}

static union unit scale_unit(const struct rd_small_work *work, union unit unit, uint64_t factor,
	struct elements elements)
{
	union unit scaled;

	scale(work->type, (char *)scaled.bytes, (const char *)unit.bytes, sizeof(unit), factor,
		elements.size);
	return scaled;
}

static void add_unit(const struct rd_small_work *work, struct sums *sums, int rank, union unit unit,
	struct elements elements)
{
	if (work->op == RONDO_AVG)
		sums->bits[rank] = unit.bits;
	else if (rank == 0)
		sums->bits[0] = unit.bits;
	else
		rd_reduce(work->type, work->op)(sums, sums, &unit, sizeof(unit) / elements.size);
}

static const char *unit_of(const void *context, int rank)
{
	const struct sums *sums = context;

	return (const char *)&sums->bits[rank];
}

static union unit finish_unit(
	const struct rd_small_work *work, const struct sums *sums, struct elements elements)
{
	union unit unit = { sums->bits[0] };

	if (work->op == RONDO_AVG)
		rd_mean_all(unit.bytes, unit_of, sums, work->size, sizeof(unit) / elements.size,
			work->type);
	return unit;
}

void rd_emulated_run(const struct rd_work *work)
{
	struct elements elements = { rondo_type_size(work->type) };
	struct block block;

	run_block(work, &block, elements);
}

void rd_emulated_small(const struct rd_small_work *work)
{
	struct elements elements = { rondo_type_size(work->type) };

	run_small(work, elements);
}
