#include "bootstrap/pmi.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/close_on_fork.h"
#include "base/error.h"
#include "bootstrap/address_card.h"
#include "bootstrap/pmi_conversation.h"

#define REFUSED "refused" /* in place of rank 0's address */
#define FINALIZE_MS 1000

/* This process's part, once. */
static struct {
	pthread_mutex_t lock;
	bool done;
	int error;
	char reason[RD_REASON_SIZE];
	struct rd_address_card card;
	int fd; /* listens, in the process of rank 0; -1: in another */
	pid_t pid; /* that has used the connection; 0: none has */
	int pmi_fd;
	ino_t pmi_inode; /* of pmi_fd then: the number may be another file's later */
	struct rd_close_on_fork unshared;
} once = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

static ino_t inode_of(int fd)
{
	struct stat status;

	return fstat(fd, &status) ? 0 : status.st_ino;
}

/* At exit. A forked child leaves the connection to its parent. */
__attribute__((destructor)) static void finalize(void)
{
	struct rd_pmi_conversation with = { .fd = once.pmi_fd, .timeout_ms = FINALIZE_MS };

	if (once.pid != getpid() || inode_of(once.pmi_fd) != once.pmi_inode)
		return;
	with.deadline_ms = rd_clock_ms() + with.timeout_ms;
	rd_pmi_finalize(&with);
}

/* Without a socket, rank 0 still takes part, so that the others fail at once. */
static int meet(const struct rd_settings *settings)
{
	struct rd_pmi_conversation with = { .fd = settings->pmi_fd,
		.timeout_ms = settings->init_timeout_ms };
	char mine[RD_ADDRESS_CARD_TEXT] = REFUSED, text[RD_ADDRESS_CARD_TEXT],
	     reason[RD_REASON_SIZE];
	bool first = settings->process == 0;
	int error = first ? rd_address_card_open(&once.card, &once.fd, settings->port) : 0, err;

	with.deadline_ms = rd_clock_ms() + with.timeout_ms;
	once.pid = getpid();
	once.pmi_fd = with.fd;
	once.pmi_inode = inode_of(with.fd);
	if (error)
		snprintf(reason, sizeof(reason), "%s", rondo_last_error());
	else if (first) {
		rd_close_on_fork_add(&once.unshared, &once.fd);
		rd_address_card_print(mine, &once.card);
	}
	err = rd_pmi_exchange(&with, first ? mine : NULL, text);
	if (error)
		return rd_fail(error, "%s", reason);
	if (err)
		return err;
	if (strcmp(text, REFUSED) == 0)
		return rd_fail(RONDO_UNREACHABLE, "rank 0 cannot listen for the other ranks");
	return rd_address_card_read(&once.card, text);
}

static int use_card(struct rd_settings *settings)
{
	rd_address_card_use(settings, &once.card);
	if (settings->rank != 0)
		return 0;
	if (once.fd < 0)
		return rd_fail(RONDO_SETTING,
			"rank 0 is in process %d of PMI, and must be in process 0; or set MASTER_ADDR",
			settings->process);
	settings->rendezvous_fd = fcntl(once.fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	return settings->rendezvous_fd >= 0 ? 0 : rd_fail_errno("cannot copy a socket");
}

int rd_pmi_meet(struct rd_settings *settings)
{
	int err;

	pthread_mutex_lock(&once.lock);
	if (!once.done) {
		once.error = meet(settings);
		once.done = true;
		if (once.error)
			snprintf(once.reason, sizeof(once.reason), "%s", rondo_last_error());
	}
	err = once.error ? rd_fail(once.error, "%s", once.reason) : use_card(settings);
	pthread_mutex_unlock(&once.lock);
	return err;
}
