/* A child that is forked while another thread loads libibverbs, or opens a device. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <string.h>

#include "held_fork.h"
#include "transports/verbs/device.h"
#include "transports/verbs/library.h"

/* Both come below a lock. The library is one without devices. */
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *library, const char *name);

static bool dwells_in_load;

void *__wrap_dlopen(const char *name, int flags)
{
	static int library;

	(void)name;
	(void)flags;
	if (dwells_in_load)
		held_fork_dwell();
	return &library;
}

static struct ibv_device **get_device_list(int *count)
{
	held_fork_dwell();
	*count = 0;
	return NULL;
}

static int fork_init(void)
{
	return 0;
}

void *__wrap_dlsym(void *library, const char *name)
{
	(void)library;
	/* No other than these two is called. */
	return strcmp(name, "ibv_get_device_list") == 0 ? (void *)get_device_list
							: (void *)fork_init;
}

static void load(void)
{
	rd_verbs_library_load();
}

static void open_device(void)
{
	struct rd_verbs_device *device;

	rd_verbs_device_get("none", &device);
}

Test(verbs_fork, a_child_loads_the_library_though_a_thread_was_loading_it, .timeout = 60)
{
	dwells_in_load = true;
	fork_while(load);
}

Test(verbs_fork, a_child_opens_a_device_though_a_thread_was_opening_one, .timeout = 60)
{
	fork_while(open_device);
}
