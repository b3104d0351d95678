/*
 * rondo-train: trains an image classifier, alone or data-parallel over Rondo. It is an example to
 * copy; train.c and ddp.c come next.
 */
#include <cblas.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo.h>

#include "base/descriptor.h"
#include "train/base/fail.h"
#include "train/data/fetch.h"
#include "train/metrics/places.h"
#include "train/options.h"
#include "train/threads.h"
#include "train/recovery.h"
#include "train/train.h"

/* Unless the user has set them. */
static void set_threads(const struct options *options, int processors)
{
	/* Ranks that are threads would wait for each other in OpenBLAS's threads. */
	if (options->threads > 1 || options->deterministic)
		openblas_set_num_threads(1);
	else if (!getenv("OPENBLAS_NUM_THREADS") && !getenv("OMP_NUM_THREADS"))
		openblas_set_num_threads(processors);
}

static int report_device(struct report *report, const struct device *device,
	const struct train_world *world, int local_rank)
{
	char text[sizeof(device->name) + 32];
	int threads = openblas_get_num_threads();
	report_line(report, "Using %s device", device->number < 0 ? "cpu" : "cuda");
	if (device->number < 0)
		snprintf(text, sizeof(text), "cpu (%d thread%s)", threads, threads > 1 ? "s" : "");
	else
		snprintf(text, sizeof(text), "cuda:%d (%s)", device->number, device->name);
	return places_report(report, world, local_rank, text);
}

/* With --shrink: the steps of the run are kept. After a death it continues. */
static int go_on(struct train *run, struct recovery *recovery)
{
	if (!run->options.shrink || !run->world->comm)
		return 0;
	run->recovery = recovery;
	return recovery_restore(recovery, run);
}

static int train(const struct place_of_rank *place, const struct groups *groups,
	struct device *device, struct recovery *recovery, int *status)
{
	const struct train_world *world = groups->world;
	struct options options = *place->options;
	struct train *run;
	struct report report;
	uint64_t hash;
	/* A step stays what it was. */
	if (recovery->global_batch)
		options.global_batch = recovery->global_batch;
	report_init(&report, world->rank ? NULL : stdout);
	int err = report_device(&report, device, world, place->local_rank);
	if (!err)
		err = train_create(&run, &options, groups, device, &report);
	if (err)
		return err;
	report_model(&report, run->model);
	err = go_on(run, recovery);
	if (!err && train_done(run))
		report_line(&report, "Nothing to train: %llu epochs are done, of %d",
			(unsigned long long)run->epochs, run->options.epochs);
	while (!err && !train_done(run))
		err = train_epoch(run);
	bool stopped = !err && train_stopped(run);
	/* First: rank 0 may write large files at the end. */
	if (!err && !stopped)
		err = train_hash(run, &hash);
	if (!err)
		err = train_finish(run);
	if (!err && stopped)
		*status = 128 + SIGTERM;
	else if (!err && world->size > 1)
		report_line(&report, "Done! Parameters: identical on %d ranks (hash %016llx)",
			world->size, (unsigned long long)hash);
	else if (!err)
		report_line(&report, "Done! Parameters: hash %016llx", (unsigned long long)hash);
	if (err > 0)
		groups_abort(groups);
	train_destroy(run);
	return err;
}

static int train_in_groups(const struct place_of_rank *place, const struct train_world *world,
	struct device *device, struct recovery *recovery, int *status)
{
	const struct options *options = place->options;
	struct groups groups;
	int err = groups_open(&groups, world, options->tensor, options->pipeline);
	if (!err)
		err = train(place, &groups, device, recovery, status);
	return groups_close(&groups, err);
}

/* Until it ends, or no rank has died. */
static int train_and_go_on(const struct place_of_rank *place, struct train_world *world,
	struct device *device, int *status)
{
	struct recovery recovery = { 0 };
	int err;
	do
		err = train_in_groups(place, world, device, &recovery, status);
	while (err < 0 && place->options->shrink && recovery_shrink(world));
	recovery_finish(&recovery);
	return err;
}

/* One rank, from beginning to end; returns its exit status. */
static int run_rank(const struct place_of_rank *place)
{
	struct train_world world;
	struct device *device;
	int status = EXIT_SUCCESS;
	int lacks = device_create(&device, place->options->device, place->local_rank);
	/* A rank without a device joins, too, so that the others fail with it. */
	int gpu = device ? device->number : -1;
	int err =
		place->config ? world_open_as(&world, gpu, place->config) : world_open(&world, gpu);
	if (!err) {
		err = world_agree(&world, lacks);
		if (!err)
			err = train_and_go_on(place, &world, device, &status);
		err = world_close(&world, err);
	}
	device_destroy(device);
	/* The rank that aborted prints the reason. */
	if (err && err != RONDO_REVOKED)
		fprintf(stderr, "rondo-train: %s\n", failure());
	return err ? EXIT_FAILURE : status;
}

/* False, with a line, where a full disk has taken a part. */
static bool has_printed(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return true;
	fprintf(stderr, "rondo-train: cannot write standard output\n");
	return false;
}

/* A process: one rank, or several in threads. */
static int run_process(void *argument)
{
	const struct options *options = argument;
	struct rondo_launch launch;
	if (world_find_launch(&launch)) {
		fprintf(stderr, "rondo-train: %s\n", failure());
		return EXIT_FAILURE;
	}
	/* Without local numbers, all ranks count as ranks of this host. */
	int local = launch.local_rank < 0 ? launch.rank : launch.local_rank;
	const struct place_of_rank place = { .options = options, .local_rank = local };
	set_threads(options, launch.processors);
	int status = options->threads > 1 ? threads_run(options, options->threads, local, run_rank)
					  : run_rank(&place);
	return has_printed() || status ? status : EXIT_FAILURE;
}

static int fetch(struct options *options)
{
	if (!options->fetch)
		return 0;
	const struct network *network = options->network;
	if (!options->set)
		options->set = set_fetched(network ? network->data : &data_idx);
	if (!options->set)
		return fail("--fetch: no text has a known publisher: --data FILE takes any");
	return fetch_set(options->set, options->data, options->mirror);
}

int main(int argc, char **argv)
{
	struct options options;
	int status = EXIT_SUCCESS, err;
	rd_stderr_fill();
	err = options_parse(&options, argc, argv);
	if (err < 0)
		return has_printed() ? EXIT_SUCCESS : EXIT_FAILURE;
	if (!err)
		err = fetch(&options);
	if (!err && options.checkpoint)
		err = interrupt_catch();
	if (!err && options.ranks > 1)
		status = rondo_spawn(options.ranks, run_process, &options);
	else if (!err)
		status = run_process(&options);
	if (status < 0)
		err = fail_comm(status, "cannot start the ranks");
	if (err)
		fprintf(stderr, "rondo-train: %s\n", failure());
	return err ? EXIT_FAILURE : status;
}
