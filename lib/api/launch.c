/* rondo_get_launch(). */
#include "base/environment.h"
#include "base/error.h"
#include "base/launch/launch.h"
#include "topo/processors.h"

int rondo_get_launch(struct rondo_launch *launch)
{
	const char *wanted = rd_environment("RONDO_LAUNCHER");
	struct rd_launch found;
	int err;

	if (!launch)
		return rd_fail(RONDO_INVALID, "rondo_get_launch: launch is NULL");
	*launch = (struct rondo_launch){ "none", 0, 1, -1, -1, rd_processors_here() };
	err = rd_launch_read(&found, wanted ? wanted : "auto");
	if (err || found.launcher == RD_LAUNCHER_NONE)
		return err;
	int sharers = found.local_size > 0 ? found.local_size : found.size;
	int processors = rd_processors_of_ranks(rd_processors_of_launch(&found), sharers) / sharers;
	launch->launcher = rd_launch_name(found.launcher);
	launch->rank = found.rank;
	launch->size = found.size;
	launch->local_rank = found.local_rank;
	launch->local_size = found.local_size;
	launch->processors = processors > 0 ? processors : 1;
	return 0;
}
