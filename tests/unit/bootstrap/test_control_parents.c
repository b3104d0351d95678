/* ctest label: threads */
/* The verdict of a parent, which comes to one rank while it makes a group. */
#include <criterion/criterion.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bootstrap/lineage.h"
#include "control_ranks.h"

static int join_group(struct control_rank *rank, struct control_rank *in_group)
{
	struct rd_lineage_address place = rd_control_members(rank->control)[0].lineage;
	int wake_fd = eventfd(0, EFD_CLOEXEC);
	struct rd_control_config config = { .settings = &in_group->settings,
		.self = &in_group->self,
		.activity = &in_group->activity,
		.failed = &in_group->failed,
		.wake_fd = wake_fd,
		.parent = rank->control,
		.group = 17 };

	control_prepare_rank(in_group, rank->rank, rank->size, rank->settings.port, NULL);
	in_group->wake_fd = wake_fd;
	place.port = place.group_port;
	rd_lineage_meet(&in_group->settings, &place);
	return control_keep_error(rank, rd_control_create(&in_group->control, &config)) ||
	       control_keep_error(rank, control_ready(in_group));
}

static int fail_in_1(struct control_rank *rank)
{
	struct control_rank in_group;

	if (control_join_and_open(rank) || join_group(rank, &in_group))
		return rank->error;
	/* In rank 0 the group is made. */
	if (rank->rank == 0)
		rd_control_detach(in_group.control);
	pthread_barrier_wait(&together);
	if (rank->rank == 1)
		rd_control_fail_children(rank->control, RONDO_REVOKED, "enough");
	control_await_verdict(&in_group);
	control_keep_error(rank, rd_control_verdict(in_group.control));
	rd_control_destroy(in_group.control);
	close(in_group.wake_fd);
	pthread_barrier_wait(&together);
	return rank->error;
}

Test(control_parents, a_verdict_that_comes_late_to_one_rank_reaches_all, .timeout = 30)
{
	control_prepare(2, fail_in_1);
	control_run(2);
	control_expect(0, 2, RONDO_REVOKED, "enough");
}
