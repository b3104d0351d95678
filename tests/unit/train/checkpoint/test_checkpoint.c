#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train/base/draft.h"
#include "train/base/fail.h"
#include "train/checkpoint/checkpoint.h"
#include "filter.h"
#include "train/scratch.h"
#include "train/small.h"

static struct device *cpu;
static struct model *model;

static void begin(void)
{
	scratch_make();
	cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0, "%s", failure());
	model = small_model(cpu, (int[]){ 9, 8, 7 }, 3, 1, 1);
}

static void end(void)
{
	model_destroy(model);
	device_destroy(cpu);
	scratch_remove();
}

TestSuite(checkpoint, .init = begin, .fini = end);

#define SIZE_MAX_HERE 8192

static void (*once)(void);

static int run_once(const struct watched_call *call)
{
	void (*function)(void) = once;
	(void)call;
	once = NULL;
	if (function)
		function();
	return 0;
}

/* The function runs before the next such call of this process. */
static void run_before(unsigned call, void (*function)(void))
{
	once = function;
	if (!watch_calls(call, run_once))
		cr_skip_test("system calls cannot be watched here");
}

/* From here on the call fails with this errno. */
static void fail_call(unsigned call, unsigned error)
{
	if (!forbid(call, error))
		cr_skip_test("there are no filters of system calls here");
}

static void save_epoch_to(const char *name, const char *epochs)
{
	struct stored stored;
	stored_init(&stored);
	cr_assert_eq(stored_set(&stored, CHECKPOINT_VERSION_KEY, CHECKPOINT_VERSION), 0);
	cr_assert_eq(stored_set(&stored, CHECKPOINT_EPOCHS_KEY, epochs), 0);
	for (int t = 0; t < model->parameters.count; t++) {
		const struct tensor *tensor = &model->parameters.list[t];
		cr_assert_eq(stored_add(&stored, "", tensor, tensor->value), 0);
		cr_assert_eq(stored_add(&stored, "optimizer.0/", tensor, tensor->value), 0);
	}
	cr_assert_eq(checkpoint_save(scratch_path(name), &stored), 0, "%s", failure());
	stored_finish(&stored);
}

static void save_epoch(const char *epochs)
{
	save_epoch_to("it", epochs);
}

static size_t read_file(unsigned char bytes[SIZE_MAX_HERE])
{
	FILE *file = fopen(scratch_path("it"), "rb");
	cr_assert(file);
	size_t size = fread(bytes, 1, SIZE_MAX_HERE, file);
	cr_assert_lt(size, SIZE_MAX_HERE);
	fclose(file);
	return size;
}

/* Loading fails in one line that names the file. */
static void expect_failure(void)
{
	struct stored stored;
	char damage[CHECKPOINT_REASON];
	cr_assert_neq(checkpoint_load(scratch_path("it"), &stored, damage), 0);
	cr_assert(strstr(failure(), scratch_path("it")), "%s", failure());
	cr_assert_null(strchr(failure(), '\n'));
	cr_assert_null(stored.memory);
}

/* Loads it; the number of epochs must be this one, and the reason contain `damage`. */
static struct stored expect_epoch(int64_t epochs, const char *damage)
{
	struct stored stored;
	char reason[CHECKPOINT_REASON];
	int64_t number;
	cr_assert_eq(checkpoint_load(scratch_path("it"), &stored, reason), 0, "%s", failure());
	cr_assert(damage ? strstr(reason, damage) != NULL : !*reason, "%s", reason);
	cr_assert_eq(checkpoint_number("it", &stored, CHECKPOINT_EPOCHS_KEY, 0, 1000, &number), 0);
	cr_assert_eq(number, epochs);
	return stored;
}

Test(checkpoint, a_file_holds_tensors_by_name_and_texts)
{
	struct stored stored;
	size_t size = model->parameters.elements * sizeof(float);
	float *values = malloc(size);
	save_epoch("3");
	cr_assert_eq(scratch_count(), 1);
	stored = expect_epoch(3, NULL);
	cr_assert_eq(checkpoint_restore("it", &stored, "", &model->parameters, values), 0);
	cr_assert_arr_eq(values, model->parameters.values, size);
	cr_assert_eq(
		checkpoint_restore("it", &stored, "optimizer.0/", &model->parameters, values), 0);
	cr_assert_arr_eq(values, model->parameters.values, size);
	cr_assert_neq(
		checkpoint_restore("it", &stored, "optimizer.1/", &model->parameters, values), 0);
	cr_assert_str_eq(failure(), "it: is of another model: it has no tensor "
				    "optimizer.1/linear_relu_stack.0.weight");
	stored_finish(&stored);
	free(values);
}

/* Saves a checkpoint, and returns the bytes of its file. */
static size_t save_and_read(unsigned char bytes[SIZE_MAX_HERE])
{
	save_epoch("1");
	return read_file(bytes);
}

Test(checkpoint, a_file_cut_anywhere_is_refused)
{
	static unsigned char bytes[SIZE_MAX_HERE];
	size_t size = save_and_read(bytes);
	for (size_t cut = 0; cut < size; cut++) {
		scratch_write("it", bytes, cut);
		expect_failure();
	}
}

Test(checkpoint, a_file_with_any_byte_changed_is_refused)
{
	static unsigned char bytes[SIZE_MAX_HERE];
	const unsigned char flips[] = { 0x81, 0x02 };
	size_t size = save_and_read(bytes);
	for (size_t at = 0; at < 2 * size; at++) {
		bytes[at / 2] ^= flips[at % 2];
		scratch_write("it", bytes, size);
		expect_failure();
		bytes[at / 2] ^= flips[at % 2];
	}
}

Test(checkpoint, a_fifo_is_no_hang, .timeout = 60)
{
	cr_assert_eq(mkfifo(scratch_path("it"), 0600), 0);
	expect_failure();
}

Test(checkpoint, a_file_with_more_behind_it_is_refused)
{
	static unsigned char bytes[SIZE_MAX_HERE];
	scratch_write("it", bytes, save_and_read(bytes) + 1);
	expect_failure();
}

Test(checkpoint, another_model_is_refused_with_the_tensor_that_differs)
{
	struct model *other = small_model(cpu, (int[]){ 9, 9, 7 }, 3, 1, 2);
	float *values = malloc(other->parameters.elements * sizeof(float));
	save_epoch("1");
	struct stored stored = expect_epoch(1, NULL);
	cr_assert_neq(checkpoint_restore("it", &stored, "", &other->parameters, values), 0);
	cr_assert_str_eq(failure(),
		"it: is of another model: its tensor linear_relu_stack.0.weight "
		"is [8, 9], this model's is [9, 9]");
	stored_finish(&stored);
	free(values);
	model_destroy(other);
}

Test(checkpoint, two_are_kept_and_the_one_before_is_used_if_the_last_is_damaged)
{
	static unsigned char bytes[SIZE_MAX_HERE];
	save_epoch("1");
	save_epoch("2");
	save_epoch("3");
	cr_assert_eq(scratch_count(), 2);
	struct stored stored = expect_epoch(3, NULL);
	stored_finish(&stored);
	size_t size = read_file(bytes);
	scratch_write("it", bytes, size - 1);
	stored = expect_epoch(2, "it: is damaged");
	stored_finish(&stored);
	/* A run killed between two renames leaves no file of that name. */
	cr_assert_eq(unlink(scratch_path("it")), 0);
	stored = expect_epoch(2, strerror(ENOENT));
	stored_finish(&stored);
	scratch_write("it", bytes, 5);
	scratch_write("it.previous", bytes, size - 1);
	expect_failure();
}

Test(checkpoint, one_that_cannot_be_written_leaves_the_one_before)
{
	struct stored none;
	stored_init(&none);
	save_epoch("1");
	fail_call(SYS_fsync, EIO);
	cr_assert_neq(checkpoint_save(scratch_path("it"), &none), 0);
	cr_assert(strstr(failure(), "it: cannot write: Input/output error"), "%s", failure());
	cr_assert_eq(scratch_count(), 1, "a draft is left");
	struct stored stored = expect_epoch(1, NULL);
	stored_finish(&stored);
	cr_assert_neq(checkpoint_save(scratch_path("no/dir"), &none), 0);
	cr_assert(strstr(failure(), "no/dir"));
}

Test(checkpoint, a_file_system_without_fsync_is_no_failure)
{
	fail_call(SYS_fsync, EINVAL);
	save_epoch("1");
	fail_call(SYS_fsync, ENOSYS);
	save_epoch("2");
	struct stored stored = expect_epoch(2, NULL);
	stored_finish(&stored);
}

Test(checkpoint, two_runs_that_save_one_name_do_not_disturb_each_other)
{
	struct draft first, second;
	const char *path = scratch_path("it");
	cr_assert_eq(draft_open(&first, path), 0, "%s", failure());
	cr_assert_eq(draft_open(&second, path), 0, "%s", failure());
	fputs("first", first.file);
	fputs("second", second.file);
	cr_assert_eq(draft_finish(&first, NULL), 0, "%s", failure());
	cr_assert_eq(draft_finish(&second, NULL), 0, "%s", failure());
	unsigned char bytes[SIZE_MAX_HERE];
	cr_assert_eq(read_file(bytes), strlen("second"));
	cr_assert_eq(scratch_count(), 1);
}

/* A run that ends while it writes. */
static void leave_a_draft(void)
{
	const char *path = scratch_path("it");
	struct draft draft;
	int status = -1;
	pid_t child = fork();
	if (child == 0) {
		bool fails = draft_open(&draft, path) || fputs("a longer text", draft.file) < 0 ||
			     fflush(draft.file);
		_exit(fails);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
}

Test(checkpoint, there_are_never_more_drafts_than_writers_at_once, .timeout = 60)
{
	unsigned char bytes[SIZE_MAX_HERE];
	struct draft live;
	const char *path = scratch_path("it");
	for (int i = 0; i < 3; i++)
		leave_a_draft();
	cr_assert_eq(scratch_count(), 1);
	cr_assert_eq(draft_open(&live, path), 0, "%s", failure());
	cr_assert_eq(scratch_count(), 1);
	fputs("live", live.file);
	for (int i = 0; i < 3; i++)
		leave_a_draft();
	cr_assert_eq(scratch_count(), 2);
	cr_assert_eq(draft_finish(&live, NULL), 0, "%s", failure());
	cr_assert_eq(read_file(bytes), strlen("live"));
}

Test(checkpoint, a_draft_is_locked_until_it_has_its_name, .timeout = 60)
{
	unsigned char bytes[SIZE_MAX_HERE];
	struct draft live;
	cr_assert_eq(draft_open(&live, scratch_path("it")), 0, "%s", failure());
	fputs("live", live.file);
	run_before(FILTER_RENAME, leave_a_draft);
	cr_assert_eq(draft_finish(&live, NULL), 0, "%s", failure());
	cr_assert_eq(read_file(bytes), strlen("live"));
	cr_assert_eq(scratch_count(), 2);
}

static void publish(void)
{
	cr_assert_eq(rename(scratch_path("it.draft.0"), scratch_path("it")), 0);
}

Test(checkpoint, a_draft_that_gets_its_name_meanwhile_is_not_taken, .timeout = 60)
{
	unsigned char bytes[SIZE_MAX_HERE];
	struct draft draft;
	leave_a_draft();
	run_before(SYS_flock, publish);
	cr_assert_eq(draft_open(&draft, scratch_path("it")), 0, "%s", failure());
	draft_discard(&draft);
	cr_assert_eq(read_file(bytes), strlen("a longer text"));
	cr_assert_eq(scratch_count(), 1);
}

Test(checkpoint, without_locks_each_run_writes_a_draft_of_its_own, .timeout = 60)
{
	struct draft draft;
	fail_call(SYS_flock, ENOLCK);
	for (int i = 0; i < 100; i++)
		leave_a_draft();
	cr_assert_eq(scratch_count(), 100);
	cr_assert_neq(draft_open(&draft, scratch_path("it")), 0);
	cr_assert(strstr(failure(), "it.draft.99 are taken: remove those of killed runs"), "%s",
		failure());
}

/* first -> folder/second -> it, from a relative link and an absolute one. */
Test(checkpoint, a_symbolic_link_is_followed)
{
	char link[PATH_MAX];
	struct stat status;
	cr_assert_eq(mkdir(scratch_path("folder"), 0755), 0);
	cr_assert_eq(symlink("folder/second", scratch_path("first")), 0);
	cr_assert_eq(symlink(scratch_path("it"), scratch_path("folder/second")), 0);
	save_epoch_to("first", "1"); /* the file is not there yet */
	save_epoch_to("first", "2");
	cr_assert_eq(scratch_count(), 5, "a draft is left");
	cr_assert_eq(lstat(scratch_path("first"), &status), 0);
	cr_assert(S_ISLNK(status.st_mode));
	struct stored stored = expect_epoch(2, NULL);
	stored_finish(&stored);
	cr_assert_eq(unlink(scratch_path("it")), 0);
	char damage[CHECKPOINT_REASON];
	cr_assert(checkpoint_exists(scratch_path("first")));
	cr_assert_eq(checkpoint_load(scratch_path("first"), &stored, damage), 0, "%s", failure());
	cr_assert_str_eq(stored_get(&stored, CHECKPOINT_EPOCHS_KEY), "1");
	stored_finish(&stored);
	cr_assert_eq(symlink("loop", scratch_path("loop")), 0);
	cr_assert_neq(draft_target(link, scratch_path("loop")), 0);
	cr_assert(strstr(failure(), "loop: cannot write: Too many levels"), "%s", failure());
}

Test(checkpoint, a_path_that_cannot_be_written_fails_beforehand)
{
	save_epoch("3");
	cr_assert_eq(checkpoint_writable(scratch_path("it")), 0, "%s", failure());
	struct stored stored = expect_epoch(3, NULL);
	stored_finish(&stored);
	cr_assert_neq(checkpoint_writable(scratch_path("none/it")), 0);
	cr_assert(strstr(failure(), "cannot write: No such file or directory"), "%s", failure());
	/* As root, a rename would replace these. */
	cr_assert_eq(mkfifo(scratch_path("pipe"), 0600), 0);
	cr_assert_neq(checkpoint_writable(scratch_path("")), 0);
	cr_assert_neq(checkpoint_writable(scratch_path("pipe")), 0);
	cr_assert(strstr(failure(), "pipe: cannot write: is not a regular file"), "%s", failure());
}

/* ---- Headers of others, and bad ones ---- */

/* Writes a file with this header, and as many bytes of 1.0f behind it. */
static void write_header(const char *header, size_t count)
{
	unsigned char bytes[1024];
	const float one = 1;
	uint64_t size = strlen(header);
	memcpy(bytes, &size, sizeof(size));
	memcpy(bytes + sizeof(size), header, size);
	for (size_t i = 0; i < count; i++)
		memcpy(bytes + sizeof(size) + size + i * sizeof(one), &one, sizeof(one));
	scratch_write("it", bytes, sizeof(size) + size + count * sizeof(one));
}

static int read_header(struct stored *stored)
{
	FILE *file = fopen(scratch_path("it"), "rb");
	int err = safetensors_read("it", file, stored);
	fclose(file);
	return err;
}

Test(checkpoint, a_file_of_another_program_is_read)
{
	struct stored stored;
	write_header(" {\"b\" : {\"shape\":[ ], \"data_offsets\":[8,12],\"dtype\":\"F32\"},\n"
		     "\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}  ",
		3);
	cr_assert_eq(read_header(&stored), 0, "%s", failure());
	cr_assert_eq(stored.tensor_count, 2);
	const struct stored_tensor *a = stored_find(&stored, "", "a");
	cr_assert_eq(a->dims, 2);
	cr_assert_eq(a->shape[0], 2);
	cr_assert_eq(a->count, 2);
	cr_assert_eq(a->values[1], 1.0f);
	cr_assert_eq(stored_find(&stored, "", "b")->count, 1);
	stored_finish(&stored);
}

Test(checkpoint, bad_headers_fail_with_the_byte)
{
	static const struct {
		const char *header, *reason;
	} bad[] = {
		{ "", "expected '{' at byte 8" },
		{ "[]", "expected '{' at byte 8" },
		{ "{\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,4]}}", "an F32" },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}",
			"tensor a lies outside of the file, or has other bytes" },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
			"tensor a lies outside" },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}",
			"tensor a lies outside" },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967295,4294967295],\"data_offsets\":"
		  "[0,4]}}",
			"tensor a has more values than the file" },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":"
		  "[0,4]}}",
			"expected a number of at most 17 digits" },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1],\"data_offsets\":[0,4]}}",
			"expected the end of the list" },
		{ "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", "an F32" },
		{ "{\"a\\n\":{}}", "a plain short string" },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}} x", "the end" },
		{ "{\"a\":{\"other\":1}}", "dtype, shape or data_offsets" },
		{ "{\"__metadata__\":{\"a\":1}}", "expected '\"'" },
	};
	struct stored stored;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		write_header(bad[i].header, 1);
		cr_assert_neq(read_header(&stored), 0, "%s", bad[i].header);
		cr_assert(strstr(failure(), bad[i].reason), "%s: %s", bad[i].header, failure());
	}
}
