#include "run/hosts/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host_name.h"
#include "rondo.h"
#include "secure/secret.h"

/* The address by which the front reached this host, from sshd: "client port server port". */
static void own_address(char *address, size_t size)
{
	const char *connection = getenv("SSH_CONNECTION");
	int at = 0;

	snprintf(address, size, "-");
	if (!connection)
		return;
	if (sscanf(connection, "%*s %*s %n", &at) == 0 && at > 0)
		snprintf(
			address, size, "%.*s", (int)strcspn(connection + at, " "), connection + at);
}

static bool say_hello(void)
{
	char address[128], hello[256];
	int size;

	own_address(address, sizeof(address));
	size = snprintf(hello, sizeof(hello), REMOTE_HELLO "%s %s\n", rondo_version(), address);
	return write(STDOUT_FILENO, hello, (size_t)size) == size;
}

/* Reads `size` bytes. */
static bool read_all(char *data, size_t size, int64_t until_ms)
{
	while (size > 0) {
		struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
		int64_t left = until_ms - rd_clock_ms();
		ssize_t got;

		if (left <= 0 || (poll(&in, 1, (int)left) < 0 && errno != EINTR))
			return false;
		if (!in.revents)
			continue;
		got = read(STDIN_FILENO, data, size);
		if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
			return false;
		if (got > 0) {
			data += got;
			size -= (size_t)got;
		}
	}
	return true;
}

static size_t read_size(int64_t until_ms)
{
	size_t size = 0;
	char digit;

	while (read_all(&digit, 1, until_ms)) {
		if (digit == '\n')
			return size;
		if (digit < '0' || digit > '9' || size > REMOTE_SIZE_MAX)
			return 0;
		size = size * 10 + (size_t)(digit - '0');
	}
	return 0;
}

/* The front's strings, and the arguments among them; NULL at the end. */
static char *strings, **arguments;
static size_t strings_size;

static bool read_strings(size_t *size)
{
	int64_t until_ms = rd_clock_ms() + REMOTE_WAIT_MS;

	*size = read_size(until_ms);
	if (*size == 0 || *size > REMOTE_SIZE_MAX)
		return false;
	strings = malloc(*size);
	strings_size = strings ? *size : 0;
	return strings && read_all(strings, *size, until_ms) && strings[*size - 1] == '\0';
}

static char *next(char *string)
{
	return string + strlen(string) + 1;
}

static bool enter(const char *folder)
{
	char host[RD_HOST_NAME_SIZE];
	int error;

	if (chdir(folder) == 0) {
		setenv("PWD", folder, 1);
		return true;
	}
	error = errno;
	rd_host_name(host);
	fprintf(stderr, "rondo-run: host %s: cannot change to the folder %s: %s\n", host, folder,
		strerror(error));
	return false;
}

/* No process list shows it, as the environment would. */
static void take_secret(char *secret)
{
	char number[16];
	int fd;

	if (rd_secret_keep(&fd, secret, strlen(secret)) == 0) {
		snprintf(number, sizeof(number), "%d", fd);
		setenv("RONDO_SECRET_FD", number, 1);
	}
	/* The strings around it stay where they are. */
	memset(secret, 'x', strlen(secret));
}

static void set_variable(char *text)
{
	char *value = strchr(text, '=');

	if (strncmp(text, REMOTE_SECRET, strlen(REMOTE_SECRET)) == 0) {
		take_secret(value + 1);
		return;
	}
	if (!value || value == text)
		return;
	*value = '\0';
	setenv(text, value + 1, 1);
	*value = '=';
}

static bool take_strings(const char *end, int *argc)
{
	char *at;
	int count = 0;

	if (!enter(strings))
		return false;
	for (at = next(strings); at < end && *at; at = next(at))
		set_variable(at);
	at = at < end ? next(at) : at;
	for (char *argument = at; argument < end; argument = next(argument))
		count++;
	arguments = calloc((size_t)count + 1, sizeof(*arguments));
	if (!arguments || count == 0) {
		fputs("rondo-run: no arguments came from the rondo-run of --hosts\n", stderr);
		return false;
	}
	for (*argc = 0; at < end; at = next(at))
		arguments[(*argc)++] = at;
	return true;
}

/* Returns a descriptor of stdin, which becomes /dev/null; -1: none. */
static int take_stdin(void)
{
	int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0) {
		fprintf(stderr, "rondo-run: cannot keep the connection of ssh: %m\n");
		return -1;
	}
	close(null);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	return fd;
}

int remote_start(int *argc, char ***argv)
{
	size_t size = 0;

	if (!say_hello() || !read_strings(&size)) {
		fputs("rondo-run: " REMOTE_OPTION " is for the rondo-run of --hosts, which ended "
		      "early\n",
			stderr);
		return -1;
	}
	if (!take_strings(strings + size, argc))
		return -1;
	*argv = arguments;
	return take_stdin();
}

/* Where it failed early, the secret is still among the strings. */
void remote_finish(void)
{
	if (strings)
		explicit_bzero(strings, strings_size);
	free(strings);
	free(arguments);
}

int remote_signal(int *fd)
{
	unsigned char number;
	ssize_t got = read(*fd, &number, 1);

	if (got > 0)
		return number < NSIG ? number : 0;
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	close(*fd);
	*fd = -1;
	return SIGHUP;
}
