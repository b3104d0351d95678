/* The C interface over ranks: hooks of one's own, and tensors that some ranks do not use. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "train/base/fail.h"
#include "train/parallel/hook.h"

#define SIZE 3
#define TENSORS 4

static char (*reasons)[256]; /* [SIZE], shared with the ranks */

static void share(void)
{
	reasons = mmap(NULL, SIZE * sizeof(*reasons), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(reasons, MAP_FAILED);
}

TestSuite(hooks, .init = share, .timeout = 60);

static const int counts[TENSORS] = { 40, 7, 100, 3 };

/* Rank r writes (r + 1) * (t + 1) to tensor t's gradient. */
static int produce(struct ddp *ddp, int rank, int t)
{
	const struct tensor *tensor = &ddp->parameters->list[t];
	for (size_t i = 0; i < tensor->count; i++)
		tensor->grad[i] = (float)((rank + 1) * (t + 1));
	return ddp_ready(ddp, t);
}

static int expect(const struct ddp *ddp, int t, float number)
{
	const struct tensor *tensor = &ddp->parameters->list[t];
	for (size_t i = 0; i < tensor->count; i++)
		if (tensor->grad[i] != number)
			return fail("tensor %d, element %zu: %g, not %g", t, i, tensor->grad[i],
				number);
	return 0;
}

typedef int use_ddp(struct ddp *ddp);

struct work {
	use_ddp *use;
	struct ddp_config config;
};

static int run_rank(void *argument)
{
	const struct work *work = argument;
	struct train_world world;
	struct device *cpu;
	struct ddp *ddp = NULL;
	struct tensor list[TENSORS] = { { .count = 0 } };
	struct tensors tensors = { .list = list, .count = TENSORS };
	for (int t = 0; t < TENSORS; t++) {
		list[t].count = counts[t];
		snprintf(list[t].name, sizeof(list[t].name), "tensor%d", t);
		tensors.elements += tensor_span(&list[t]);
	}
	int err = device_create(&cpu, DEVICE_CPU, 0);
	if (!err)
		err = world_open(&world, -1);
	if (!err)
		err = ddp_create(&ddp, &world, cpu, &tensors, &work->config);
	for (int step = 0; !err && step < 3; step++)
		err = work->use(ddp);
	if (err)
		snprintf(reasons[world.rank], sizeof(reasons[0]), "%s", failure());
	if (err > 0)
		world_abort(&world);
	ddp_destroy(ddp);
	err = world_close(&world, err);
	device_destroy(cpu);
	return err != 0;
}

static void run(use_ddp *use, struct ddp_config config)
{
	struct work work = { use, config };
	work.config.bucket_size = 256;
	memset(reasons, 0, SIZE * sizeof(*reasons));
	cr_assert_eq(rondo_spawn(SIZE, run_rank, &work), 0, "'%s' '%s' '%s'", reasons[0],
		reasons[1], reasons[2]);
}

/* ---- Unused tensors ---- */

/* Rank r uses all tensors but r; no rank uses tensor 3. */
static int leave_out(struct ddp *ddp)
{
	int rank = ddp->world->rank, err = ddp_begin(ddp, 0, 1);
	for (int t = 2; !err && t >= 0; t--)
		if (t != rank)
			err = produce(ddp, rank, t);
	if (!err)
		err = ddp_wait(ddp);
	for (int t = 0; !err && t < 3; t++)
		err = expect(ddp, t, (float)((6 - (t + 1)) * (t + 1)));
	return err ? err : expect(ddp, 3, 0);
}

Test(hooks, tensors_that_other_ranks_use_get_their_sums)
{
	run(leave_out, (struct ddp_config){ .find_unused = true });
}

static int declare(struct ddp *ddp)
{
	int rank = ddp->world->rank, err = ddp_begin(ddp, 0, 1);
	if (!err)
		err = ddp_unused(ddp, 3);
	for (int t = 2; !err && t >= 0; t--)
		err = produce(ddp, rank, t);
	if (!err && ddp->launched != ddp->bucket_count)
		err = fail("%d of %d buckets are launched", ddp->launched, ddp->bucket_count);
	if (!err)
		err = ddp_wait(ddp);
	for (int t = 0; !err && t < 3; t++)
		err = expect(ddp, t, (float)(6 * (t + 1)));
	return err ? err : expect(ddp, 3, 0);
}

Test(hooks, declared_tensors_are_zero_on_all_ranks)
{
	run(declare, (struct ddp_config){ 0 });
}

/* ---- Hooks ---- */

/* The greatest gradient instead of the sum; finish() doubles it. */
static int launch_greatest(struct ddp *ddp, const struct bucket *bucket, void *argument)
{
	float *range = ddp->gradients + bucket->offset;
	int *launches = argument, err = ddp_start(ddp, bucket);
	if (bucket->number != *launches % ddp->bucket_count)
		return fail("bucket %d is out of turn", bucket->number);
	++*launches;
	return err ? err
		   : rondo_all_reduce(ddp->world->comm, range, range, bucket->count, RONDO_F32,
			     RONDO_MAX, ddp->stream);
}

static void finish_twice(struct ddp *ddp, const struct bucket *bucket, void *argument)
{
	(void)argument;
	ddp->device->ops->scale(ddp->device, bucket->count, 2, ddp->gradients + bucket->offset);
}

static int backward(struct ddp *ddp)
{
	/* Not in the order of buckets. */
	static const int order[TENSORS] = { 1, 3, 0, 2 };
	int err = ddp_begin(ddp, 0, 1);
	for (int i = 0; !err && i < TENSORS; i++)
		err = produce(ddp, ddp->world->rank, order[i]);
	return err ? err : ddp_wait(ddp);
}

static int use_greatest(struct ddp *ddp)
{
	int err = backward(ddp);
	for (int t = 0; !err && t < TENSORS; t++)
		err = expect(ddp, t, (float)(2 * SIZE * (t + 1)));
	return err;
}

Test(hooks, a_hook_of_ones_own_is_called_for_each_bucket_in_turn)
{
	int launches = 0;
	run(use_greatest, (struct ddp_config){ .hook = { .launch = launch_greatest,
						       .finish = finish_twice,
						       .argument = &launches } });
}

static int use_halves(struct ddp *ddp)
{
	int err = backward(ddp);
	/* Small numbers have no error in 16 bits. */
	for (int t = 0; !err && t < TENSORS; t++)
		err = expect(ddp, t, (float)(6 * (t + 1)));
	return err;
}

Test(hooks, compressed_sums_are_exact_where_16_bits_suffice)
{
	static const rondo_type types[] = { RONDO_F16, RONDO_BF16 };
	for (int i = 0; i < 2; i++) {
		struct compression *compression;
		struct device *cpu;
		cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0);
		cr_assert_eq(
			compression_create(&compression, cpu, 48 + 16 + 112 + 16, types[i]), 0);
		run(use_halves, (struct ddp_config){ .hook = compression_hook(compression) });
		compression_destroy(compression);
		device_destroy(cpu);
	}
}
