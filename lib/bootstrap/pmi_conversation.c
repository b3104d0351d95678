#include "bootstrap/pmi_conversation.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cancellation.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/error.h"

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

void rd_pmi_finalize(struct rd_pmi_conversation *with)
{
	ask(with, "cmd=finalize\n", "finalize_ack", NULL, NULL);
}
