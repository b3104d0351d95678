#include "check/crash.h"

#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>
#ifdef __GLIBC__
#include <execinfo.h>
#endif

#define FRAMES 64
#define STACK_SIZE (64 << 10)

/* The addresses of a shared object, or of the program. */
struct object {
	uintptr_t inside; /* an address within it */
	uintptr_t begin, end;
};

static struct object plugin, rondo;
static _Atomic int *crashed_at;
static char stack[STACK_SIZE]; /* the ordinary stack may have overflowed */

static int look_at_object(struct dl_phdr_info *info, size_t size, void *argument)
{
	struct object *object = argument;
	uintptr_t begin = UINTPTR_MAX, end = 0;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type != PT_LOAD)
			continue;
		begin = at < begin ? at : begin;
		end = at + segment->p_memsz > end ? at + segment->p_memsz : end;
	}
	if (object->inside < begin || object->inside >= end)
		return 0;
	object->begin = begin;
	object->end = end;
	return 1;
}

static struct object object_of(const void *inside)
{
	struct object object = { .inside = (uintptr_t)inside };

	dl_iterate_phdr(look_at_object, &object);
	return object;
}

static bool lies_in(const void *address, const struct object *object)
{
	return (uintptr_t)address >= object->begin && (uintptr_t)address < object->end;
}

/* Finds the innermost function of Rondo or the plug-in, and whether the plug-in called it. */
static enum crash_place place_of(void *const *frames, int count)
{
	enum crash_place place = CRASH_UNKNOWN;

	for (int i = 0; i < count; i++) {
		if (lies_in(frames[i], &plugin))
			return place == CRASH_UNKNOWN ? CRASH_IN_PLUGIN : CRASH_UNDER_PLUGIN;
		if (lies_in(frames[i], &rondo))
			place = CRASH_IN_RONDO;
	}
	return place;
}

/* *at: the instruction of the crash. *caller: where the return address is, if that was a call of an
   address without a function. */
static void read_context(const ucontext_t *context, void **at, void *const **caller)
{
#if defined(__x86_64__)
	*at = (void *)context->uc_mcontext.gregs[REG_RIP];
	*caller = (void *const *)context->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
	*at = (void *)context->uc_mcontext.pc;
	*caller = (void *const *)&context->uc_mcontext.regs[30];
#else
	(void)context;
	*at = NULL;
	*caller = NULL;
#endif
}

/* Returns the number of frames. musl has no backtrace(): the instruction and its caller must do. */
static int trace(void **frames)
{
#ifdef __GLIBC__
	return backtrace(frames, FRAMES);
#else
	(void)frames;
	return 0;
#endif
}

/* The surest answer comes first: if the handler crashes too, it stands. */
static void record_place(const ucontext_t *context)
{
	void *frames[FRAMES], *at;
	void *const *caller;
	int first = 0, count;

	read_context(context, &at, &caller);
	*crashed_at = lies_in(at, &plugin) ? CRASH_IN_PLUGIN : CRASH_UNKNOWN;
	count = trace(frames);
	/* Skips the frames of the handler. */
	while (first < count && frames[first] != at)
		first++;
	*crashed_at = place_of(frames + first, count - first);
	if (*crashed_at == CRASH_UNKNOWN)
		*crashed_at = place_of(&at, 1);
	if (*crashed_at == CRASH_UNKNOWN && caller)
		*crashed_at = place_of(caller, 1);
}

/* Raises the signal again, now unhandled (SA_RESETHAND). */
static void on_crash(int number, siginfo_t *info, void *context)
{
	(void)info;
	record_place(context);
	raise(number);
}

void crash_watch(_Atomic int *place, const void *of_plugin)
{
	static const int deadly[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS };
	stack_t aside = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_sigaction = on_crash,
		.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND | SA_NODEFER };
	void *frames[FRAMES];

	crashed_at = place;
	plugin = object_of(of_plugin);
	rondo = object_of(&rondo);
	/* Its first call loads a library: not in a signal handler. */
	trace(frames);
	sigaltstack(&aside, NULL);
	for (size_t i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++)
		sigaction(deadly[i], &action, NULL);
}
