#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/trial.h"
#include "bootstrap/peer_watch.h"
#include "mute_files.h"
#include "rondo.h"
#include "text.h"
#include "topo/place.h"

/* The watch of a rank whose host has another one, in this PID namespace or another. */
static struct rd_watch *watch_over(pid_t pid, uint32_t space)
{
	static const struct rd_settings plain = { .topo_file = "", .host = "" };
	struct rd_member members[2];

	memset(members, 0, sizeof(members));
	cr_assert_eq(rd_place_here(&members[0].place, &plain), 0);
	members[1].place = members[0].place;
	members[1].place.pid = pid;
	members[1].place.pid_space ^= space;

	struct rd_watch_config config = { 0, 2, members, ((uint64_t)getpid() << 32) + space, -1 };
	return rd_watch_create(&config);
}

static bool watches(pid_t pid, uint32_t space)
{
	struct rd_watch *watch = watch_over(pid, space);

	rd_watch_destroy(watch);
	return watch;
}

Test(peer_watch, is_over_another_process_even_of_an_equal_pid, .timeout = 10)
{
	cr_assert_not(watches(getpid(), 0), "the ranks are in one process");
	cr_assert(watches(getpid() + 1, 0));
	cr_assert(watches(getpid(), 1));
}

/* As the first rank to leave may have gone before the last one starts. */
Test(peer_watch, says_nothing_of_a_rank_that_has_left, .timeout = 10)
{
	char path[] = "/tmp/rondo-watch-XXXXXX", *text;
	struct rd_watch *watch = watch_over(getpid() + 1, 3);
	int file = mkstemp(path);

	cr_assert(watch && file >= 0);
	rd_log_set(RD_INFO, 1 << RD_BOOTSTRAP);
	rd_log_to(path);
	rd_watch_start(watch);
	text = file_text(file);
	unlink(path);
	cr_expect_str_empty(text);
	close(file);
	rd_watch_destroy(watch);
}

/* A comm that ends leaves its place to another, which does not have its count. */
Test(peer_watch, counts_the_calls_of_so_many_comms, .timeout = 10)
{
	struct rd_watch *watch = watch_over(getpid() + 1, 2);
	struct rd_watch_count *counts[RD_WATCH_COMMS];

	cr_assert(watch);
	for (uint64_t id = 0; id < RD_WATCH_COMMS; id++) {
		counts[id] = rd_watch_count(watch, 1000 + id, 3);
		cr_assert(counts[id]);
		atomic_store(&counts[id]->done, 7);
	}
	cr_expect_null(rd_watch_count(watch, 1, 3));
	rd_watch_uncount(watch, counts[5]);
	cr_expect_eq(atomic_load(&counts[5]->rank), -1);
	cr_expect_eq(atomic_load(&counts[5]->done), 7);
	cr_expect_eq(rd_watch_count(watch, 2, 3), counts[5]);
	cr_expect_eq(atomic_load(&counts[5]->done), 0);
	rd_watch_destroy(watch);
}

Test(peer_watch, knows_the_calls_of_a_dead_rank_by_comm)
{
	static struct rd_death death;

	atomic_store(&death.counts.at[3].comm_id, 42);
	cr_expect_eq(rd_death_count(&death, 42), &death.counts.at[3]);
	cr_expect_null(rd_death_count(&death, 43));
}

/* Children that the kernel cannot end, in state D: whoever waits for them leaves them. */

static struct mute_files files;

static int get_stuck(void *argument)
{
	(void)argument;
	close(files.fd);
	return open(files.file, O_RDONLY | O_CLOEXEC);
}

/* Rank 0 fails once rank 1 is stuck. */
static int fail_beside(void *argument)
{
	if (atoi(getenv("RANK")) == 1)
		return get_stuck(argument);
	mute_files_await(&files);
	return 3;
}

Test(stuck, ranks_of_rondo_spawn_are_named_and_left, .timeout = 60)
{
	const char *text;

	mute_files_mount(&files);
	captured_stderr_begin();
	cr_expect_eq(rondo_spawn(2, fail_beside, NULL), 3);
	text = captured_stderr_end();
	cr_expect(strstr(text, "rank 1 (pid ") &&
			  strstr(text, ") does not end 10 s after SIGKILL: leaving it"),
		"%s", text);
	mute_files_unmount(&files);
}

Test(stuck, a_trial_ends_though_its_process_does_not, .timeout = 60)
{
	pid_t server;

	mute_files_mount(&files);
	server = fork();
	if (server == 0) {
		mute_files_await(&files);
		_exit(0);
	}
	cr_expect_eq(rd_trial(get_stuck, NULL, 1000), RONDO_TIMEOUT);
	cr_expect_str_eq(rondo_last_error(), "hung for 1.0 s");
	cr_expect_eq(waitpid(server, NULL, 0), server);
	mute_files_unmount(&files);
}
