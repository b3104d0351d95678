/* ctest label: threads */
/* Calls on device memory through host memory: in parts, whatever the call. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "variants.h"

/* As floats, several parts of what is staged, whatever the collective, and not a whole number. */
#define LONG_COUNT 300003

static const struct variant staged_variants[] = {
	{ "2", "staged", false, NULL, RD_KERNEL_STAGED },
	{ "2", "staged", true, NULL, RD_KERNEL_STAGED },
	{ "2", "auto", false, "tcp", RD_KERNEL_STAGED },
};

static void try_staged(int size, int (*body)(struct rank_env *env), int timeout_ms)
{
	for (size_t i = 0; i < sizeof(staged_variants) / sizeof(*staged_variants); i++) {
		struct trial trial = { &staged_variants[i], size, body, timeout_ms };

		if (ONLY_THREADS && !staged_variants[i].threads)
			continue;
		cr_expect_eq(in_child(run_trial, &trial), 0, "staged, variant %zu", i);
	}
}

static int long_collectives(struct rank_env *env)
{
	struct memory memory;
	int wrong = open_room(env, &memory, LONG_COUNT);

	if (wrong)
		return wrong;
	for (int collective = 0; collective < RD_COLLECTIVE_COUNT && !wrong; collective++)
		for (int in_place = 0; in_place < 2 && !wrong && collective != RD_TRANSFER;
			in_place++)
			wrong = try_call(
				env, &memory, collective, RONDO_MAX, LONG_COUNT, in_place, true);
	/* In a part there is a cache line's worth of elements, whatever their size. */
	if (!wrong && rondo_all_reduce(env->comm, memory.in, memory.out, LONG_COUNT * 4, RONDO_U8,
			      RONDO_BOR, memory.stream))
		wrong = world_report(env, "%s", rondo_last_error());
	close_memory(&memory);
	return wrong;
}

Test(gpu_staging, what_is_staged_in_parts_is_right, .timeout = 120)
{
	try_staged(3, long_collectives, 0);
}

/* Bytes that are mapped here of memory that ranks share. */
static size_t shared_bytes(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long long from, to;
	size_t bytes = 0;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "/memfd:rondo (deleted)") &&
			sscanf(line, "%llx-%llx", &from, &to) == 2)
			bytes += to - from;
	if (maps)
		fclose(maps);
	return bytes;
}

static int with_little_memory(struct rank_env *env)
{
	enum { COUNT = 8 << 20 };
	struct memory memory;
	size_t before = shared_bytes();
	int wrong = open_room(env, &memory, COUNT);

	for (int i = 0; i < 2 && !wrong; i++)
		if (rondo_all_reduce(
			    env->comm, memory.in, memory.out, COUNT, RONDO_F32, RONDO_SUM, NULL))
			wrong = world_report(env, "%s", rondo_last_error());
	/* Staging memory here and at the peer; a call has its own until the last one's is free. */
	if (!wrong &&
		(shared_bytes() == before || shared_bytes() >= before + COUNT * sizeof(float)))
		wrong = world_report(env, "%zu bytes to stage", shared_bytes() - before);
	close_memory(&memory);
	return wrong;
}

Test(gpu_staging, what_is_staged_needs_no_memory_of_its_size, .timeout = 60)
{
	cr_expect_eq(try_body(&staged_variants[0], 2, with_little_memory, 0), 0);
}

/*
 * Rank 1 wants all of rank 2's message before any of rank 0's, which rank 0 sends in one group with
 * one to rank 2: no transfer may wait for another's parts.
 */
static int criss_cross(struct rank_env *env)
{
	size_t count = LONG_COUNT;
	rondo_comm *comm = env->comm;
	struct memory memory;
	int wrong = open_room(env, &memory, count), err;

	if (wrong)
		return wrong;
	fill_floats(memory.in, env->rank, 2 * count);
	rondo_group_start();
	if (env->rank == 0) {
		rondo_send(comm, memory.in, count, RONDO_F32, 1, memory.stream);
		rondo_send(comm, memory.in + count, count, RONDO_F32, 2, memory.stream);
	} else if (env->rank == 2) {
		rondo_recv(comm, memory.out, count, RONDO_F32, 0, memory.stream);
		rondo_send(comm, memory.in, count, RONDO_F32, 1, memory.stream);
	} else {
		rondo_recv(comm, memory.out, count, RONDO_F32, 2, memory.stream);
		rondo_group_end();
		rondo_group_start();
		rondo_recv(comm, memory.out + count, count, RONDO_F32, 0, memory.stream);
	}
	err = rondo_group_end();
	if (!err)
		err = rondo_stream_synchronize(memory.stream);
	if (err)
		wrong = world_report(env, "%s", rondo_last_error());
	for (size_t i = 0; i < count && !wrong && env->rank > 0; i++)
		if (memory.out[i] != (env->rank == 1 ? value(2, i) : value(0, count + i)))
			wrong = world_report(env, "element %zu is %g", i, memory.out[i]);
	for (size_t i = 0; i < count && !wrong && env->rank == 1; i++)
		if (memory.out[count + i] != value(0, i))
			wrong = world_report(env, "element %zu from 0 is %g", i, memory.out[i]);
	close_memory(&memory);
	return wrong;
}

Test(gpu_staging, transfers_in_parts_do_not_wait_for_each_other, .timeout = 120)
{
	try_staged(3, criss_cross, 5000);
}

#define LONGEST_COUNT (4 << 20)

/* All parts of the shorter call are like the other's first, whatever two's power they are long. */
static int halve_the_count(struct rank_env *env, struct memory *memory)
{
	return one_call(env, memory, env->rank == 1 ? LONGEST_COUNT / 2 : LONGEST_COUNT);
}

static int when_long_calls_differ(struct rank_env *env)
{
	return expect_mismatch(env, LONGEST_COUNT, halve_the_count);
}

Test(gpu_staging, different_calls_in_parts_are_a_mismatch_too, .timeout = 60)
{
	try_staged(3, when_long_calls_differ, 0);
}

/* The same, after a call that all made alike, and whose parts are as long. */
static int halve_the_next_count(struct rank_env *env, struct memory *memory)
{
	int err = one_call(env, memory, LONGEST_COUNT);

	return err ? err : halve_the_count(env, memory);
}

static int when_long_calls_come_to_differ(struct rank_env *env)
{
	return expect_mismatch(env, LONGEST_COUNT, halve_the_next_count);
}

Test(gpu_staging, calls_in_parts_that_come_to_differ_are_a_mismatch_as_well, .timeout = 60)
{
	try_staged(3, when_long_calls_come_to_differ, 0);
}

/* Three numbers that belong together: no part may end within them. */
static void turn_and_add(
	void *into, const void *a, const void *b, size_t count, rondo_type type, void *argument)
{
	(void)type;
	(void)argument;
	for (size_t i = 0; i < count; i++) {
		const float *x = (const float *)a + 3 * i, *y = (const float *)b + 3 * i;
		float turned[3] = { x[0] + y[0], x[1] + y[1], x[2] + y[2] + y[0] };

		memcpy((float *)into + 3 * i, turned, sizeof(turned));
	}
}

static int long_own_operations(struct rank_env *env)
{
	size_t count = LONG_COUNT, ours = (size_t)env->rank * count;
	float weight = (float)env->rank + 2;
	struct memory memory;
	rondo_op weighed, own;
	int wrong = open_room(env, &memory, count);

	if (wrong)
		return wrong;
	fill_floats(memory.in, env->rank, 3 * count);
	if (rondo_op_create_premul(env->comm, &weighed, &weight, RONDO_F32) ||
		rondo_op_create(env->comm, &own, turn_and_add, 12, NULL) ||
		rondo_reduce_scatter(env->comm, memory.in, memory.out, count, RONDO_F32, weighed,
			memory.stream) ||
		rondo_all_reduce(env->comm, memory.in, memory.out + count, count * 4, RONDO_U8, own,
			memory.stream) ||
		rondo_stream_synchronize(memory.stream))
		wrong = world_report(env, "%s", rondo_last_error());
	for (size_t i = 0; i < count && !wrong; i++) {
		float first = i % 3 == 2 ? value(1, i - 2) + value(2, i - 2) : 0;
		float sum = value(0, i) + value(1, i) + value(2, i) + first;

		if (memory.out[i] !=
			2 * value(0, ours + i) + 3 * value(1, ours + i) + 4 * value(2, ours + i))
			wrong = world_report(env, "weighed: element %zu is %g", i, memory.out[i]);
		else if (memory.out[count + i] != sum)
			wrong = world_report(env, "turned: element %zu is %g, not %g", i,
				memory.out[count + i], sum);
	}
	close_memory(&memory);
	return wrong;
}

Test(gpu_staging, operations_of_the_programs_own_are_staged_in_parts, .timeout = 120)
{
	try_staged(3, long_own_operations, 0);
}
