/* Ranks as stacks of one thread, with their memory and their errors. */
#include "world.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#define STACK_SIZE (256 << 10)

static ucontext_t contexts[LINE_RANKS], scheduler;
static char stacks[LINE_RANKS][STACK_SIZE];
static void (*programs[LINE_RANKS])(void);

/* ---- Stacks -------------------------------------------------------------------------------- */

static void run(void)
{
	programs[line.current]();
	/* A rank that has ended is not resumed. */
	for (;;)
		ranks_wait(NEVER);
}

void ranks_start(int rank, void (*program)(void))
{
	programs[rank] = program;
	getcontext(&contexts[rank]);
	contexts[rank].uc_stack.ss_sp = stacks[rank];
	contexts[rank].uc_stack.ss_size = STACK_SIZE;
	makecontext(&contexts[rank], run, 0);
}

void ranks_resume(int rank)
{
	line.current = rank;
	swapcontext(&scheduler, &contexts[rank]);
}

void ranks_wait(uint64_t until_ns)
{
	struct line_rank *self = line_self();

	if (until_ns < self->wake_ns)
		self->wake_ns = until_ns;
	swapcontext(&contexts[line.current], &scheduler);
}

int64_t sim_clock_ms(void)
{
	return (int64_t)(line.now_ns / MS) + 1000;
}

void sim_sleep(int ms)
{
	uint64_t until_ns = line.now_ns + (uint64_t)ms * MS;

	while (line.now_ns < until_ns)
		ranks_wait(until_ns);
}

/* ---- Memory -------------------------------------------------------------------------------- */

struct line_memory {
	struct line_memory *next, **at;
	max_align_t bytes[];
};

void *sim_calloc(size_t count, size_t size)
{
	struct line_memory *memory = calloc(1, sizeof(*memory) + count * size);
	struct line_rank *self = line_self();

	if (!memory)
		abort();
	memory->next = self->memory;
	memory->at = &self->memory;
	if (memory->next)
		memory->next->at = &memory->next;
	self->memory = memory;
	return memory->bytes;
}

void sim_free(void *pointer)
{
	struct line_memory *memory;

	if (!pointer)
		return;
	memory = (struct line_memory *)((char *)pointer - offsetof(struct line_memory, bytes));
	*memory->at = memory->next;
	if (memory->next)
		memory->next->at = memory->at;
	free(memory);
}

int ranks_free(int rank)
{
	int count = 0;

	for (; line.ranks[rank].memory; count++)
		sim_free(line.ranks[rank].memory->bytes);
	return count;
}

/* ---- Errors -------------------------------------------------------------------------------- */

int sim_fail(int error, const char *format, ...)
{
	char text[RD_REASON_SIZE];
	va_list args;

	/* The text may be among the arguments. */
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	memcpy(line_self()->error, text, sizeof(text));
	return error;
}

int sim_fail_errno(const char *format, ...)
{
	char text[RD_REASON_SIZE - 64];
	int error = errno;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return sim_fail(RONDO_SYSTEM, "%s: %s", text, strerror(error));
}

const char *sim_last_error(void)
{
	return line_self()->error;
}
