/* Whole training runs: ranks that share a global batch train as one rank alone does. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "train/data/data.h"
#include "train/base/fail.h"
#include "train/checkpoint/safetensors.h"
#include "train/job.h"
#include "train/option_table.h"
#include "train/scratch.h"

TestSuite(train, .init = make_data, .fini = scratch_remove, .timeout = 600);

static void expect_ranks_like_one(int hosts)
{
	static const int sizes[] = { 1, 2, 3, 4, 8 };
	struct job one = make_job();
	run_plain(&one);
	/* The loss must fall: else equality means nothing. */
	cr_assert(one.outcome->losses[STEPS - 2] < one.outcome->losses[0] - MLP_LOSS_BOUND);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct job many = make_job();
		many.hosts = hosts;
		run_ranks(&many, sizes[i]);
		expect_near(many.outcome, one.outcome, sizes[i]);
	}
}

Test(train, ranks_train_as_one_does_over_shm)
{
	setenv("RONDO_TRANSPORT", "shm", 1);
	expect_ranks_like_one(1);
}

Test(train, ranks_train_as_one_does_over_tcp)
{
	setenv("RONDO_TRANSPORT", "tcp", 1);
	expect_ranks_like_one(1);
}

Test(train, ranks_train_as_one_does_over_shm_and_tcp_mixed)
{
	expect_ranks_like_one(2);
}

Test(train, a_rank_without_a_launcher_trains_as_one)
{
	struct job one = make_job(), many = make_job();
	run_plain(&one);
	cr_assert_eq(run_rank(&many), 0, "%s", many.outcome->reason);
	expect_near(many.outcome, one.outcome, 1);
}

static bool steps_in_backward;

static void note_stepped(struct train *train, int step)
{
	(void)step;
	steps_in_backward = train->model->parameters.list[0].stepped;
}

Test(train, a_step_in_backward_has_the_bits_of_the_optimizers)
{
	struct job with = make_job(), without = make_job();
	with.change = without.change = note_stepped;
	with.options.learning_rate = without.options.learning_rate = 0.3; /* not a power of 2 */
	cr_assert_eq(run_rank(&with), 0, "%s", with.outcome->reason);
	cr_assert(steps_in_backward);
	without.options.deterministic = true;
	without.options.shards = 1;
	cr_assert_eq(run_rank(&without), 0, "%s", without.outcome->reason);
	cr_assert_not(steps_in_backward);
	cr_assert_eq(with.outcome->hashes[0], without.outcome->hashes[0]);
}

static void require_gradients(struct job job)
{
	job.change = note_stepped;
	cr_assert_eq(run_rank(&job), 0, "%s", job.outcome->reason);
	cr_assert_not(steps_in_backward);
}

Test(train, backward_takes_no_step_where_gradients_are_used)
{
	struct job momentum = make_job(), decay = make_job(), clip = make_job(), sum = make_job();
	struct job zero = make_job();
	momentum.options.momentum = 0.9f;
	require_gradients(momentum);
	decay.options.weight_decay = 0.1f;
	require_gradients(decay);
	clip.options.clip = 1;
	require_gradients(clip);
	sum.options.accumulate = 2;
	require_gradients(sum);
	zero.options.zero = true;
	require_gradients(zero);
}

Test(train, whole_epochs_are_their_steps)
{
	struct job one = make_job(), many = make_job();
	run_plain(&one);
	many.options.checkpoint = scratch_path("it");
	memcpy(many.outcome->losses, one.outcome->losses, sizeof(one.outcome->losses));
	run_ranks(&many, 2);
	expect_near(many.outcome, one.outcome, 2);
}

Test(train, many_small_buckets_change_nothing_but_rounding)
{
	struct job one = make_job(), many = make_job();
	run_plain(&one);
	many.options.bucket_mb = 0.001;
	run_ranks(&many, 3);
	expect_near(many.outcome, one.outcome, 3);
}

Test(train, overlap_changes_no_bit)
{
	struct job with = make_job(), without = make_job();
	without.options.no_overlap = true;
	expect_same_hash(with, without, 2);
}

Test(train, a_run_stops_after_its_steps)
{
	struct job job = make_job(), whole = make_job();
	job.reports = whole.reports = true;
	job.options.steps = EPOCH_STEPS + 3;
	run_ranks(&job, 2);
	/* The second epoch ends early: no second test. */
	const char *second = strstr(job.outcome->report, "Epoch 2");
	cr_assert(second, "%s", job.outcome->report);
	cr_assert_null(strstr(second, "Test Error"));
	cr_assert(strstr(second, "images/s"));
	whole.options.steps = STEPS;
	run_ranks(&whole, 2);
	cr_assert(strstr(strstr(whole.outcome->report, "Epoch 2"), "Test Error"));
	cr_assert_neq(job.outcome->hashes[0], whole.outcome->hashes[0]);
}

Test(train, a_run_is_the_same_every_time)
{
	expect_same_hash(make_job(), make_job(), 3);
}

static bool is_in_order;

static void note_order(struct train *train, int step)
{
	is_in_order = step == 0 || is_in_order;
	for (uint32_t i = 0; i < IMAGES; i++)
		is_in_order = is_in_order && train->train_sampler->order[i] == i;
}

Test(train, samples_are_shuffled_unless_asked_not_to)
{
	struct job with = make_job(), without = make_job();
	with.change = without.change = note_order;
	cr_assert_eq(run_rank(&with), 0, "%s", with.outcome->reason);
	cr_assert_not(is_in_order);
	without.options.no_shuffle = true;
	cr_assert_eq(run_rank(&without), 0, "%s", without.outcome->reason);
	cr_assert(is_in_order);
}

Test(train, worker_threads_change_no_bit)
{
	static const int workers[] = { 1, 4 };
	for (int i = 0; i < 2; i++) {
		struct job without = make_job(), with = make_job();
		with.options.workers = workers[i];
		expect_same_hash(without, with, 2);
	}
}

Test(train, a_resumed_run_continues_to_the_bit)
{
	for (int size = 1; size <= 3; size += 2) {
		struct job whole = make_job(), half = make_job(), rest = make_job();
		char line[512];
		whole.options.epochs = half.options.epochs = 3;
		whole.options.seed = half.options.seed = 77;
		whole.options.checkpoint = scratch_path("whole");
		run_ranks(&whole, size);
		half.options.epochs = 1;
		half.options.checkpoint = rest.options.checkpoint = scratch_path("half");
		half.reports = true;
		run_ranks(&half, size);
		snprintf(line, sizeof(line), "\nSaved checkpoint %s after epoch 1\n",
			scratch_path("half"));
		cr_assert(strstr(half.outcome->report, line), "%s", half.outcome->report);
		/* Seed and global batch come from the checkpoint. */
		rest.options.resume = scratch_path("half");
		rest.options.global_batch = -1;
		rest.options.epochs = 3;
		run_ranks(&rest, size);
		cr_assert_eq(rest.outcome->hashes[0], whole.outcome->hashes[0]);
		cr_assert_neq(half.outcome->hashes[0], whole.outcome->hashes[0]);
	}
}

/* The same command line starts a run and continues it, on other ranks as well. */
Test(train, an_auto_resumed_run_starts_without_a_checkpoint_and_continues_with_one)
{
	struct job whole = make_job(), first = make_job(), second = make_job();
	whole.options.epochs = second.options.epochs = 3;
	whole.reports = second.reports = true; /* more epochs than there is room for losses */
	run_ranks(&whole, 2);
	first.options.auto_resume = second.options.auto_resume = true;
	first.options.checkpoint = second.options.checkpoint = scratch_path("auto");
	first.options.epochs = 2;
	run_ranks(&first, 2);
	run_ranks(&second, 2);
	cr_assert_eq(second.outcome->hashes[0], whole.outcome->hashes[0]);
	cr_assert(strstr(second.outcome->report, "Epoch 3\n"), "%s", second.outcome->report);
	cr_assert_null(strstr(second.outcome->report, "Epoch 2\n"));
}

/* The state of the optimizer and the settings of the run are in the checkpoint, too. */
static void expect_resumed(struct job whole, int size)
{
	struct job half = make_job(), rest = make_job();
	half.options = whole.options;
	run_ranks(&whole, size);
	half.options.epochs = 1;
	half.options.checkpoint = rest.options.resume = scratch_path("half");
	run_ranks(&half, size);
	rest.options.global_batch = -1;
	rest.options.learning_rate = -1;
	rest.options.optimizer = -1;
	rest.options.momentum = -1;
	rest.options.weight_decay = -1;
	rest.options.epochs = whole.options.epochs;
	run_ranks(&rest, size);
	cr_assert_eq(rest.outcome->hashes[0], whole.outcome->hashes[0]);
}

Test(train, a_resumed_run_with_momentum_continues_to_the_bit)
{
	struct job whole = make_job();
	whole.options.momentum = 0.9;
	whole.options.nesterov = true;
	whole.options.clip = 0.5;
	expect_resumed(whole, 2);
}

Test(train, a_resumed_run_with_adam_continues_to_the_bit)
{
	struct job whole = make_job();
	whole.options.optimizer = OPTIMIZER_ADAMW;
	whole.options.learning_rate = 1e-3;
	whole.options.beta1 = 0.9;
	whole.options.beta2 = 0.999;
	whole.options.schedule = SCHEDULE_STEP;
	whole.options.lr_period = 1;
	whole.options.lr_gamma = 0.5;
	expect_resumed(whole, 2);
}

Test(train, another_optimizer_starts_without_the_state)
{
	struct job half = make_job(), rest = make_job();
	half.options.momentum = 0.9;
	half.options.epochs = 1;
	half.options.checkpoint = rest.options.resume = scratch_path("half");
	run_ranks(&half, 1);
	rest.options.optimizer = OPTIMIZER_ADAM;
	rest.options.learning_rate = 1e-3;
	rest.options.beta1 = rest.options.beta2 = 0.9;
	rest.options.given[option_number("optimizer")] = true;
	rest.options.given[option_number("lr")] = true;
	rest.reports = true;
	run_ranks(&rest, 1);
	cr_assert(strstr(rest.outcome->report, "has the state of sgd: adam starts without"), "%s",
		rest.outcome->report);
}

Test(train, a_damaged_checkpoint_gives_way_to_the_one_before)
{
	struct job whole = make_job(), rest = make_job(), again = make_job();
	whole.options.checkpoint = scratch_path("it");
	run_ranks(&whole, 2);
	cr_assert_eq(truncate(scratch_path("it"), 1000), 0);
	rest.options.resume = scratch_path("it");
	rest.reports = true;
	run_ranks(&rest, 2);
	cr_assert(strstr(rest.outcome->report, "going on from"), "%s", rest.outcome->report);
	cr_assert_eq(rest.outcome->hashes[0], whole.outcome->hashes[0]);
	/* Its directory keeps the checkpoint before; without that, the damage is an error. */
	cr_assert_eq(unlink(scratch_path("it.previous")), 0);
	again.options.resume = scratch_path("it");
	expect_failure(&again, 2, "it: is damaged");
}

Test(train, an_exported_model_has_the_parameters)
{
	struct job job = make_job();
	struct stored stored;
	job.options.export = scratch_path("it.safetensors");
	run_ranks(&job, 2);
	FILE *file = fopen(scratch_path("it.safetensors"), "rb");
	cr_assert(file);
	cr_assert_eq(safetensors_read("it", file, &stored), 0, "%s", failure());
	fclose(file);
	const struct stored_tensor *bias = stored_find(&stored, "", "linear_relu_stack.4.bias");
	cr_assert(bias);
	cr_assert_eq(stored.tensor_count, 6);
	cr_assert_arr_eq(bias->values, job.outcome->parameters + PARAMETERS - 10, 40);
	stored_finish(&stored);
}

Test(train, a_checkpoint_of_two_ranks_resumes_on_four)
{
	struct job two = make_job(), four = make_job(), one = make_job();
	run_plain(&one);
	two.options.epochs = 1;
	two.options.checkpoint = scratch_path("it");
	run_ranks(&two, 2);
	four.options.resume = scratch_path("it");
	memcpy(four.outcome->losses, one.outcome->losses, sizeof(one.outcome->losses) / 2);
	run_ranks(&four, 4);
	expect_near(four.outcome, one.outcome, 4);
}

Test(train, an_error_of_one_rank_ends_all_with_one_reason)
{
	struct job missing = make_job(), uneven = make_job(), lost = make_job();
	missing.options.data = scratch_path("nothing");
	missing.options.set = set_named("fashion");
	expect_failure(&missing, 3, "holds no FashionMNIST");
	uneven.options.global_batch = 50;
	expect_failure(&uneven, 3, "does not divide by 3 ranks");
	lost.options.resume = scratch_path("lost");
	expect_failure(&lost, 3, "lost: No such file");
}

Test(train, a_data_set_that_lacks_a_file_is_not_replaced_by_a_drawn_one)
{
	struct job lacking = make_job(), foreign = make_job();
	cr_assert_eq(mkdir(scratch_path("mine"), 0755), 0);
	for (int i = 0; i < 3; i++) {
		char name[64];
		snprintf(name, sizeof(name), "mine/%s", data_idx.files[i]);
		scratch_write(name, "", 0);
	}
	lacking.options.data = scratch_path("mine");
	expect_failure(&lacking, 2, "lacks t10k-labels-idx1-ubyte");
	cr_assert_eq(mkdir(scratch_path("theirs"), 0755), 0);
	scratch_write("theirs/photo.png", "", 0);
	foreign.options.data = scratch_path("theirs");
	expect_failure(&foreign, 2, "holds photo.png, but none of the files");
}

Test(train, a_set_that_the_model_does_not_read_is_refused)
{
	struct job shapes = make_job(), text = make_job(), file = make_job(), apart = make_job();
	cr_assert_eq(set_draw(set_named("drawn-cifar"), scratch_path(""), 10, 2), 0);
	shapes.options.set = set_named("drawn-cifar");
	expect_failure(
		&shapes, 2, "drawn-cifar: holds CIFAR-10 files, and --model mlp reads IDX files");
	scratch_write("novel", "words", 5);
	text.options.data = file.options.data = scratch_path("novel");
	text.options.set = set_named("text");
	expect_failure(&text, 2, "novel: holds text files, and --model mlp reads IDX files");
	expect_failure(&file, 2, "novel: is a file, but a set of IDX images is a directory");
	apart.options.test_data = scratch_path("novel");
	expect_failure(&apart, 2, "novel: is for a text, and");
}

Test(train, a_checkpoint_that_cannot_be_saved_ends_all_ranks)
{
	struct job job = make_job();
	job.options.checkpoint = scratch_path("no/such/dir");
	expect_failure(&job, 2, "no/such/dir: cannot write");
}

static void exit_before_a_step(int rank, int step)
{
	(void)rank, (void)step;
	_exit(9);
}

Test(train, an_export_that_cannot_be_written_fails_before_training)
{
	struct job lost = make_job(), directory = make_job();
	lost.before_step = directory.before_step = exit_before_a_step;
	lost.options.export = scratch_path("no/model");
	expect_failure(&lost, 2, "no/model: cannot write");
	directory.options.export = scratch_path("");
	expect_failure(&directory, 2, "cannot write: is not a regular file");
}

Test(train, a_global_batch_that_is_too_large_is_one_line)
{
	struct job job = make_job();
	job.options.global_batch = -1;
	job.options.batch = job.options.accumulate = 65536;
	expect_failure(&job, 2, "a global batch of 8589934592 samples is above 16777216");
}
