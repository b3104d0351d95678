#include "run/status/ask.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/status.h"
#include "run/base/memory.h"

#define ANSWER_MS 1000
#define ROUND_MAX 256 /* sockets at a time */
#define NAMES_MAX (16 * ROUND_MAX)
/* The kernel leaves out sockets while others come and go: one reading in a thousand misses one. */
#define READINGS 4

/* A connection to a process. */
struct question {
	int fd;
	pid_t pid;
	size_t size; /* of the bytes in text */
	size_t room; /* of text */
	bool ended;
	char *text;
};

/* ---- One question --------------------------------------------------------------------------- */

static bool is_ours(pid_t pid)
{
	struct stat at;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return stat(path, &at) == 0 && (at.st_uid == geteuid() || geteuid() == 0);
}

/* Fails where the socket is gone, or is another user's, who could answer anything. */
static bool question_begin(struct question *question, const char *name)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	size_t length = strlen(name);
	struct ucred peer;
	socklen_t size = sizeof(peer);

	memcpy(at.sun_path + 1, name, length);
	size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
	*question = (struct question){ 0 };
	question->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (question->fd < 0)
		return false;
	if (connect(question->fd, (struct sockaddr *)&at, size) == 0) {
		size = sizeof(peer);
		if (getsockopt(question->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
			(peer.uid == geteuid() || geteuid() == 0)) {
			question->pid = peer.pid;
			return true;
		}
	} else if (errno == EAGAIN) {
		/* Its queue is full, of others that ask. The name alone tells the process. */
		question->pid = (pid_t)strtol(name + strlen(RD_STATUS_NAME "."), NULL, 10);
		question->ended = true;
		if (is_ours(question->pid))
			return true;
	}
	close(question->fd);
	return false;
}

static void question_receive(struct question *question)
{
	ssize_t got;

	if (question->size == question->room) {
		question->room = question->room ? 2 * question->room : RD_STATUS_LINE_MAX;
		question->text = memory_realloc(question->text, question->room);
	}
	got = recv(
		question->fd, question->text + question->size, question->room - question->size, 0);
	if (got > 0)
		question->size += (size_t)got;
	else if (got == 0 || (errno != EAGAIN && errno != EINTR))
		question->ended = true;
	/* Longer than any status. */
	if (question->size > RD_STATUS_MAX) {
		question->size = 0;
		question->ended = true;
	}
}

/* Waits for all answers, and for no longer than ANSWER_MS. */
static void questions_wait(struct question *questions, int count)
{
	int64_t end_ms = rd_clock_ms() + ANSWER_MS, left_ms = ANSWER_MS;
	struct pollfd polls[ROUND_MAX];
	int open = count;

	while (open > 0 && left_ms > 0) {
		open = 0;
		for (int i = 0; i < count; i++) {
			polls[i].fd = questions[i].ended ? -1 : questions[i].fd;
			polls[i].events = POLLIN;
			open += !questions[i].ended;
		}
		if (open > 0 && poll(polls, (nfds_t)count, (int)left_ms) > 0)
			for (int i = 0; i < count; i++)
				if (polls[i].fd >= 0 && polls[i].revents)
					question_receive(&questions[i]);
		left_ms = end_ms - rd_clock_ms();
	}
}

/* ---- The answers ---------------------------------------------------------------------------- */

const char *status_text(const struct status *status, const char *name)
{
	const struct rd_json_value *value = NULL;

	if (status->text)
		value = rd_json_member(&status->json, status->json.values, name);
	return value && value->kind == RD_JSON_STRING ? value->text : "";
}

int64_t status_number(const struct status *status, const char *object, const char *name)
{
	const struct rd_json_value *value = NULL;
	int64_t number;

	if (status->text)
		value = status->json.values;
	if (value && object)
		value = rd_json_member(&status->json, value, object);
	if (value)
		value = rd_json_member(&status->json, value, name);
	return value && rd_json_whole(value, 0, INT64_MAX, &number) ? number : 0;
}

static bool read_number(const struct status *status, const char *name, int64_t *number)
{
	const struct rd_json_value *value =
		rd_json_member(&status->json, status->json.values, name);

	return value && rd_json_whole(value, 0, INT32_MAX, number);
}

static void status_finish(struct status *status)
{
	free(status->text);
	status->text = NULL;
	rd_json_finish(&status->json);
}

/* A line in the form of a status. */
static bool status_read(struct status *status, const char *line, size_t length)
{
	if (rd_json_parse(&status->json, "a status", line, length))
		return false;
	status->text = memory_calloc(1, length + 1);
	memcpy(status->text, line, length);
	if (read_number(status, "rank", &status->rank) &&
		read_number(status, "size", &status->size)) {
		status->failed = *status_text(status, "error");
		return true;
	}
	status_finish(status);
	return false;
}

static void statuses_drop(struct statuses *statuses, int from)
{
	while (statuses->count > from)
		status_finish(&statuses->list[--statuses->count]);
}

static struct status *statuses_add(struct statuses *statuses, pid_t pid)
{
	struct status *status;

	statuses->list = memory_grow(
		statuses->list, statuses->count, &statuses->capacity, sizeof(*statuses->list));
	status = &statuses->list[statuses->count++];
	*status = (struct status){ .pid = pid };
	return status;
}

/* One for each line. False: these are no statuses. */
static bool statuses_read(
	struct statuses *statuses, const struct question *question, const char *job)
{
	const char *line = question->text, *end = line + question->size, *newline;

	while (line < end) {
		int before = statuses->count;
		struct status *status = statuses_add(statuses, question->pid);

		newline = memchr(line, '\n', (size_t)(end - line));
		if (!newline || !status_read(status, line, (size_t)(newline - line)))
			return false;
		if (job && strcmp(status_text(status, "job"), job) != 0)
			statuses_drop(statuses, before);
		line = newline + 1;
	}
	return question->size > 0;
}

static int compare(const void *left, const void *right)
{
	const struct status *a = left, *b = right;
	int order = strcmp(status_text(a, "job"), status_text(b, "job"));

	if (!order)
		order = strcmp(status_text(a, "comm"), status_text(b, "comm"));
	if (!order)
		order = (a->rank > b->rank) - (a->rank < b->rank);
	return order ? order : (a->pid > b->pid) - (a->pid < b->pid);
}

static void statuses_take(
	struct statuses *statuses, struct question *questions, int count, const char *job)
{
	for (int i = 0; i < count; i++) {
		int before = statuses->count;

		if (!statuses_read(statuses, &questions[i], job)) {
			statuses_drop(statuses, before);
			statuses_add(statuses, questions[i].pid);
		}
		close(questions[i].fd);
		free(questions[i].text);
	}
}

/* ---- All ------------------------------------------------------------------------------------ */

/* The name of a socket of a rank that listens, in a line of RD_STATUS_SOCKETS: its last word. */
static const char *name_in(char *line)
{
	static const char prefix[] = " @" RD_STATUS_NAME ".";
	char *at = strstr(line, prefix), *flags = line;

	line[strcspn(line, "\n")] = 0;
	/* Number, references, protocol, flags: __SO_ACCEPTCON. */
	for (int i = 0; i < 3 && flags; i++) {
		flags = strchr(flags, ' ');
		if (flags)
			flags++;
	}
	if (!at || !flags || strncmp(flags, "00010000 ", 9) != 0)
		return NULL;
	at += 2;
	return strlen(at) < sizeof(((struct sockaddr_un *)0)->sun_path) ? at : NULL;
}

/* Names of sockets, each once. */
struct names {
	char (*list)[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int count, capacity;
};

static void names_add(struct names *names, const char *name)
{
	for (int i = 0; i < names->count; i++)
		if (strcmp(names->list[i], name) == 0)
			return;
	names->list =
		memory_grow(names->list, names->count, &names->capacity, sizeof(*names->list));
	snprintf(names->list[names->count++], sizeof(*names->list), "%s", name);
}

static bool names_read(struct names *names)
{
	FILE *file = fopen(RD_STATUS_SOCKETS, "re");
	char *line = NULL;
	size_t room = 0;

	if (!file)
		return false;
	while (names->count < NAMES_MAX && getline(&line, &room, file) > 0) {
		const char *name = name_in(line);

		if (name)
			names_add(names, name);
	}
	free(line);
	fclose(file);
	return true;
}

/* Asks at the next sockets. Returns how many names it has gone through. */
static int ask_some(struct statuses *statuses, struct question *questions,
	const struct names *names, int from, const char *job)
{
	int at = from, count = 0;

	for (; at < names->count && count < ROUND_MAX; at++)
		count += question_begin(&questions[count], names->list[at]);
	questions_wait(questions, count);
	statuses_take(statuses, questions, count, job);
	return at - from;
}

bool statuses_ask(struct statuses *statuses, const char *job)
{
	struct question *questions;
	struct names names = { 0 };

	*statuses = (struct statuses){ 0 };
	for (int i = 0; i < READINGS; i++)
		if (!names_read(&names)) {
			fprintf(stderr,
				"rondo-run: --status cannot read " RD_STATUS_SOCKETS ": %m\n");
			free(names.list);
			return false;
		}
	questions = memory_calloc(ROUND_MAX, sizeof(*questions));
	for (int at = 0; at < names.count;)
		at += ask_some(statuses, questions, &names, at, job);
	free(questions);
	free(names.list);
	if (statuses->count)
		qsort(statuses->list, (size_t)statuses->count, sizeof(*statuses->list), compare);
	return true;
}

void statuses_finish(struct statuses *statuses)
{
	statuses_drop(statuses, 0);
	free(statuses->list);
	*statuses = (struct statuses){ 0 };
}
