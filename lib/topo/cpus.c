#include "topo/cpus.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(unsigned long) == sizeof(uint64_t), "struct rd_cpus is the kernel's mask");

bool rd_cpus_allowed(struct rd_cpus *cpus)
{
	/* cpu_set_t is too small for some machines. */
	memset(cpus, 0, sizeof(*cpus));
	return sched_getaffinity(0, sizeof(cpus->bits), (cpu_set_t *)cpus->bits) == 0;
}

static bool allow(const struct rd_cpus *cpus)
{
	return sched_setaffinity(0, sizeof(cpus->bits), (const cpu_set_t *)cpus->bits) == 0;
}

void rd_cpus_leave(int cpu)
{
	struct rd_cpus all, others;

	if (!rd_cpus_allowed(&all))
		return;
	others = all;
	rd_cpus_remove(&others, cpu);
	/* It fails where there is but one CPU. */
	if (allow(&others))
		allow(&all);
}

bool rd_cpus_has(const struct rd_cpus *cpus, int cpu)
{
	return cpu >= 0 && cpu < RD_CPU_MAX && cpus->bits[cpu / 64] >> cpu % 64 & 1;
}

void rd_cpus_add(struct rd_cpus *cpus, int cpu)
{
	if (cpu >= 0 && cpu < RD_CPU_MAX)
		cpus->bits[cpu / 64] |= (uint64_t)1 << cpu % 64;
}

void rd_cpus_remove(struct rd_cpus *cpus, int cpu)
{
	if (cpu >= 0 && cpu < RD_CPU_MAX)
		cpus->bits[cpu / 64] &= ~((uint64_t)1 << cpu % 64);
}

int rd_cpus_count(const struct rd_cpus *cpus)
{
	return rd_cpus_before(cpus, RD_CPU_MAX);
}

int rd_cpus_at(const struct rd_cpus *cpus, int index)
{
	for (int cpu = 0; cpu < RD_CPU_MAX; cpu++)
		if (rd_cpus_has(cpus, cpu) && index-- == 0)
			return cpu;
	return -1;
}

int rd_cpus_before(const struct rd_cpus *cpus, int cpu)
{
	int count = 0;

	for (int word = 0; word < cpu / 64; word++)
		count += __builtin_popcountll(cpus->bits[word]);
	if (cpu % 64)
		count += __builtin_popcountll(
			cpus->bits[cpu / 64] & (((uint64_t)1 << cpu % 64) - 1));
	return count;
}

bool rd_cpus_meet(const struct rd_cpus *a, const struct rd_cpus *b)
{
	for (int word = 0; word < RD_CPU_MAX / 64; word++)
		if (a->bits[word] & b->bits[word])
			return true;
	return false;
}

bool rd_cpus_within(const struct rd_cpus *inner, const struct rd_cpus *outer)
{
	for (int word = 0; word < RD_CPU_MAX / 64; word++)
		if (inner->bits[word] & ~outer->bits[word])
			return false;
	return true;
}

/* Reads the digits at *text, and moves it behind them; -1 for none, or for RD_CPU_MAX and above. */
static int read_cpu(const char **text)
{
	int value = -1;

	for (; **text >= '0' && **text <= '9'; ++*text) {
		value = (value < 0 ? 0 : value * 10) + (**text - '0');
		if (value >= RD_CPU_MAX)
			return -1;
	}
	return value;
}

static bool read_list(struct rd_cpus *cpus, const char *text)
{
	for (;;) {
		int first = read_cpu(&text), last = first;
		if (*text == '-') {
			text++;
			last = read_cpu(&text);
		}
		if (first < 0 || last < first)
			return false;
		for (int cpu = first; cpu <= last; cpu++)
			rd_cpus_add(cpus, cpu);
		if (!*text)
			return true;
		if (*text++ != ',')
			return false;
	}
}

bool rd_cpus_read(struct rd_cpus *cpus, const char *text)
{
	memset(cpus, 0, sizeof(*cpus));
	if (!*text || read_list(cpus, text))
		return true;
	memset(cpus, 0, sizeof(*cpus));
	return false;
}

void rd_cpus_text(const struct rd_cpus *cpus, char *text, size_t size)
{
	size_t length = 0;

	text[0] = '\0';
	for (int first = 0, last; first < RD_CPU_MAX && length < size; first = last + 1) {
		last = first;
		if (!rd_cpus_has(cpus, first))
			continue;
		while (rd_cpus_has(cpus, last + 1))
			last++;
		length += (size_t)snprintf(
			text + length, size - length, "%s%d", length ? "," : "", first);
		if (last > first && length < size)
			length += (size_t)snprintf(text + length, size - length, "-%d", last);
	}
	/* Without a mark, "12" of "128" would be another CPU. */
	if (length >= size && size >= sizeof("..."))
		strcpy(text + size - sizeof("..."), "...");
}
