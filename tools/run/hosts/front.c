#include "run/hosts/front.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "rondo.h"
#include "run/base/descriptor.h"
#include "run/base/memory.h"
#include "run/guard.h"
#include "run/hosts/connection.h"
#include "run/hosts/list.h"
#include "run/hosts/remote.h"
#include "run/nodes/endpoint.h"
#include "run/output/console.h"
#include "secure/secret.h"

/* Until every host has answered. */
#define OPEN_MS 60000
/* From the first end to the close of the others, beyond the grace: they notice it themselves, and
   their ranks have 2 s for last words. */
#define END_MS 5000
/* Bytes: the text of a new secret, and a zero. */
#define SECRET_SIZE 128

struct front {
	const struct options *options;
	char **argv;
	const char *program;
	struct host_list list;
	struct connection *connections; /* [list.count] */
	int opened; /* connections that were opened, from the first */
	struct console console;
	struct polls polls;
	int signal_fd;
	int secret_fd; /* of the job's secret; -1: the hosts have a file */
	bool launched; /* all hosts have their arguments */
	int signal; /* the first that we received; 0: none */
	int64_t signal_ms; /* when */
	int status; /* of the first host that failed; 0: none has */
	int64_t open_until, close_at, kill_at; /* deadlines, in ms; 0: none */
};

/* ---- The strings of a host ------------------------------------------------------------------- */

static bool is_sent(const struct options *options, const char *variable)
{
	static const char *const names[] = { "PATH=", "LD_LIBRARY_PATH=", "PYTHONPATH=",
		"VIRTUAL_ENV=", "NO_COLOR=", "RONDO_", "PET_", "OMP_", "NCCL_", "TORCH_" };
	size_t name = strcspn(variable, "=");

	/* Descriptors of this process, and the name of its host. */
	if (strncmp(variable, "RONDO_RENDEZVOUS_FD=", 20) == 0 ||
		strncmp(variable, "RONDO_SECRET_FD=", 16) == 0 ||
		strncmp(variable, "RONDO_HOST=", 11) == 0)
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(variable, names[i], strlen(names[i])) == 0)
			return true;
	for (int i = 0; i < options->export_count; i++)
		if (strlen(options->exports[i]) == name &&
			strncmp(options->exports[i], variable, name) == 0)
			return true;
	return false;
}

static void put(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(FILE *out, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	vfprintf(out, format, values);
	va_end(values);
	fputc('\0', out);
}

/* The job's secret, which ssh encrypts on the way. Returns its length; 0: none. */
static size_t read_secret(const struct front *front, char secret[SECRET_SIZE])
{
	memset(secret, 0, SECRET_SIZE);
	if (front->secret_fd < 0 || pread(front->secret_fd, secret, SECRET_SIZE - 1, 0) < 0)
		return 0;
	return strcspn(secret, "\n");
}

static void put_variables(const struct front *front, FILE *out)
{
	const struct options *options = front->options;

	for (char **variable = environ; *variable; variable++)
		if (is_sent(options, *variable))
			put(out, "%s", *variable);
	for (int i = 0; i < options->export_count; i++)
		if (strchr(options->exports[i], '='))
			put(out, "%s", options->exports[i]);
	put(out, "%s", "");
}

/* Our arguments, and those of this host behind the options: the last of an option counts. */
static void put_arguments(const struct front *front, int node, const char *address, FILE *out)
{
	const struct options *options = front->options;
	const struct host *host = &front->list.hosts[node];
	char **argument = front->argv, **end = options->command;

	if (end > front->argv + 1 && strcmp(end[-1], "--") == 0)
		end--;
	for (; argument < end; argument++)
		put(out, "%s", *argument);
	put(out, "--hosts=");
	put(out, "--nnodes=%d", front->list.count);
	put(out, "--node-rank=%d", node);
	if (front->list.count > 1 && !options->address)
		put(out, "--master-addr=%s", address);
	if (host->local_size)
		put(out, "--nproc-per-node=%d", host->local_size);
	put(out, "--");
	for (argument = options->command; *argument; argument++)
		put(out, "%s", *argument);
}

/* Returns the strings of remote.h, to be freed by free_strings(). NULL without memory. */
static char *make_strings(
	const struct front *front, const char *folder, int node, const char *address, size_t *size)
{
	char *strings = NULL, secret[SECRET_SIZE];
	size_t length = read_secret(front, secret), at = strlen(folder) + 1 + strlen(REMOTE_SECRET);
	FILE *out = open_memstream(&strings, size);

	if (out) {
		put(out, "%s", folder);
		/* Blanks for now: as the stream grows, it leaves copies of its bytes behind. */
		if (length > 0)
			put(out, REMOTE_SECRET "%*s", (int)length, "");
		put_variables(front, out);
		put_arguments(front, node, address, out);
		if (fclose(out)) {
			free(strings);
			strings = NULL;
		}
	}
	if (strings)
		memcpy(strings + at, secret, length);
	explicit_bzero(secret, sizeof(secret));
	return strings;
}

static void free_strings(char *strings, size_t size)
{
	if (strings)
		explicit_bzero(strings, size);
	free(strings);
}

/* ---- Ending ---------------------------------------------------------------------------------- */

/* The hosts have this long to end by themselves. */
static void end_by(struct front *front, int64_t ms)
{
	if (front->close_at)
		return;
	front->close_at = rd_clock_ms() + ms;
	front->kill_at = front->close_at + (int64_t)front->options->grace_s * 1000 + END_MS;
}

static void fail(struct front *front, int status)
{
	if (!front->status)
		front->status = status;
	end_by(front, front->launched ? (int64_t)front->options->grace_s * 1000 + END_MS : 0);
}

static void on_end(struct front *front, const struct connection *connection, bool ran)
{
	const char *name = connection->host->name;
	char reason[512];

	if (!ran) {
		/* The others end because we close them. */
		if (front->close_at)
			return;
		connection_explain(connection, front->program, reason, sizeof(reason));
		console_print(&front->console, "host %s: %s", name, reason);
		fail(front, 1);
	} else if (connection_was_lost(connection)) {
		console_print(&front->console, "host %s: the connection of ssh is lost", name);
		fail(front, 1);
	} else if (connection->status) {
		fail(front, connection->status);
	}
}

static void close_all(struct front *front)
{
	for (int i = 0; i < front->opened; i++)
		connection_close(&front->connections[i]);
	front->close_at = INT64_MAX;
}

static void kill_all(struct front *front)
{
	for (int i = 0; i < front->opened; i++) {
		struct connection *connection = &front->connections[i];

		if (connection->state == CONNECTION_ENDED)
			continue;
		console_print(&front->console, "host %s does not end: leaving it",
			connection->host->name);
		connection_finish(connection);
	}
	front->kill_at = 0;
}

/* A second request ends the ranks at once. So the connections have no more use. */
static void on_signal(struct front *front)
{
	struct signalfd_siginfo got;
	int64_t now = rd_clock_ms();

	if (read(front->signal_fd, &got, sizeof(got)) != sizeof(got) ||
		(front->signal && now - front->signal_ms < GUARD_REQUEST_MS))
		return;
	for (int i = 0; i < front->opened; i++)
		connection_signal(&front->connections[i], (int)got.ssi_signo);
	if (front->signal) {
		close_all(front);
		front->kill_at = front->kill_at ? front->kill_at : now + END_MS;
		return;
	}
	front->signal = (int)got.ssi_signo;
	front->signal_ms = now;
	end_by(front, front->launched ? (int64_t)front->options->grace_s * 1000 + END_MS : 0);
}

static void on_clock(struct front *front)
{
	int64_t now = rd_clock_ms();

	if (!front->launched && !front->close_at && now >= front->open_until) {
		for (int i = 0; i < front->opened; i++)
			if (front->connections[i].state == CONNECTION_OPENS)
				console_print(&front->console, "host %s does not answer",
					front->connections[i].host->name);
		fail(front, 1);
	}
	if (front->close_at && now >= front->close_at)
		close_all(front);
	if (front->kill_at && now >= front->kill_at)
		kill_all(front);
}

/* ---- Starting -------------------------------------------------------------------------------- */

static bool open_all(struct front *front)
{
	front->connections = calloc((size_t)front->list.count, sizeof(*front->connections));
	if (!front->connections) {
		memory_report_lack();
		return false;
	}
	for (int i = 0; i < front->list.count; i++) {
		front->opened++;
		if (!connection_open(&front->connections[i], &front->list.hosts[i], front->program))
			return false;
	}
	front->open_until = rd_clock_ms() + OPEN_MS;
	return true;
}

/* The first host's address must be one that the others reach. */
static bool check_address(struct front *front)
{
	const struct connection *first = &front->connections[0];

	if (front->options->address || front->list.count == 1 ||
		!endpoint_is_loopback(first->address))
		return true;
	for (int i = 1; i < front->list.count; i++) {
		if (endpoint_is_loopback(front->connections[i].address))
			continue;
		console_print(&front->console,
			"host %s answers at %s, where host %s does not reach it: give its name, or "
			"--master-addr",
			first->host->name, first->address, front->list.hosts[i].name);
		return false;
	}
	return true;
}

static bool check_versions(struct front *front)
{
	for (int i = 0; i < front->list.count; i++) {
		const struct connection *connection = &front->connections[i];

		if (strcmp(connection->version, rondo_version()) == 0)
			continue;
		console_print(&front->console, "host %s has rondo-run %s, and this is %s",
			connection->host->name, connection->version, rondo_version());
		return false;
	}
	return true;
}

static bool send_all(struct front *front)
{
	char *folder = getcwd(NULL, 0);
	bool sent = folder != NULL;

	if (!folder)
		console_print(&front->console, "cannot find the working directory: %m");
	for (int i = 0; i < front->list.count && sent; i++) {
		size_t size = 0;
		char *strings =
			make_strings(front, folder, i, front->connections[0].address, &size);

		sent = strings && size <= REMOTE_SIZE_MAX;
		if (sent)
			connection_run(&front->connections[i], &front->console, strings, size);
		else
			console_print(&front->console, "the command line is too long");
		free_strings(strings, size);
	}
	free(folder);
	return sent;
}

/* Once all hosts have answered: nothing has started on any before. */
static void launch(struct front *front)
{
	for (int i = 0; i < front->list.count; i++)
		if (front->connections[i].state != CONNECTION_READY)
			return;
	if (check_versions(front) && check_address(front) && send_all(front))
		front->launched = true;
	else
		fail(front, 1);
}

/* Each connection takes four open files. */
static void make_room_for_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

/* Where the user has given no file. */
static bool make_secret(struct front *front)
{
	const char *file = getenv("RONDO_SECRET_FILE");

	if ((file && *file) || rd_secret_make(&front->secret_fd) == 0)
		return true;
	fprintf(stderr, "rondo-run: %s\n", rondo_last_error());
	return false;
}

static bool front_init(struct front *front)
{
	sigset_t ours = front->options->signals;
	const char *reason = host_list_read(&front->list, front->options->hosts);

	console_init(&front->console);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	sigprocmask(SIG_BLOCK, &ours, NULL);
	/* We read them all the same. ssh inherits this: who signals both of us asks us alone. */
	for (int i = 1; i < NSIG; i++)
		if (sigismember(&ours, i))
			signal(i, SIG_IGN);
	front->signal_fd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
	if (reason || front->signal_fd < 0) {
		fprintf(stderr, "rondo-run: cannot start: %s\n", reason ? reason : strerror(errno));
		return false;
	}
	make_room_for_files();
	return make_secret(front) && open_all(front);
}

/* ---- The loop -------------------------------------------------------------------------------- */

static int64_t next_deadline(const struct front *front)
{
	int64_t at = front->launched ? INT64_MAX : front->open_until;

	if (front->close_at)
		at = front->close_at;
	return front->kill_at && front->kill_at < at ? front->kill_at : at;
}

static int wait_for_events(struct front *front)
{
	int64_t at = next_deadline(front), left = at - rd_clock_ms();
	struct polls *polls = &front->polls;
	int timeout = at == INT64_MAX ? -1 : left > 0 ? (int)left : 0;

	polls->count = 0;
	polls_add(polls, front->signal_fd, POLLIN);
	console_add_polls(&front->console, polls);
	for (int i = 0; i < front->opened; i++)
		connection_add_polls(&front->connections[i], polls);
	return poll(polls->fds, (nfds_t)polls->count, timeout);
}

static void take_events(struct front *front)
{
	console_take_polls(&front->console, &front->polls);
	for (int i = 0; i < front->opened; i++) {
		struct connection *connection = &front->connections[i];
		enum connection_state before = connection->state;

		connection_take_polls(connection, &front->polls);
		if (connection->state == CONNECTION_ENDED && before != CONNECTION_ENDED)
			on_end(front, connection, before == CONNECTION_RUNS);
	}
	if (front->polls.fds[0].revents)
		on_signal(front);
	if (!front->launched && !front->close_at)
		launch(front);
}

static bool unfinished(const struct front *front)
{
	for (int i = 0; i < front->opened; i++)
		if (front->connections[i].state != CONNECTION_ENDED)
			return true;
	return !front->signal && console_waiting(&front->console);
}

static void front_finish(struct front *front)
{
	for (int i = 0; i < front->opened; i++)
		connection_finish(&front->connections[i]);
	free(front->connections);
	host_list_finish(&front->list);
	descriptor_close(&front->secret_fd);
	polls_finish(&front->polls);
	console_finish(&front->console);
}

int front_run(const struct options *options, char **argv)
{
	struct front front = {
		.options = options, .argv = argv, .program = ssh_program(argv[0]), .secret_fd = -1
	};

	if (!front_init(&front)) {
		front_finish(&front);
		return 1;
	}
	while (unfinished(&front)) {
		int ready = wait_for_events(&front);

		if (ready > 0)
			take_events(&front);
		if (ready < 0 && errno != EINTR && errno != EAGAIN) {
			fprintf(stderr, "rondo-run: cannot wait for the hosts: poll: %m\n");
			front.status = 1;
			break;
		}
		on_clock(&front);
	}
	front_finish(&front);
	return front.signal ? 128 + front.signal : front.status;
}
