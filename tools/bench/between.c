#include "between.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "memory.h"

#define PATIENCE_NS INT64_C(30000000000)
/* A line with the number of arrivals reaches every core sooner. */
#define LEAST_GAP_NS 1000
/* A rank that slept is awake by then, so that those that woke up early do not start first. */
#define WAKE_NS 20000
#define LINE 64

bool bench_between_any(const struct bench_between *between)
{
	return between->touch || between->sleep || between->gap_ns || between->walk;
}

bool bench_start_init(struct bench_start *start, const struct bench_between *between,
	struct bench_meeting *meeting, int ranks)
{
	*start = (struct bench_start){ .between = between, .meeting = meeting, .ranks = ranks };
	start->yields = ranks > sysconf(_SC_NPROCESSORS_ONLN);
	if (between->walk)
		start->walked = bench_memory_create(between->walk);
	return !between->walk || start->walked;
}

void bench_start_finish(struct bench_start *start)
{
	bench_memory_destroy(start->walked);
}

static void walk(const struct bench_start *start)
{
	for (size_t i = 0; i < start->between->walk; i += LINE)
		(void)*(volatile unsigned char *)&start->walked[i];
}

/* The values stay, and the lines become this core's, as where a program computed them. */
static void write_again(void *memory, size_t size)
{
	volatile unsigned char *bytes = memory;

	for (size_t i = 0; i + 8 <= size; i += 8)
		*(volatile uint64_t *)(bytes + i) = *(volatile uint64_t *)(bytes + i);
	for (size_t i = size / 8 * 8; i < size; i++)
		bytes[i] = bytes[i];
}

static void spin(const struct bench_start *start)
{
	if (start->yields)
		sched_yield();
}

/* The latest arrival of all ranks; -1 if one did not come. */
static int64_t meet(struct bench_start *start)
{
	uint64_t all = ++start->calls * (uint64_t)start->ranks;
	/* A rank may arrive for the next call while another reads this one's. */
	_Atomic int64_t *latest = &start->meeting->latest_ns[start->calls % 2];
	int64_t now = rd_clock_ns(), deadline = now + PATIENCE_NS, known = atomic_load(latest);

	while (known < now && !atomic_compare_exchange_weak(latest, &known, now))
		;
	atomic_fetch_add(&start->meeting->arrived, 1);
	while (atomic_load(&start->meeting->arrived) < all) {
		if (rd_clock_ns() > deadline)
			return -1;
		spin(start);
	}
	return atomic_load(latest);
}

/* The kernel wakes up a thread within 50 us unless told otherwise. The library's sleeps stay so. */
static void sleep_until(int64_t time_ns)
{
	struct timespec time = { .tv_sec = time_ns / 1000000000, .tv_nsec = time_ns % 1000000000 };

	prctl(PR_SET_TIMERSLACK, 1);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0)
		;
	prctl(PR_SET_TIMERSLACK, 0);
}

int64_t bench_start_await(struct bench_start *start, const struct bench_touched *touched)
{
	const struct bench_between *between = start->between;
	int64_t latest, at, now;

	walk(start);
	if (between->touch)
		write_again(touched->input, touched->input_size);
	latest = meet(start);
	if (latest < 0)
		return -1;
	at = latest + (between->gap_ns > LEAST_GAP_NS ? between->gap_ns : LEAST_GAP_NS);
	if (between->sleep)
		sleep_until(at - WAKE_NS);
	while ((now = rd_clock_ns()) < at)
		spin(start);
	/* A late rank waited for the processor of another, which may have finished its part. */
	return start->yields ? at : now;
}

void bench_start_read(const struct bench_start *start, const struct bench_touched *touched)
{
	const volatile unsigned char *output = touched->output;

	for (size_t i = 0; start->between->touch && i < touched->output_size; i += LINE)
		(void)output[i];
}
