/*
 * Coroutines as ThreadSanitizer sees them: each is a thread for it, and only release and acquire
 * order two of them. Other builds do nothing here.
 */
#ifndef FIBER_H
#define FIBER_H

#ifdef FIBERS_FOR_TSAN
#include <sanitizer/tsan_interface.h>

struct fiber {
	void *at = __tsan_create_fiber(0);

	~fiber()
	{
		__tsan_destroy_fiber(at);
	}
};

static inline void *fiber_now()
{
	return __tsan_get_current_fiber();
}

/* Immediately before the switch itself. */
static inline void fiber_switch(void *fiber)
{
	__tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync);
}

static inline void fiber_release(void *order)
{
	__tsan_release(order);
}

static inline void fiber_acquire(void *order)
{
	__tsan_acquire(order);
}
#else
struct fiber {
	void *at = nullptr;
};

static inline void *fiber_now()
{
	return nullptr;
}

static inline void fiber_switch(void *)
{
}

static inline void fiber_release(void *)
{
}

static inline void fiber_acquire(void *)
{
}
#endif

#endif
