#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/peer_watch.h"
#include "topo/place.h"

/* Whether a rank watches over another one of its host, in this PID namespace or another one. */
static bool watches(pid_t pid, uint32_t space)
{
	static const struct rd_settings plain = { .topo_file = "" };
	struct rd_member members[2];

	memset(members, 0, sizeof(members));
	cr_assert_eq(rd_place_here(&members[0].place, &plain), 0);
	members[1].place = members[0].place;
	members[1].place.pid = pid;
	members[1].place.pid_space ^= space;

	struct rd_watch_config config = { 0, 2, members, ((uint64_t)getpid() << 32) + space, -1 };
	struct rd_watch *watch = rd_watch_create(&config);

	rd_watch_destroy(watch);
	return watch;
}

Test(peer_watch, is_over_another_process_even_of_an_equal_pid, .timeout = 10)
{
	cr_assert_not(watches(getpid(), 0), "the ranks are in one process");
	cr_assert(watches(getpid() + 1, 0));
	cr_assert(watches(getpid(), 1));
}
