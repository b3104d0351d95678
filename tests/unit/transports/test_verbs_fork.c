/* A child that is forked while another thread opens a device. */
#include <criterion/criterion.h>

#include "held_fork.h"
#include "rondo.h"
#include "transports/verbs/device.h"
#include "transports/verbs/library.h"

/* Below the lock of all devices. */
static struct ibv_device **get_device_list(int *count)
{
	held_fork_dwell();
	*count = 0;
	return NULL;
}

static void open_device(void)
{
	struct rd_verbs_device *device;

	rd_verbs_device_get("none", &device);
}

Test(verbs_fork, a_child_opens_a_device_though_a_thread_was_opening_one, .timeout = 60)
{
	if (rd_verbs_library_load())
		cr_skip("%s", rondo_last_error());
	rd_verbs.get_device_list = get_device_list;
	fork_while(open_device);
}
