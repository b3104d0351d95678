#include "comm/calibrate_memory.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cache_line.h"
#include "base/clock.h"
#include "exec/reduce.h"
#include "topo/cpus.h"
#include "topo/sysfs.h"

/* Bytes in cache, and how often they are gone over. */
#define BLOCK (64 << 10)
#define ROUNDS 5
#define ROUNDS_BEYOND 3
/* A block's result and its operands. */
#define OPERANDS 3
/* The most time and bytes for memory beyond the caches. */
#define BUDGET_NS INT64_C(2000000)
#define MEMORY_MOST (16 << 20)

typedef void block_work(char *into, const char *a, const char *b);

static uint32_t time_ps(block_work *run, char *memory)
{
	int64_t began = rd_clock_ns();

	run(memory, memory + BLOCK, memory + 2 * BLOCK);
	return (uint32_t)((rd_clock_ns() - began) * 1000 / BLOCK);
}

static uint32_t quickest_ps(block_work *run, char *memory)
{
	uint32_t best = UINT32_MAX, took;

	for (int i = 0; i <= ROUNDS; i++) {
		took = time_ps(run, memory);
		if (i > 0 && took < best)
			best = took;
	}
	return best;
}

static void copy_block(char *into, const char *a, const char *b)
{
	(void)b;
	memcpy(into, a, BLOCK);
}

static void add_floats(char *into, const char *a, const char *b)
{
	rd_reduce(RONDO_F32, RONDO_SUM)(into, a, b, BLOCK / 4);
}

static void add_halves(char *into, const char *a, const char *b)
{
	rd_reduce(RONDO_BF16, RONDO_SUM)(into, a, b, BLOCK / 2);
}

static block_work *const works[] = { copy_block, add_floats, /* as RD_TYPE_CLASSES */
	add_halves };

static void calibrate_cache(struct rd_costs *costs)
{
	char *memory = calloc(OPERANDS, BLOCK);

	if (!memory)
		return;
	costs->copy_ps = quickest_ps(copy_block, memory);
	costs->reduce_ps[RD_WHOLE] = quickest_ps(add_floats, memory);
	costs->reduce_ps[RD_HALF] = quickest_ps(add_halves, memory);
	free(memory);
}

/* The second-level cache, by far the largest that a core has to itself; 0 or less: not known. */
static long cache_bytes(void)
{
#ifdef _SC_LEVEL2_CACHE_SIZE /* glibc */
	long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);

	if (bytes > 0)
		return bytes;
#endif
	/* The file has KiB: "1024K". */
	return rd_sysfs_number(0, "", "/sys/devices/system/cpu/cpu0/cache/index2/size") * 1024;
}

/* The third-level caches of this many cores, of which some share one; 0: not known. */
static uint32_t shared_cache_bytes(uint32_t cores)
{
	const char *cache = "/sys/devices/system/cpu/cpu0/cache/index3";
	long bytes = rd_sysfs_number(0, "", "%s/size", cache) * 1024;
	struct rd_cpus sharers;
	char list[RD_CPUS_TEXT_SIZE];
	int count;

	if (bytes <= 0 || !rd_sysfs_line(list, sizeof(list), "", "%s/shared_cpu_list", cache) ||
		!rd_cpus_read(&sharers, list))
		return 0;
	count = rd_cpus_count(&sharers);
	bytes *= count > 0 && cores > (uint32_t)count ? (long)cores / count : 1;
	return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

/* Processor time: on a busy machine others would use up the budget, and memory beyond the caches
   would seldom be measured. */
static int64_t spent_ns(void)
{
	struct timespec spent;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
	return spent.tv_sec * INT64_C(1000000000) + spent.tv_nsec;
}

/* False: the time is over before all of it has pages. */
static bool write_pages(char *memory, size_t size, int64_t deadline_ns)
{
	for (size_t at = 0; at < size; at += BLOCK) {
		if (spent_ns() > deadline_ns)
			return false;
		memset(memory + at, 1, BLOCK);
	}
	return true;
}

/* Each work runs on blocks that others have displaced from the caches since they were last used.
   The quickest counts, as in cache. */
static bool go_round(
	char *memory, size_t size, int64_t deadline_ns, uint32_t best[RD_TYPE_CLASS_COUNT + 1])
{
	size_t at = 0;

	for (int i = 0; i < ROUNDS; i++) {
		if (spent_ns() > deadline_ns)
			return false;
		for (int k = 0; k < RD_TYPE_CLASS_COUNT + 1; k++) {
			uint32_t took = time_ps(works[k], memory + at);

			best[k] = i == 0 || took < best[k] ? took : best[k];
			at = (at + OPERANDS * BLOCK) % size;
		}
	}
	return true;
}

/* ---- Beyond the caches that cores share ----------------------------------------------------- */

/* Writes lines back to memory, and leaves no cache with them. */
#if defined(__x86_64__)
#define FLUSHES
static void flush_line(const char *line)
{
	__builtin_ia32_clflush(line);
}

static void await_flushes(void)
{
	__builtin_ia32_mfence();
}
#elif defined(__aarch64__) && defined(__linux__)
#define FLUSHES
static void flush_line(const char *line)
{
	__asm__ volatile("dc civac, %0" : : "r"(line) : "memory");
}

static void await_flushes(void)
{
	__asm__ volatile("dsb ish" : : : "memory");
}
#endif

#ifdef FLUSHES
static void flush(const char *memory, size_t size)
{
	for (size_t at = 0; at < size; at += RD_CACHE_LINE)
		flush_line(memory + at);
	await_flushes();
}

/* With the way of the result back to memory: in a long call, that of bytes written before. */
static uint32_t time_beyond_ps(block_work *run, char *memory)
{
	int64_t began;

	flush(memory, OPERANDS * BLOCK);
	began = rd_clock_ns();
	run(memory, memory + BLOCK, memory + 2 * BLOCK);
	flush(memory, BLOCK);
	return (uint32_t)((rd_clock_ns() - began) * 1000 / BLOCK);
}

static void calibrate_beyond_sharing(struct rd_costs *costs, char *memory)
{
	uint32_t best[] = { UINT32_MAX, UINT32_MAX, UINT32_MAX };

	for (int i = 0; i < ROUNDS_BEYOND; i++)
		for (int k = 0; k < RD_TYPE_CLASS_COUNT + 1; k++) {
			uint32_t took = time_beyond_ps(works[k], memory);

			best[k] = took < best[k] ? took : best[k];
		}
	costs->beyond_copy_ps = best[0];
	memcpy(costs->beyond_reduce_ps, best + 1, sizeof(costs->beyond_reduce_ps));
	costs->shared_cache_bytes = shared_cache_bytes(costs->cores);
}
#else
static void calibrate_beyond_sharing(struct rd_costs *costs, char *memory)
{
	(void)costs;
	(void)memory;
}
#endif

/* In half as much again as the caches hold. */
static void calibrate_beyond_caches(struct rd_costs *costs)
{
	int64_t deadline_ns = spent_ns() + BUDGET_NS;
	uint32_t best[RD_TYPE_CLASS_COUNT + 1];
	long bytes = cache_bytes();
	size_t size;
	char *memory;

	if (bytes > 0 && bytes <= UINT32_MAX)
		costs->cache_bytes = (uint32_t)bytes;
	size = (3 * (size_t)costs->cache_bytes / 2 / (OPERANDS * BLOCK) + 1) * OPERANDS * BLOCK;
	memory = size <= MEMORY_MOST ? malloc(size) : NULL;
	costs->memory_copy_ps = costs->copy_ps;
	memcpy(costs->memory_reduce_ps, costs->reduce_ps, sizeof(costs->reduce_ps));
	if (memory && write_pages(memory, size, deadline_ns) &&
		go_round(memory, size, deadline_ns, best)) {
		costs->memory_copy_ps = best[0];
		memcpy(costs->memory_reduce_ps, best + 1, sizeof(costs->memory_reduce_ps));
		calibrate_beyond_sharing(costs, memory);
	}
	free(memory);
}

void rd_calibrate_memory(struct rd_costs *costs)
{
	calibrate_cache(costs);
	calibrate_beyond_caches(costs);
}
