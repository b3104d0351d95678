#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "jobs/memory.h"

#define NAMED_MAX 32

struct sim sim;

void sim_begin(struct draw run, int size, int hosts, const struct faults *faults, bool trace)
{
	struct rd_event_queue queue = sim.queue;

	queue.count = 0;
	sim = (struct sim){ .queue = queue, .run = run, .faults = *faults, .trace = trace };
	for (int rank = 0; rank < size; rank++)
		sim.hosts[rank] = rank * hosts / size;
}

/* ---- Time ----------------------------------------------------------------------------------- */

void sim_event(int kind, int subject, uint64_t at_ns)
{
	struct rd_timed_event event = { .time_ns = at_ns, .kind = kind, .subject = subject };
	int rank = memory_enter(-1);

	if (at_ns != NEVER && rd_event_queue_put(&sim.queue, event))
		sim_fail("no memory for an event");
	memory_enter(rank);
}

uint64_t sim_delay(uint64_t most_ns)
{
	return draw(&sim.run, most_ns + 1);
}

uint64_t sim_until(int ms)
{
	return ms == 0 ? NEVER : sim.now_ns + (uint64_t)ms * MS;
}

uint64_t sim_end_of_time(uint64_t ms)
{
	for (int i = 0; i < sim.faults.count; i++)
		for (int k = 1; k < 3; k++)
			ms += (uint64_t)sim.faults.at[i].number[k];
	return ms * MS;
}

/* ---- Faults --------------------------------------------------------------------------------- */

const struct fault *sim_strike(void)
{
	for (int i = 0; i < sim.faults.count; i++) {
		struct faults one = { 1, { sim.faults.at[i] } };
		char text[FAULTS_TEXT];

		if (sim.fired[i] || !fault_strikes(&one.at[0]) || sim.events < one.at[0].event)
			continue;
		sim.fired[i] = true;
		sim.struck_ns = sim.now_ns;
		faults_print(&one, text);
		sim_trace(-1, "FAULT %s", text);
		return &sim.faults.at[i];
	}
	return NULL;
}

void sim_add_cut(unsigned side, int ms, bool rejects)
{
	int cut = sim.cut_count++;

	sim.cuts[cut].side = side;
	sim.cuts[cut].rejects = rejects;
	sim.cuts[cut].from_ns = sim.now_ns;
	sim.cuts[cut].until_ns = sim_until(ms);
}

static bool parts(int cut, bool rejects, int a, int b)
{
	unsigned side = sim.cuts[cut].side;

	if (sim.cuts[cut].rejects != rejects || sim.cuts[cut].until_ns <= sim.now_ns)
		return false;
	/* Nothing else parts ranks of one host. */
	if (sim.hosts[a] == sim.hosts[b] && (rejects || !sim.parts_hosts))
		return false;
	return (side >> a & 1) != (side >> b & 1);
}

static bool has_vanished(int a, int b)
{
	return (sim.vanished >> a & 1) || (sim.vanished >> b & 1);
}

uint64_t sim_cut(int a, int b)
{
	uint64_t until_ns = 0;

	for (int i = 0; i < sim.cut_count; i++)
		if (parts(i, false, a, b) && sim.cuts[i].until_ns > until_ns)
			until_ns = sim.cuts[i].until_ns;
	return has_vanished(a, b) ? NEVER : until_ns;
}

bool sim_silent(int a, int b, int ms)
{
	for (int i = 0; i < sim.cut_count; i++)
		if (parts(i, false, a, b) && sim.cuts[i].from_ns + (uint64_t)ms * MS <= sim.now_ns)
			return true;
	return has_vanished(a, b);
}

bool sim_rejects(int a, int b)
{
	for (int i = 0; i < sim.cut_count; i++)
		if (parts(i, true, a, b))
			return true;
	return false;
}

/* ---- Words ---------------------------------------------------------------------------------- */

void sim_trace(int rank, const char *format, ...)
{
	va_list args;

	if (!sim.trace)
		return;
	printf("%6llu %11.3f ms  ", (unsigned long long)sim.events, (double)sim.now_ns / 1e6);
	if (rank >= 0)
		printf("rank %d: ", rank);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

void sim_fail(const char *format, ...)
{
	va_list args;

	if (sim.failure[0])
		return;
	va_start(args, format);
	vsnprintf(sim.failure, sizeof(sim.failure), format, args);
	va_end(args);
}

unsigned named_ranks(const char *text, int *first)
{
	unsigned named = 0;

	*first = -1;
	for (const char *at = strstr(text, "rank"); at; at = strstr(at + 1, "rank")) {
		const char *list = at + 4 + (at[4] == 's');
		int number, used;

		while (sscanf(list, "%*[ ,and]%n%d", &used, &number) == 1 && number < NAMED_MAX) {
			if (*first < 0)
				*first = number;
			named |= 1u << number;
			list += used + 1;
		}
	}
	return named;
}
