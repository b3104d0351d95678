#include "bench/runs.h"

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/memory.h"
#include "plot.h"
#include "bench/sweep.h"
#include "line.h"
#include "loopback.h"
#include "pair.h"

/* Sizes of one operand; the last exceeds the caches, memory permitting. */
static const size_t sizes[] = { 16 << 10, 512 << 10, 8 << 20, 256 << 20 };

/* Operands of a stream: one in the caches, one in memory. */
static const size_t streamed[] = { 256 << 10, 64 << 20 };

struct swept {
	bench_sweep sweep;
	size_t size; /* bytes in one operand */
	int operands, cores;
	int64_t duration_ns;
	double rates[2]; /* GB/s of each core; NAN without memory */
};

static void sweep_side(int side, void *argument)
{
	struct swept *swept = argument;
	float *into, *a, *b;

	if (side >= swept->cores)
		return;
	into = bench_memory_create(swept->size);
	a = bench_memory_create(swept->size);
	b = swept->operands > 2 ? bench_memory_create(swept->size) : a;
	if (into && a && b) {
		size_t count = swept->size / sizeof(float);
		long sweeps = 0;
		swept->sweep(into, a, b, count);
		int64_t start = rd_clock_ns(), now = start;
		for (; now < start + swept->duration_ns; now = rd_clock_ns(), sweeps++)
			swept->sweep(into, a, b, count);
		swept->rates[side] = (double)swept->size * swept->operands * (double)sweeps /
				     (double)(now - start);
	}
	bench_memory_destroy(into);
	bench_memory_destroy(a);
	if (b != a)
		bench_memory_destroy(b);
}

static double sweep_rate(bool add, bool non_temporal, size_t size, int cores, double seconds)
{
	struct swept swept = {
		.sweep = bench_sweep_find(add, non_temporal),
		.size = size,
		.operands = add ? 3 : 2,
		.cores = cores,
		.duration_ns = (int64_t)(seconds * 1e9),
		.rates = { NAN, cores > 1 ? NAN : 0 },
	};

	if (!swept.sweep || !bench_pair_run(sweep_side, &swept))
		return NAN;
	return swept.rates[0] + swept.rates[1];
}

static void report_sweeps(bool add, bool non_temporal, double seconds, size_t most)
{
	char text[32];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t size = sizes[i] < most ? sizes[i] : most;
		plot_size_text(text, sizeof(text), (double)size);
		printf("  %9s  %12s  %14s  %8.1f  %8.1f\n", add ? "add" : "copy",
			non_temporal ? "non-temporal" : "ordinary", text,
			sweep_rate(add, non_temporal, size, 1, seconds),
			sweep_rate(add, non_temporal, size, 2, seconds));
		fflush(stdout);
	}
}

static void report_memory(double seconds, size_t most)
{
	printf("#\n# memory: bytes read and written, GB/s (1e9)\n");
	printf("# %9s  %12s  %14s  %8s  %8s\n", "operation", "stores", "operand (B)", "1 core",
		"2 cores");
	for (int add = 0; add < 2; add++) {
		for (int non_temporal = 0; non_temporal < 2; non_temporal++) {
			if (bench_sweep_find(add, non_temporal))
				report_sweeps(add, non_temporal, seconds, most);
		}
	}
}

static void report_loopback(double seconds, int rounds)
{
	printf("#\n# loopback, one TCP connection\n");
	for (size_t i = 0; i < sizeof(streamed) / sizeof(*streamed); i++) {
		char size[32];

		plot_size_text(size, sizeof(size), (double)streamed[i]);
		printf("  stream of %4s, one way            %8.2f GB/s\n", size,
			bench_loopback_stream(false, streamed[i], seconds));
		printf("  stream of %4s, both ways, each    %8.2f GB/s\n", size,
			bench_loopback_stream(true, streamed[i], seconds));
	}
	printf("  8-byte round trip, polling         %8.2f us\n",
		bench_loopback_round_trip_us(true, rounds));
	printf("  8-byte round trip, asleep in recv  %8.2f us\n",
		bench_loopback_round_trip_us(false, rounds));
}

/* Six operands of two cores must leave the machine most of its memory. */
static size_t largest_operand(void)
{
	size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
	return memory / 32 / 4096 * 4096;
}

int bench_floor_run(const struct bench_options *options)
{
	int processors[2];

	bench_pair_processors(processors);
	if (processors[0] == processors[1]) {
		fprintf(stderr, "rondo-bench: the floor takes two processors, and this process may "
				"use one\n");
		return 1;
	}
	printf("# rondo-bench floor: processors %d and %d, %s\n", processors[0], processors[1],
		bench_sweep_instructions());
	printf("  cache line, there and back         %8.1f ns\n", bench_line_round_trip_ns());
	fflush(stdout);
	report_memory(options->quick ? 0.01 : 0.1, largest_operand());
	report_loopback(options->quick ? 0.2 : 2, options->quick ? 5000 : 50000);
	/* Again at the end: a virtual machine may have moved the cores meanwhile. */
	printf("#\n  cache line, there and back         %8.1f ns\n", bench_line_round_trip_ns());
	return 0;
}
