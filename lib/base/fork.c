#include "base/fork.h"

#include <pthread.h>

#include "base/error.h"

struct rd_process rd_process;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int watching; /* an errno; 0: forks are counted */

static void count_fork(void)
{
	rd_process.forks++;
}

static void watch(void)
{
	watching = pthread_atfork(NULL, NULL, count_fork);
}

int rd_forks_watch(void)
{
	pthread_once(&once, watch);
	return watching ? rd_fail(RONDO_MEMORY, "no memory to be told of forks") : 0;
}

int rd_refuse_inherited(const char *function, const char *thing)
{
	return rd_fail(RONDO_INVALID,
		"%s: the %s was made before fork(), by the parent process, which alone may use it: "
		"a child makes its own",
		function, thing);
}
