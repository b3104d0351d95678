#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "bootstrap/peer_watch.h"
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
