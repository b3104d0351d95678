#include "api/meet.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include "base/error.h"
#include "bootstrap/inherited.h"
#include "bootstrap/pmi.h"
#include "bootstrap/unique_id.h"

/*
 * The socket that a launcher opened is for the address that it chose, and for every comm that meets
 * there: each listens at a copy.
 */
static void share_rendezvous(struct rd_settings *settings, const struct rondo_config *config)
{
	bool elsewhere = config && (config->address || config->port >= 0);
	int copy;

	if (settings->rendezvous_fd < 0 || (config && config->rendezvous_fd >= 0))
		return;
	copy = elsewhere ? -1 : fcntl(settings->rendezvous_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	/* A descriptor that cannot be copied is no socket: its use fails later, with the reason. */
	if (copy >= 0 || elsewhere)
		settings->rendezvous_fd = copy;
}

/* Whether the program says itself where rank 0 listens. */
static bool gives_socket(const struct rondo_config *config)
{
	return config && (config->address || config->port >= 0 || config->rendezvous_fd >= 0);
}

int rd_meet_where(struct rd_settings *settings, const struct rondo_config *config)
{
	bool has_id = config && config->unique_id;

	if (has_id && gives_socket(config))
		return rd_fail(RONDO_INVALID,
			"unique_id in struct rondo_config replaces address, port and "
			"rendezvous_fd: set none of them");
	if (has_id) {
		/* That of the environment is for other comms. */
		settings->rendezvous_fd = -1;
		return rd_unique_id_meet(settings, config->unique_id);
	}
	if (!gives_socket(config)) {
		int err = rd_refuse_inherited_rank(settings);

		if (err)
			return err;
		if (settings->pmi_fd >= 0 && settings->size > 1)
			return rd_pmi_meet(settings);
	}
	share_rendezvous(settings, config);
	return 0;
}
