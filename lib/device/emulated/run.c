/* What lib/device/cuda/kernels.cu does, done by a thread: one block. */
#include <string.h>

#include "base/clock.h"
#include "device/emulated/emulated.h"
#include "exec/reduce.h"
#include "base/futex.h"

/* So many bytes are combined at a time; in place, an output is an input still to be read. */
#define PART 4096

/* Between looks, where a peer's thread may need this one's core. */
#define LOOK_NS 50000

/* One rank's elements, times its factor if there is one: where they lie, or in `scaled`. */
static const char *input(
	const struct rd_work *work, int rank, size_t at, size_t count, char *scaled)
{
	_Alignas(64) char factors[PART];
	size_t element = rondo_type_size(work->type);

	if (!work->scales)
		return work->in[rank] + at;
	for (size_t i = 0; i < count; i++)
		memcpy(factors + i * element, &work->factors[rank], element);
	rd_reduce(work->type, RONDO_PROD)(scaled, work->in[rank] + at, factors, count);
	return scaled;
}

static void combine(const struct rd_work *work, const struct rd_work_step *step)
{
	_Alignas(64) char part[PART], scaled[PART];
	size_t element = rondo_type_size(work->type), most = PART / element;
	rd_reduce_function reduce = rd_reduce(work->type, work->op);

	for (size_t done = 0; done < step->count; done += most) {
		size_t n = step->count - done < most ? step->count - done : most;
		size_t in = step->in_at + done * element, out = step->out_at + done * element;

		memcpy(part, input(work, 0, in, n, scaled), n * element);
		for (int rank = 1; rank < work->size; rank++)
			reduce(part, part, input(work, rank, in, n, scaled), n);
		if (step->last && work->op == RONDO_AVG)
			rd_average(part, n, work->type, work->size);
		for (int rank = 0; rank < work->size; rank++)
			if (step->peer < 0 || step->peer == rank)
				memcpy(work->out[rank] + out, part, n * element);
	}
}

/* In place there is nothing to move, and a peer may be reading it. */
static void fetch(const struct rd_work *work, const struct rd_work_step *step)
{
	const char *from = work->in[step->peer] + step->in_at;
	char *to = work->out[work->rank] + step->out_at;

	if (from != to)
		memmove(to, from, step->count * rondo_type_size(work->type));
}

static void swap(const struct rd_work *work, const struct rd_work_step *step)
{
	char part[PART];
	const char *theirs = work->in[step->peer] + step->in_at;
	const char *ours = work->in[work->rank] + step->ours_at;
	size_t size = step->count * rondo_type_size(work->type);

	for (size_t at = 0; at < size; at += PART) {
		size_t n = size - at < PART ? size - at : PART;

		memcpy(part, theirs + at, n);
		memmove(work->out[step->peer] + step->theirs_at + at, ours + at, n);
		memcpy(work->out[work->rank] + step->out_at + at, part, n);
	}
}

static void run_steps(const struct rd_work *work)
{
	for (int i = 0; i < work->step_count; i++) {
		const struct rd_work_step *step = &work->steps[i];

		if (step->count == 0)
			continue;
		if (step->kind == RD_WORK_COMBINE)
			combine(work, step);
		else if (step->kind == RD_WORK_SWAP)
			swap(work, step);
		else
			fetch(work, step);
	}
}

/* ---- Barriers ------------------------------------------------------------------------------ */

bool rd_emulated_give_up(struct rd_abort_flag *abort_flag, uint32_t error, int peer)
{
	__atomic_store_n(&abort_flag->peer, (uint32_t)peer, __ATOMIC_RELAXED);
	__atomic_store_n(&abort_flag->error, error, __ATOMIC_RELEASE);
	return false;
}

void rd_emulated_differ(struct rd_abort_flag *abort_flag, int peer,
	const struct rd_transfer *theirs, const struct rd_transfer *ours)
{
	abort_flag->types[0] = theirs->type;
	abort_flag->types[1] = ours->type;
	abort_flag->counts[0] = theirs->count;
	abort_flag->counts[1] = ours->count;
	rd_emulated_give_up(abort_flag, RD_ABORT_TRANSFER, peer);
}

bool rd_emulated_waited(
	struct rd_abort_flag *abort_flag, uint64_t waited_ns, uint64_t timeout_ns, int peer)
{
	if (waited_ns > RD_HALT_SLOW_NS)
		__atomic_store_n(&abort_flag->slow, (uint32_t)peer + 1, __ATOMIC_RELAXED);
	return waited_ns > timeout_ns;
}

bool rd_emulated_await(struct rd_abort_flag *abort_flag, uint64_t timeout_ns, const uint32_t *flag,
	uint32_t number, int peer)
{
	int64_t began = rd_clock_ns();

	while (!rd_flag_reached(flag, number)) {
		if (__atomic_load_n(&abort_flag->stop, __ATOMIC_ACQUIRE))
			return false;
		if (rd_emulated_waited(
			    abort_flag, (uint64_t)(rd_clock_ns() - began), timeout_ns, peer))
			return rd_emulated_give_up(abort_flag, RD_ABORT_SILENCE, peer);
		rd_flag_sleep(flag, __atomic_load_n(flag, __ATOMIC_ACQUIRE), LOOK_NS);
	}
	return true;
}

static bool wait_for(const struct rd_work *work, const uint32_t *flag, uint32_t epoch, int peer)
{
	return rd_emulated_await(work->abort_flag, work->timeout_ns, flag, epoch, peer);
}

static void announce(const struct rd_work *work, int peer, uint32_t epoch)
{
	struct rd_device_entry *entry = &work->peer_device_flags[peer]->entered[work->rank][0];
	uint64_t in = (uintptr_t)work->in[work->rank] + work->in_for[peer];
	uint64_t out = (uintptr_t)work->out[work->rank] + work->out_for[peer];

	entry->in_low = (uint32_t)in;
	entry->in_high = (uint32_t)(in >> 32);
	entry->out_low = (uint32_t)out;
	entry->out_high = (uint32_t)(out >> 32);
	entry->factor_low = (uint32_t)work->factors[work->rank];
	entry->factor_high = (uint32_t)(work->factors[work->rank] >> 32);
	entry->signature = work->signatures[peer];
	rd_flag_write(&entry->epoch_a, epoch);
}

static bool meet(struct rd_work *work, int peer, uint32_t epoch)
{
	const struct rd_device_entry *entry =
		&work->peer_device_flags[work->rank]->entered[peer][0];

	if (!wait_for(work, &entry->epoch_a, epoch, peer))
		return false;
	if (entry->signature != work->signatures[peer])
		return rd_emulated_give_up(work->abort_flag, RD_ABORT_MISMATCH, peer);
	if (work->exchanges) {
		work->in[peer] =
			(const char *)(uintptr_t)((uint64_t)entry->in_high << 32 | entry->in_low);
		work->out[peer] =
			(char *)(uintptr_t)((uint64_t)entry->out_high << 32 | entry->out_low);
		work->factors[peer] = (uint64_t)entry->factor_high << 32 | entry->factor_low;
	}
	return true;
}

static bool enter(struct rd_work *work, uint32_t epoch)
{
	for (int peer = 0; peer < work->size; peer++)
		if (peer != work->rank)
			announce(work, peer, epoch);
	for (int peer = 0; peer < work->size; peer++)
		if (peer != work->rank && !meet(work, peer, epoch))
			return false;
	return true;
}

static void leave(const struct rd_work *work, uint32_t epoch)
{
	for (int peer = 0; peer < work->size; peer++)
		if (peer != work->rank)
			rd_flag_write(&work->peer_device_flags[peer]->left[work->rank][0], epoch);
	for (int peer = 0; peer < work->size; peer++)
		if (peer != work->rank &&
			!wait_for(work, &work->peer_device_flags[work->rank]->left[peer][0], epoch,
				peer))
			return;
}

/* ---- Small calls --------------------------------------------------------------------------- */

/* What an ll_buffer holds, of one rank: the epoch, when all the rest is there. */
struct letter {
	uint32_t epoch, signature, unused[2];
	char data[RD_LL_BUFFER_SIZE];
};

_Static_assert(sizeof(struct letter) <= sizeof(((struct rd_device_flags *)0)->ll_buffer[0][0]),
	"a letter fits");

static struct letter *letter_of(const struct rd_work *work, int owner, int sender, uint32_t epoch)
{
	return (struct letter *)work->peer_device_flags[owner]->ll_buffer[epoch & 1][sender];
}

static bool has_data(const struct rd_work *work, int from, int to)
{
	return work->count > 0 && (work->from < 0 || work->from == from) &&
	       (work->to < 0 || work->to == to);
}

static void post(const struct rd_work *work, int peer, uint32_t epoch)
{
	_Alignas(64) char scaled[PART];
	struct letter *letter = letter_of(work, peer, work->rank, epoch);
	size_t element = rondo_type_size(work->type), most = PART / element, count = 0;

	if (has_data(work, work->rank, peer))
		count = work->count;
	for (size_t done = 0; done < count; done += most) {
		size_t n = count - done < most ? count - done : most, at = done * element;

		memcpy(letter->data + at,
			input(work, work->rank, (size_t)peer * work->in_stride + at, n, scaled),
			n * element);
	}
	letter->signature = work->signatures[peer];
	rd_flag_write(&letter->epoch, epoch);
}

/* Ours too goes through an ll_buffer, for in place it would be written over. */
static void run_small(const struct rd_work *asked, uint32_t epoch)
{
	struct rd_work work = *asked;
	struct rd_work_step step = { .kind = RD_WORK_COMBINE, .last = 1, .count = work.count };

	for (int peer = 0; peer < work.size; peer++)
		post(asked, peer, epoch);
	for (int peer = 0; peer < work.size; peer++) {
		const struct letter *letter = letter_of(asked, work.rank, peer, epoch);

		if (!wait_for(asked, &letter->epoch, epoch, peer))
			return;
		if (letter->signature != work.signatures[peer]) {
			rd_emulated_give_up(work.abort_flag, RD_ABORT_MISMATCH, peer);
			return;
		}
		work.in[peer] = letter->data;
	}
	work.scales = 0;
	step.peer = (int8_t)work.rank;
	if (work.combines && has_data(asked, 0, work.rank))
		combine(&work, &step);
	for (step.peer = 0; step.peer < work.size && !work.combines; step.peer++) {
		step.out_at = (size_t)step.peer * work.out_stride;
		if (has_data(asked, step.peer, work.rank))
			fetch(&work, &step);
	}
}

void rd_emulated_run(const struct rd_work *asked)
{
	struct rd_work work = *asked;

	if (!work.fused) {
		/* Waits that were only let go are no barrier: peers' memory may be gone. */
		if (!__atomic_load_n(&work.abort_flag->stop, __ATOMIC_ACQUIRE))
			run_steps(&work);
		return;
	}

	uint32_t epoch = ++work.peer_device_flags[work.rank]->epochs[0];

	if (work.small) {
		run_small(&work, epoch);
		return;
	}
	if (!enter(&work, epoch))
		return;
	run_steps(&work);
	leave(&work, epoch);
}
