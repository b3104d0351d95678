/*
 * Splitting a comm into parts. If no rank lacks memory, the ranks exchange their colors and keys,
 * from which each computes its part. The first rank of each part listens and sends its address. The
 * ranks of a part meet there as any comm does; a failure of the old comm ends that. Last, all ranks
 * of the old comm exchange their results, so that all return the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/communicator.h"
#include "net/socket.h"
#include "base/error.h"

/* The arguments of one rank. */
struct arguments {
	int32_t color, key;
};

/* The result of a rank: an error and its reason; else the address of a part's first rank. */
struct report {
	int32_t error, port;
	char text[RD_REASON_SIZE];
};

struct split {
	rondo_comm *comm;
	struct arguments *arguments; /* [size of the old comm] */
	struct report mine, *all; /* all: [size of the old comm] */
	int rank, size, first; /* in the new comm; its first rank, in the old one; -1: in none */
	int listen_fd;
	rondo_comm *made;
};

/* ---- The parts ------------------------------------------------------------------------------ */

/* Whether rank a comes before rank b in the part that both are in. */
static bool before(const struct arguments *arguments, int a, int b)
{
	return arguments[a].key != arguments[b].key ? arguments[a].key < arguments[b].key : a < b;
}

static void find_part(struct split *split)
{
	const struct arguments *arguments = split->arguments;
	int self = split->comm->rank;

	split->first = -1;
	for (int i = 0; i < split->comm->size && arguments[self].color >= 0; i++) {
		if (arguments[i].color != arguments[self].color)
			continue;
		split->size++;
		split->rank += before(arguments, i, self);
		if (split->first < 0 || before(arguments, i, split->first))
			split->first = i;
	}
}

/* ---- Where a part meets --------------------------------------------------------------------- */

static int listen_for_part(struct split *split)
{
	struct sockaddr_storage near;
	char address[RD_NUMERIC_ADDRESS];
	uint32_t port = 0;

	rd_control_address(split->comm->control, &near);
	split->listen_fd = rd_listen_near(&near);
	if (split->listen_fd < 0 || rd_socket_place(split->listen_fd, address, &port))
		return rd_fail_errno("rank %d cannot listen for its part", split->comm->rank);
	split->mine.port = (int)port;
	snprintf(split->mine.text, sizeof(split->mine.text), "%s",
		address[0] ? address : split->comm->settings.address);
	return 0;
}

static int join_part(struct split *split)
{
	struct rd_settings settings = split->comm->settings;
	const struct report *where = &split->all[split->first];
	int err;

	settings.rank = split->rank;
	settings.size = split->size;
	settings.rendezvous_fd = split->listen_fd;
	split->listen_fd = -1;
	if (split->size > 1) {
		snprintf(settings.address, sizeof(settings.address), "%.*s", RD_STRING_MAX - 1,
			where->text);
		settings.port = where->port;
	}
	err = rd_comm_make(
		&split->made, &settings, &(struct rd_comm_origin){ .parent = split->comm });
	rd_settings_forget(&settings);
	return err;
}

/* ---- The split ------------------------------------------------------------------------------ */

static void record(struct split *split, int err)
{
	memset(&split->mine, 0, sizeof(split->mine));
	split->mine.error = err;
	snprintf(split->mine.text, sizeof(split->mine.text), "%s", rondo_last_error());
}

/* All ranks of the old comm exchange their reports: the first error counts. */
static int exchange(struct split *split)
{
	int err = rondo_all_gather(
		split->comm, &split->mine, split->all, sizeof(split->mine), RONDO_U8, NULL);

	for (int i = 0; i < split->comm->size && !err; i++) {
		struct report *report = &split->all[i];

		report->text[sizeof(report->text) - 1] = '\0';
		if (report->error)
			err = rd_fail(report->error, "rank %d could not join its part: %s", i,
				report->text);
	}
	return err;
}

static int make_part(struct split *split)
{
	int err;

	find_part(split);
	if (split->first == split->comm->rank && split->size > 1) {
		err = listen_for_part(split);
		if (err)
			record(split, err);
	}
	err = exchange(split);
	if (err)
		return err;
	err = split->first >= 0 ? join_part(split) : 0;
	record(split, err);
	return exchange(split);
}

static int run_split(struct split *split, int color, int key, const char *function)
{
	rondo_comm *comm = split->comm;
	struct arguments own = { color, key };
	int err;

	split->arguments = calloc(comm->size, sizeof(*split->arguments));
	split->all = calloc(comm->size, sizeof(*split->all));
	err = rd_comm_agree_on_memory(comm, split->arguments && split->all, function);
	if (err)
		return err;
	err = rondo_all_gather(comm, &own, split->arguments, sizeof(own), RONDO_U8, NULL);
	return err ? err : make_part(split);
}

static int split_comm(rondo_comm *comm, int color, int key, rondo_comm **part, const char *function)
{
	struct split split = { .comm = comm, .listen_fd = -1 };
	int err;

	comm->calls_itself = true;
	err = run_split(&split, color, key, function);
	comm->calls_itself = false;
	if (split.listen_fd >= 0)
		close(split.listen_fd);
	free(split.arguments);
	free(split.all);
	if (err)
		return rd_comm_give_up(&split.made, err);
	*part = split.made;
	return 0;
}

int rondo_comm_split(rondo_comm *comm, int color, int key, rondo_comm **part)
{
	int err = rd_comm_check_origin(comm, part, "rondo_comm_split");

	return err ? err : split_comm(comm, color, key, part, "rondo_comm_split");
}

int rondo_comm_duplicate(rondo_comm *comm, rondo_comm **copy)
{
	int err = rd_comm_check_origin(comm, copy, "rondo_comm_duplicate");

	return err ? err : split_comm(comm, 0, comm->rank, copy, "rondo_comm_duplicate");
}
