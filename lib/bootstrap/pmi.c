#include "bootstrap/pmi.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancellation.h"
#include "base/clock.h"
#include "base/close_on_fork.h"
#include "base/environment.h"
#include "base/error.h"
#include "bootstrap/address_card.h"

#define REFUSED "refused" /* in place of rank 0's address */
#define FINALIZE_MS 1000
#define KEY "rondo"

/* ---- The protocol -------------------------------------------------------------------------- */

static int send_line(struct rd_pmi_conversation *with, const char *line)
{
	size_t size = strlen(line), sent = 0;

	while (sent < size) {
		ssize_t now = send(with->fd, line + sent, size - sent, MSG_NOSIGNAL);

		if (now < 0 && errno != EINTR)
			return rd_fail_errno("PMI: cannot write to PMI_FD %d", with->fd);
		sent += now > 0 ? (size_t)now : 0;
	}
	return 0;
}

static int await_bytes(struct rd_pmi_conversation *with, const char *command)
{
	struct pollfd fds[] = { { .fd = with->fd, .events = POLLIN },
		{ .fd = rd_cancellation_fd(), .events = POLLIN } };

	for (;;) {
		int64_t left = with->deadline_ms - rd_clock_ms();
		int ready = left > 0 ? poll(fds, 2, (int)left) : 0;

		if (rd_is_cancelled())
			return rd_fail_cancelled();
		if (ready > 0)
			return 0;
		if (ready == 0)
			return rd_fail(RONDO_TIMEOUT,
				"PMI: no answer to %s within %d ms; every process of the job must "
				"create its first comm then (RONDO_INIT_TIMEOUT_MS)",
				command, with->timeout_ms);
		if (errno != EINTR)
			return rd_fail_errno("PMI: cannot wait for PMI_FD %d", with->fd);
	}
}

/* A byte at a time: the bytes behind the line may be for the program's MPI library. */
static int receive_line(struct rd_pmi_conversation *with, const char *command)
{
	size_t size = 0;

	while (size < sizeof(with->line) - 1) {
		int err = await_bytes(with, command);
		ssize_t got = err ? 0 : recv(with->fd, with->line + size, 1, MSG_DONTWAIT);

		if (err)
			return err;
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got < 0)
			return rd_fail_errno("PMI: cannot read PMI_FD %d", with->fd);
		if (got == 0)
			return rd_fail(RONDO_BROKEN,
				"PMI: the process manager closed its connection at %s", command);
		if (with->line[size] == '\n') {
			with->line[size] = '\0';
			return 0;
		}
		size++;
	}
	return rd_fail(RONDO_PROTOCOL, "PMI: the answer to %s has no end", command);
}

/* The value of `name=` in the answer, up to a blank; NULL: there is none. Terminates it. */
static char *value_in(char *line, const char *name)
{
	size_t length = strlen(name);

	for (char *at = line; at && *at; at = strchr(at, ' ')) {
		at += strspn(at, " ");
		if (strncmp(at, name, length) == 0 && at[length] == '=') {
			at += length + 1;
			at[strcspn(at, " ")] = '\0';
			return at;
		}
	}
	return NULL;
}

/* Sends a command, and receives the answer of this name. *value: its value of `wanted`, in
   with->line. */
static int ask(struct rd_pmi_conversation *with, const char *command, const char *answer,
	const char *wanted, const char **value)
{
	char copy[RD_PMI_LINE], quote[41], name[32];
	int err;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(command + 4, " \n"), command + 4);
	err = send_line(with, command);
	if (!err)
		err = receive_line(with, name);
	if (err)
		return err;
	memcpy(copy, with->line, sizeof(copy));
	const char *got = value_in(copy, "cmd");
	if (!got || strcmp(got, answer) != 0)
		return rd_fail(RONDO_PROTOCOL, "PMI: \"%s\" is no answer to %s",
			rd_quotable(quote, with->line), name);
	memcpy(copy, with->line, sizeof(copy));
	got = value_in(copy, "rc");
	if (got && strcmp(got, "0") != 0)
		return rd_fail(
			RONDO_SYSTEM, "PMI: %s failed: %s", name, rd_quotable(quote, with->line));
	if (!wanted)
		return 0;
	*value = value_in(with->line, wanted);
	return *value ? 0 : rd_fail(RONDO_PROTOCOL, "PMI: no %s in the answer to %s", wanted, name);
}

/* ---- The exchange -------------------------------------------------------------------------- */

int rd_pmi_exchange(
	struct rd_pmi_conversation *with, const char *mine, char text[RD_ADDRESS_CARD_TEXT])
{
	char space[257], command[RD_PMI_LINE];
	const char *value = NULL;
	int err = ask(with, "cmd=get_my_kvsname\n", "my_kvsname", "kvsname", &value);

	if (err)
		return err;
	snprintf(space, sizeof(space), "%s", value);
	if (mine) {
		snprintf(command, sizeof(command), "cmd=put kvsname=%s key=" KEY " value=%s\n",
			space, mine);
		err = ask(with, command, "put_result", NULL, NULL);
	}
	if (!err)
		err = ask(with, "cmd=barrier_in\n", "barrier_out", NULL, NULL);
	if (err)
		return err;
	snprintf(command, sizeof(command), "cmd=get kvsname=%s key=" KEY "\n", space);
	err = ask(with, command, "get_result", "value", &value);
	if (!err)
		snprintf(text, RD_ADDRESS_CARD_TEXT, "%s", value);
	return err;
}

/* Waits for the answer. */
static void end_part(struct rd_pmi_conversation *with)
{
	ask(with, "cmd=finalize\n", "finalize_ack", NULL, NULL);
}

/* ---- This process's part -------------------------------------------------------------------- */

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
	end_part(&with);
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
