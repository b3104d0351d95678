#include "train/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "train/base/clock.h"
#include "train/base/fail.h"

/* A question costs some microseconds, and the grace is seconds. */
#define ASK_EVERY_S 0.5
#define STEPS_MAX 16 /* the next steps may be much longer than those so far */

/* In memory that the ranks of --ranks share with the process that waits for them. NULL: SIGTERM
   ends the process. */
static atomic_bool *came;

static void note(int signal)
{
	(void)signal;
	atomic_store(came, true);
}

int interrupt_catch(void)
{
	struct sigaction action = { .sa_handler = note, .sa_flags = SA_RESTART };
	void *shared = mmap(
		NULL, sizeof(*came), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return fail("no memory to note SIGTERM: %s", strerror(errno));
	came = shared;
	sigaction(SIGTERM, &action, NULL);
	return 0;
}

bool interrupt_came(void)
{
	return came && atomic_load(came);
}

int interrupt_check(
	struct interrupt *interrupt, const struct train_world *world, int64_t step, bool *stops)
{
	double now_s = clock_seconds();
	double values[2] = { interrupt_came(), now_s - interrupt->asked_s };
	*stops = false;
	if (step < interrupt->step)
		return 0;
	int err = world_max(world, values, 2);
	if (err)
		return err;
	if (!interrupt->every)
		interrupt->every = 1;
	else if (2 * values[1] < ASK_EVERY_S && interrupt->every < STEPS_MAX)
		interrupt->every *= 2;
	else if (values[1] > ASK_EVERY_S && interrupt->every > 1)
		interrupt->every /= 2;
	interrupt->step = step + interrupt->every;
	interrupt->asked_s = now_s;
	*stops = values[0] > 0;
	return 0;
}
