#include "transports/verbs/library.h"

#include "base/library.h"

struct rd_verbs_library rd_verbs;

#define NAME(function) "ibv_" #function,
static const char *const names[] = { RD_VERBS_FUNCTIONS(NAME) };
#undef NAME

/* A forked child must not take pages from under the devices. Linux 5.12 and later see to that
   themselves, and the call then does nothing. */
static void start(void)
{
	rd_verbs.fork_init();
}

static struct rd_library library = {
	.file = "libibverbs.so.1",
	.reason = "there are RDMA devices, but ",
	.remedy = ": install Debian's package ibverbs-providers, or its like",
	.names = names,
	.functions = &rd_verbs,
	.count = sizeof(names) / sizeof(names[0]),
	.start = start,
	.lock = RD_FORK_LOCK(RD_FORK_LEAF),
};

int rd_verbs_library_load(void)
{
	return rd_library_load(&library);
}
