#include "train/parallel/times.h"

#include "train/base/clock.h"
#include "train/base/fail.h"

static int step_moments(const struct ddp *ddp)
{
	return BUCKET_MOMENTS * ddp->bucket_count + STEP_MOMENTS;
}

static int number_of_bucket(const struct ddp *ddp, int turn, int bucket, enum bucket_moment moment)
{
	return turn * step_moments(ddp) + STEP_MOMENTS + BUCKET_MOMENTS * bucket + moment;
}

static int number_of_step(const struct ddp *ddp, int turn, enum step_moment moment)
{
	return turn * step_moments(ddp) + moment;
}

/* A rank alone has no communication. */
static bool measures(const struct ddp *ddp)
{
	return ddp->world->comm && !ddp->config.beside;
}

int times_open(struct ddp *ddp)
{
	if (!measures(ddp))
		return 0;
	return ddp->device->ops->moments(ddp->device, 2 * step_moments(ddp));
}

void times_bucket(
	struct ddp *ddp, enum track track, const struct bucket *bucket, enum bucket_moment moment)
{
	if (measures(ddp))
		ddp->device->ops->record(ddp->device, track,
			number_of_bucket(ddp, ddp->turn, bucket->number, moment));
}

void times_step(struct ddp *ddp, enum step_moment moment)
{
	if (measures(ddp))
		ddp->device->ops->record(
			ddp->device, COMPUTATION, number_of_step(ddp, ddp->turn, moment));
}

/* Seconds from the step's begin to this moment. */
static double since(struct ddp *ddp, int turn, int moment)
{
	return ddp->device->ops->between(
		ddp->device, number_of_step(ddp, turn, STEP_BEGAN), moment);
}

static void add_bucket(
	struct ddp *ddp, int turn, struct bucket *bucket, double paused_s, double resumed_s)
{
	int number = bucket->number;
	struct bucket_times times = {
		.ready_s = since(ddp, turn, number_of_bucket(ddp, turn, number, BUCKET_READY)),
		.launched_s = since(ddp, turn, number_of_bucket(ddp, turn, number, BUCKET_STARTED)),
		.done_s = since(ddp, turn, number_of_bucket(ddp, turn, number, BUCKET_ENDED)),
	};
	double from_s = times.launched_s > paused_s ? times.launched_s : paused_s;
	double to_s = times.done_s < resumed_s ? times.done_s : resumed_s;
	times.exposed_s = to_s > from_s ? to_s - from_s : 0;
	bucket->sums.ready_s += times.ready_s;
	bucket->sums.launched_s += times.launched_s;
	bucket->sums.done_s += times.done_s;
	bucket->sums.exposed_s += times.exposed_s;
	ddp->busy_s += times.done_s - times.launched_s;
	if (ddp->config.timed)
		ddp->config.timed(ddp->config.timed_argument, bucket, ddp->start_s[turn], &times);
}

/* Adds up the times that the last step of this turn recorded. Waits for the end of that step. */
static void add(struct ddp *ddp, int turn)
{
	if (!ddp->noted[turn])
		return;
	double paused_s = since(ddp, turn, number_of_step(ddp, turn, STEP_PAUSED));
	double resumed_s = since(ddp, turn, number_of_step(ddp, turn, STEP_RESUMED));
	for (int b = 0; b < ddp->bucket_count; b++)
		add_bucket(ddp, turn, &ddp->buckets[b], paused_s, resumed_s);
	ddp->wait_s += resumed_s - paused_s;
	ddp->timed_steps++;
	ddp->noted[turn] = false;
}

void times_begin(struct ddp *ddp)
{
	ddp->turn = !ddp->turn;
	add(ddp, ddp->turn);
	ddp->start_s[ddp->turn] = clock_seconds();
	times_step(ddp, STEP_BEGAN);
}

void times_end(struct ddp *ddp)
{
	ddp->noted[ddp->turn] = measures(ddp);
}

int ddp_times(struct ddp *ddp, double *busy_s, double *wait_s)
{
	int err = ddp->stream ? rondo_stream_synchronize(ddp->stream) : 0;
	if (err)
		return fail_comm(err, "sum of gradients");
	add(ddp, !ddp->turn);
	add(ddp, ddp->turn);
	*busy_s = ddp->busy_s;
	*wait_s = ddp->wait_s;
	ddp->busy_s = ddp->wait_s = 0;
	return 0;
}
