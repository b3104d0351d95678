/* A child that is forked while another thread loads plug-ins and plan files. */
#include <criterion/criterion.h>

#include "api/plugin.h"
#include "held_fork.h"

/* Below the lock of all that is loaded. */
int __wrap_rd_plan_files_load(const char *list);

int __wrap_rd_plan_files_load(const char *list)
{
	(void)list;
	held_fork_dwell();
	return 0;
}

static void load(void)
{
	struct rd_settings settings = {
		.transport_plugin = "", .algo_plugin = "", .plan_files = ""
	};

	rd_plugins_load(&settings);
}

Test(plugin_fork, a_child_loads_though_a_thread_was_loading, .timeout = 60)
{
	fork_while(load);
}
