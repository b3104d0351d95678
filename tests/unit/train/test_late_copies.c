/* A resumed run starts from rank 0's values, however late a device copies what a rank drew. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "train/job.h"
#include "train/scratch.h"

TestSuite(late_copies, .init = make_data, .fini = scratch_remove, .timeout = 600);

/* A put of rank 1's that its device has yet to do. */
static struct {
	const struct device_ops *ops; /* of the device itself */
	void *to, *bytes;
	size_t size;
} late;

static void copy_now(struct device *device)
{
	if (late.bytes)
		late.ops->put(device, late.to, late.bytes, late.size);
	free(late.bytes);
	late.bytes = NULL;
}

static void put(struct device *device, void *to, const void *from, size_t size)
{
	copy_now(device);
	late.to = to;
	late.size = size;
	late.bytes = malloc(size);
	cr_assert(late.bytes);
	memcpy(late.bytes, from, size);
}

static int wait(struct device *device)
{
	copy_now(device);
	return late.ops->wait(device);
}

static void delay(struct device *device, int rank)
{
	static struct device_ops ops;
	if (rank != 1)
		return;
	late.ops = device->ops;
	ops = *device->ops;
	ops.put = put;
	ops.wait = wait;
	device->ops = &ops;
}

Test(late_copies, are_waited_for_before_ranks_share_a_checkpoint)
{
	struct job half = make_job(), rest = make_job();
	half.options.epochs = 1;
	half.options.checkpoint = rest.options.resume = scratch_path("half");
	run_ranks(&half, 2);
	rest.options.global_batch = -1;
	rest.reports = true; /* it waits for the device after each epoch */
	rest.opened = delay;
	run_ranks(&rest, 2);
}
