/* What lies between hosts: dead interfaces; and that nothing is left of hosts when their test is
 * gone. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm.h"
#include "world.h"

static struct hosts *need_hosts(const struct hosts_shape *shape)
{
	const char *reason;
	struct hosts *hosts = hosts_create(shape, &reason);

	if (!hosts)
		cr_skip_test("no hosts: %s", reason);
	return hosts;
}

static int all_reduce_once(struct citizen *citizen, float *values, size_t count)
{
	float sum = (float)(citizen->size * (citizen->size + 1)) / 2;
	int err = citizen->create_error;

	for (size_t i = 0; i < count; i++)
		values[i] = (float)citizen->rank + 1;
	if (!err)
		err = rondo_all_reduce(
			citizen->comm, values, values, count, RONDO_F32, RONDO_SUM, NULL);
	if (err)
		return world_say(citizen, "%s", rondo_last_error());
	for (size_t i = 0; i < count; i++)
		if (values[i] != sum)
			return world_say(citizen, "element %zu is %g, not %g", i, values[i], sum);
	return 0;
}

/* ---- Dead interfaces ------------------------------------------------------------------------ */

static int meet(struct citizen *citizen)
{
	float value;

	return all_reduce_once(citizen, &value, 1);
}

Test(hosts_network, a_dead_interface_beside_the_one_in_use_harms_nothing, .timeout = 60)
{
	struct hosts *hosts = need_hosts(&(struct hosts_shape){ .count = 2, .networks = 2 });
	struct world world = { .size = 4, .hosts = hosts, .host_of = { 0, 0, 1, 1 } };

	cr_assert(hosts_unplug(hosts, 1, 1));
	cr_assert_eq(world_run(&world, meet, NULL, NULL), 0);
	hosts_destroy(hosts);
}

/* ---- Nothing is left ------------------------------------------------------------------------ */

static void be_hosts_until_killed(pid_t watcher, int ready)
{
	const char *reason;
	struct hosts *hosts = hosts_create(&(struct hosts_shape){ .count = 2 }, &reason);
	char command[160], byte = 0;

	if (!hosts)
		_exit(1);
	if (fork() == 0) {
		hosts_enter(hosts, 1);
		/* One end with the watcher: it goes when the host does. */
		snprintf(command, sizeof(command),
			"PATH=$PATH:/usr/sbin:/sbin; ip link add near type veth peer name far "
			"netns %d",
			(int)watcher);
		if (system(command) == 0 && write(ready, &byte, 1) == 1)
			pause();
		_exit(1);
	}
	pause();
}

Test(hosts_network, a_test_that_is_killed_leaves_no_hosts, .timeout = 60)
{
	/* In a namespace of its own, so that nothing of the machine's is touched. */
	struct hosts *hosts = need_hosts(&(struct hosts_shape){ .count = 1 });
	int ready[2];
	char byte;

	cr_assert_eq(pipe2(ready, O_CLOEXEC), 0);
	pid_t watcher = gettid(), test = fork();

	if (test == 0)
		be_hosts_until_killed(watcher, ready[1]);
	close(ready[1]);
	cr_assert_eq(read(ready[0], &byte, 1), 1, "no hosts within");
	cr_assert(if_nametoindex("far"));
	kill(test, SIGKILL);
	waitpid(test, NULL, 0);
	/* The kernel takes namespaces down when it has time. */
	for (int waited_ms = 0; if_nametoindex("far") && waited_ms < 20000; waited_ms += 10)
		poll(NULL, 0, 10);
	cr_assert_not(if_nametoindex("far"), "the killed test's host is still there");
	hosts_destroy(hosts);
}
