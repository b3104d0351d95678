/*
 * A creation's thread makes the comm. The thread that tests takes the result, and frees all. Only
 * the resolver's calls cannot be interrupted: if one runs when the creation is cancelled, nobody
 * waits for it, and the creation's thread frees all in the end.
 */
#include "api/communicator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancellation.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/thread.h"
#include "gpu/create.h"

struct rondo_creation {
	struct rd_cancellation cancellation;
	struct rd_creation_work work;
	unsigned forks; /* rd_process.forks in the process that began it */
	pthread_t thread;
	/* The result, once the thread is over: */
	rondo_comm *comm;
	int error;
	char reason[RD_REASON_SIZE];
};

/* ---- The creation --------------------------------------------------------------------------- */

static void free_creation(struct rondo_creation *creation)
{
	rd_cancellation_finish(&creation->cancellation);
	free(creation);
}

/* The comm was made before the other ranks could learn of the cancellation. */
static int give_up_cancelled(rondo_comm **comm, int rank)
{
	return rd_comm_give_up(comm, rd_fail(RONDO_REVOKED, RD_CANCELLED, rank));
}

static void *run(void *argument)
{
	struct rondo_creation *creation = argument;

	rd_log_rank(creation->work.rank);
	rd_cancellation_begin(&creation->cancellation);
	creation->error = creation->work.make(&creation->comm, creation->work.arguments);
	free(creation->work.arguments);
	if (creation->error)
		snprintf(creation->reason, sizeof(creation->reason), "%s", rondo_last_error());
	if (rd_cancellation_end()) {
		give_up_cancelled(&creation->comm, creation->work.rank);
		free_creation(creation);
		pthread_detach(pthread_self());
	}
	return NULL;
}

int rd_creation_begin(rondo_creation **created, const struct rd_creation_work *work)
{
	struct rondo_creation *creation = calloc(1, sizeof(*creation));
	int err = creation ? rd_forks_watch()
			   : rd_fail(RONDO_MEMORY, "no memory for the creation of a comm");

	if (!err)
		err = rd_cancellation_init(&creation->cancellation, work->rank);
	if (err) {
		free(creation);
		return err;
	}
	creation->work = *work;
	creation->forks = rd_process.forks;
	err = rd_thread_start(&creation->thread, 0, run, creation);
	if (err) {
		free_creation(creation);
		return rd_fail(
			RONDO_SYSTEM, "cannot start a thread to create a comm: %s", strerror(err));
	}
	*created = creation;
	return 0;
}

/* An error comes again where the comm is made. */
void rd_creation_choose_device(struct rd_settings *settings)
{
	uint32_t pci;
	int device;

	if (settings->gpu < 0 && rd_gpu_device(settings, &device, &pci) == 0)
		settings->gpu = device;
}

/* ---- By rondo_comm_create() ----------------------------------------------------------------- */

struct arguments {
	struct rd_settings settings;
	struct rondo_config config; /* where the ranks meet */
	struct rondo_unique_id id;
	int invalid; /* the error of the settings; 0: none */
	char reason[RD_REASON_SIZE];
};

static int make(rondo_comm **comm, void *argument)
{
	struct arguments *arguments = argument;
	int err;

	if (arguments->invalid)
		rd_fail(arguments->invalid, "%s", arguments->reason);
	err = rd_comm_create(comm, &arguments->settings, &arguments->config, arguments->invalid);
	rd_settings_forget(&arguments->settings);
	explicit_bzero(&arguments->id, sizeof(arguments->id));
	return err;
}

/* The program may free the config at once. */
static void copy_place(struct arguments *arguments, const struct rondo_config *config)
{
	arguments->config = (struct rondo_config)RONDO_CONFIG_INIT;
	if (!config)
		return;
	arguments->config.port = config->port;
	arguments->config.rendezvous_fd = config->rendezvous_fd;
	if (config->address)
		arguments->config.address = arguments->settings.address;
	if (!config->unique_id)
		return;
	arguments->id = *config->unique_id;
	arguments->config.unique_id = &arguments->id;
}

int rondo_comm_create_begin(rondo_creation **creation, const struct rondo_config *config)
{
	struct arguments *arguments;
	int err;

	if (!creation)
		return rd_fail(RONDO_INVALID, "rondo_comm_create_begin: creation is NULL");
	*creation = NULL;
	arguments = calloc(1, sizeof(*arguments));
	if (!arguments)
		return rd_fail(RONDO_MEMORY, "no memory for the creation of a comm");
	err = rd_settings_read(&arguments->settings, config);
	arguments->invalid = err;
	if (err)
		snprintf(arguments->reason, sizeof(arguments->reason), "%s", rondo_last_error());
	/* Without a rank or a place there is nobody to send the reason to. */
	if (err && arguments->settings.rank < 0) {
		free(arguments);
		return err;
	}
	copy_place(arguments, config);
	rd_creation_choose_device(&arguments->settings);
	err = rd_creation_begin(
		creation, &(struct rd_creation_work){ arguments->settings.rank, make, arguments });
	if (err)
		free(arguments);
	return err;
}

/* ---- Testing and cancelling ----------------------------------------------------------------- */

static int check(const rondo_creation *creation, const char *function)
{
	if (!creation)
		return rd_fail(RONDO_INVALID, "%s: creation is NULL", function);
	return rd_is_inherited(creation->forks) ? rd_refuse_inherited(function, "creation") : 0;
}

/* The thread is over. */
static int take_result(rondo_creation *creation, rondo_comm **comm)
{
	int err = creation->error;

	pthread_join(creation->thread, NULL);
	if (err)
		rd_fail(err, "%s", creation->reason);
	else if (creation->cancellation.cancelled)
		err = give_up_cancelled(&creation->comm, creation->work.rank);
	*comm = creation->comm;
	free_creation(creation);
	return err;
}

int rondo_comm_create_test(rondo_creation *creation, rondo_comm **comm)
{
	int err = check(creation, "rondo_comm_create_test"), rank;

	if (!err && !comm)
		err = rd_fail(RONDO_INVALID, "rondo_comm_create_test: comm is NULL");
	if (err)
		return err;
	*comm = NULL;
	rank = creation->work.rank;
	switch (rd_cancellation_look(&creation->cancellation)) {
	case RD_CREATION_RUNS:
		return RONDO_PENDING;
	case RD_CREATION_OVER:
		return take_result(creation, comm);
	case RD_CREATION_ABANDONED:
		break;
	}
	return rd_fail(RONDO_REVOKED, RD_CANCELLED, rank);
}

int rondo_comm_create_cancel(rondo_creation *creation)
{
	int err = check(creation, "rondo_comm_create_cancel");

	if (!err)
		rd_cancellation_cancel(&creation->cancellation);
	return err;
}
