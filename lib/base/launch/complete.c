#include "base/launch/complete.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/environment.h"
#include "base/hash.h"
#include "base/launch/address.h"
#include "base/port.h"

static int complete_address(struct rd_settings *settings, const struct rd_launch *launch)
{
	struct rd_launch_address address = { .pmi_fd = -1 };
	int err = 0;

	if (settings->size > 1 && launch->size > 1 && !settings->address[0])
		err = rd_launch_find_address(&address, launch);
	if (!settings->address[0])
		strcpy(settings->address, address.host[0] ? address.host : rd_loopback());
	settings->pmi_fd = address.pmi_fd;
	if (settings->port == 0 && settings->master_port == 0)
		settings->port = address.port;
	if (settings->master_port == 0)
		settings->master_port = RD_MASTER_PORT;
	if (settings->port == 0 && settings->pmi_fd < 0)
		settings->port = rd_port_from_master(settings->master_port);
	return err;
}

/* A name that is too long for the field is told from others of the same beginning by a hash. */
static void read_job(struct rd_settings *settings)
{
	const char *name = rd_environment("TORCHELASTIC_RUN_ID");
	size_t length = name ? strlen(name) : 0;

	if (length < sizeof(settings->job))
		memcpy(settings->job, name ? name : "", length + 1);
	else
		snprintf(settings->job, sizeof(settings->job), "%.100s#%016" PRIx64, name,
			rd_hash(RD_HASH_INIT, name, length));
	rd_disarm(settings->job, strlen(settings->job));
}

int rd_launch_complete(struct rd_settings *settings)
{
	struct rd_launch launch;
	/* A program that passes both needs no launcher. */
	bool is_known = settings->rank >= 0 && settings->size >= 0;
	int err = rd_launch_read(&launch, settings->launcher);

	if (settings->rank < 0)
		settings->rank = launch.rank;
	if (settings->size < 0)
		settings->size = launch.size;
	settings->local_rank = launch.local_rank;
	settings->process = launch.rank;
	read_job(settings);
	if (!err || is_known)
		return complete_address(settings, &launch);
	launch.size = -1;
	complete_address(settings, &launch);
	return err;
}
