/* A child that is forked while another thread loads a library. */
#include <criterion/criterion.h>

#include "base/library.h"
#include "held_fork.h"

static int (*function)(void);
static const char *const name = "getpid";

/* Called below its lock. */
static struct rd_library library = {
	.file = "libc.so.6",
	.names = &name,
	.functions = &function,
	.count = 1,
	.start = held_fork_dwell,
	.lock = RD_FORK_LOCK(RD_FORK_LEAF),
};

static void load(void)
{
	rd_library_load(&library);
}

Test(library_fork, a_child_loads_it_though_a_thread_was_loading_it, .timeout = 60)
{
	fork_while(load);
	cr_expect(library.loaded);
}
