#include "run/values.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/port.h"
#include "run/gpus.h"
#include "run/options.h"
#include "run/world.h"
#include "topo/processors.h"

#define SECONDS_MAX 86400

/* ---- Texts that are cut out of values ------------------------------------------------------- */

struct kept {
	struct kept *next;
	char text[];
};

/* Copies a part of a value, for the life of the process: a variable of the environment must stay
   whole, for the ranks read it, too. NULL, with one line on stderr, without memory. */
static const char *keep(const char *text, size_t length)
{
	static struct kept *all;
	struct kept *kept = malloc(sizeof(*kept) + length + 1);

	if (!kept) {
		arguments_refuse("out of memory");
		return NULL;
	}
	memcpy(kept->text, text, length);
	kept->text[length] = '\0';
	kept->next = all;
	all = kept;
	return kept->text;
}

/* ---- Numbers -------------------------------------------------------------------------------- */

bool values_digits(const char *text, const char *end, long least, long most, int *value)
{
	long number = 0;

	if (text == end)
		return false;
	for (; text < end; text++) {
		if (!isdigit((unsigned char)*text))
			return false;
		number = number * 10 + (*text - '0');
		if (number > most)
			return false;
	}
	*value = (int)number;
	return number >= least;
}

static bool refuse_range(const struct argument *argument, const char *text, const char *wanted)
{
	char all[128];

	snprintf(all, sizeof(all), wanted, argument->least, argument->most);
	return arguments_refuse_value(argument, all, text);
}

bool values_nodes(const struct argument *argument, void *target, const char *text)
{
	struct options *options = target;
	const char *colon = strchr(text, ':'), *end = text + strlen(text);
	int least, most;

	if (!values_digits(text, colon ? colon : end, argument->least, argument->most, &least) ||
		!values_digits(
			colon ? colon + 1 : text, end, argument->least, argument->most, &most))
		return refuse_range(argument, text, "a number from %ld to %ld, or MIN:MAX");
	if (least > most)
		return refuse_range(argument, text, "MIN:MAX with MIN up to MAX");
	options->nodes_min = least;
	options->nodes = most;
	return true;
}

bool values_local_size(const struct argument *argument, void *target, const char *text)
{
	int *size = target;
	char name[ARGUMENT_NAME_SIZE], reason[GPUS_REASON_SIZE];

	if (values_digits(text, text + strlen(text), argument->least, argument->most, size))
		return true;
	if (strcmp(text, "cpu") == 0) {
		*size = rd_processors_here();
		return true;
	}
	if (strcmp(text, "gpu") != 0 && strcmp(text, "auto") != 0)
		return refuse_range(
			argument, text, "a number from %ld to %ld, or cpu, gpu or auto");
	*size = gpus_count(reason);
	if (*size <= 0 && strcmp(text, "auto") == 0)
		*size = rd_processors_here();
	return *size > 0 || arguments_refuse("%s gpu: there is no GPU here: %s",
				    arguments_name(argument, name), reason);
}

bool values_seconds(const struct argument *argument, void *target, const char *text)
{
	char *end;
	double seconds = strtod(text, &end);

	/* strtod() also accepts signs, spaces, "inf" and "0x1". */
	if (strspn(text, "0123456789.") != strlen(text) || end == text || *end ||
		seconds < (double)argument->least || seconds > (double)argument->most)
		return refuse_range(argument, text, "seconds from %ld to %ld");
	*(int *)target = (int)(seconds * 1000);
	return true;
}

/* ---- Where nodes meet ----------------------------------------------------------------------- */

bool values_backend(const struct argument *argument, void *target, const char *text)
{
	static const char *const others[] = { "etcd", "etcd-v2", "mpi", "zeus" };
	int *backend = target;
	char name[ARGUMENT_NAME_SIZE];

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (strcmp(text, others[i]) == 0)
			return arguments_refuse("%s %s is not supported: c10d needs no server",
				arguments_name(argument, name), text);
	}
	if (strcmp(text, "static") != 0 && strcmp(text, "c10d") != 0)
		return arguments_refuse_value(argument, "static or c10d", text);
	*backend = strcmp(text, "c10d") == 0 ? RENDEZVOUS_C10D : RENDEZVOUS_STATIC;
	return true;
}

/* The length of the host that a text begins with; 0: none. Brackets are part of it. */
static size_t host_length(const char *text)
{
	const char *last = strrchr(text, ':');

	if (*text == '[')
		return strcspn(text, "]") + (strchr(text, ']') != NULL);
	/* An IPv6 address without brackets has no port. */
	return last && strchr(text, ':') == last ? (size_t)(last - text) : strlen(text);
}

/* The host without its brackets: NULL, with one line on stderr, for one that cannot be. */
/* A colon is of an IPv6 address, which may end with "%eth0". */
static bool is_name_or_ipv6(const char *host, size_t length)
{
	size_t address = strcspn(host, "%");
	char text[INET6_ADDRSTRLEN] = "";
	struct in6_addr parsed;

	if (!memchr(host, ':', length))
		return true;
	if (address > length)
		address = length;
	if (address >= sizeof(text))
		return false;
	memcpy(text, host, address);
	return inet_pton(AF_INET6, text, &parsed) == 1;
}

static const char *keep_zoned(const struct argument *argument, const char *host, size_t length)
{
	const char *kept = keep(host, length);

	if (!kept || !rd_address_lacks_zone(kept))
		return kept;
	arguments_refuse_value(
		argument, "the interface of a link-local address as well, as fe80::1%eth0", kept);
	return NULL;
}

static const char *keep_host(const struct argument *argument, const char *text, size_t length)
{
	const char *host = text;

	if (length >= 2 && host[0] == '[' && host[length - 1] == ']') {
		host++;
		length -= 2;
	}
	if (length > 0 && length < ADDRESS_SIZE) {
		size_t valid = 0;

		while (valid < length && (isalnum((unsigned char)host[valid]) ||
						 strchr("._:%-", host[valid]) != NULL))
			valid++;
		if (valid == length && is_name_or_ipv6(host, length))
			return keep_zoned(argument, host, length);
	}
	arguments_refuse_value(argument, "the name or address of a host", text);
	return NULL;
}

bool values_endpoint(const struct argument *argument, void *target, const char *text)
{
	struct options *options = target;
	size_t length = host_length(text);
	const char *rest = text + length;
	int port = -1;

	if (*rest &&
		(*rest != ':' || !values_digits(rest + 1, rest + strlen(rest), 0, 65535, &port)))
		return arguments_refuse_value(
			argument, "HOST:PORT with a port from 0 to 65535", text);
	options->endpoint = keep_host(argument, text, length);
	options->endpoint_port = port;
	return options->endpoint != NULL;
}

bool values_address(const struct argument *argument, void *target, const char *text)
{
	const char **address = target;

	*address = keep_host(argument, text, strlen(text));
	return *address != NULL;
}

bool values_run_id(const struct argument *argument, void *target, const char *text)
{
	if (strlen(text) >= RUN_ID_SIZE)
		return arguments_refuse_value(argument, "at most 127 characters", text);
	/* Its folder lies in that of --log-dir. */
	if (strchr(text, '/') || strcmp(text, ".") == 0 || strcmp(text, "..") == 0)
		return arguments_refuse_value(argument, "a name without /", text);
	return arguments_text(argument, target, text);
}

/* A key of --rdzv-conf. Those without an offset are read for torchrun's sake. */
struct key {
	const char *name;
	enum { SECONDS, COUNT, YES_OR_NO, TCP } kind;
	size_t offset; /* of an int in ms in struct options; 0: it has no effect */
};

static const struct key keys[] = {
	{ "timeout", SECONDS, offsetof(struct options, join_timeout_ms) },
	{ "join_timeout", SECONDS, offsetof(struct options, join_timeout_ms) },
	{ "last_call_timeout", SECONDS, offsetof(struct options, last_call_ms) },
	{ "close_timeout", SECONDS, 0 },
	{ "heartbeat_timeout", SECONDS, 0 },
	{ "read_timeout", SECONDS, 0 },
	{ "keep_alive_interval", SECONDS, 0 },
	{ "keep_alive_max_attempt", COUNT, 0 },
	{ "rank", COUNT, 0 },
	{ "is_host", YES_OR_NO, 0 },
	{ "use_libuv", YES_OR_NO, 0 },
	{ "store_type", TCP, 0 },
};

static bool is_one_of(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (strcasecmp(text, *words) == 0)
			return true;
	return false;
}

static bool read_key(const struct argument *argument, const struct key *key,
	struct options *options, const char *value)
{
	static const char *const answers[] = { "1", "true", "t", "yes", "y", "0", "false", "f",
		"no", "n", NULL };
	int number, *target = key->offset ? (int *)((char *)options + key->offset) : &number;
	char name[ARGUMENT_NAME_SIZE], full[2 * ARGUMENT_NAME_SIZE];
	struct argument part = { .name = full, .least = 0, .most = SECONDS_MAX };

	snprintf(full, sizeof(full), "%s: %s", arguments_name(argument, name), key->name);
	switch (key->kind) {
	case SECONDS:
		return values_seconds(&part, target, value);
	case COUNT:
		return arguments_number(&part, &number, value);
	case YES_OR_NO:
		return is_one_of(value, answers) || arguments_refuse_value(&part, "0 or 1", value);
	case TCP:
		return strcmp(value, "tcp") == 0 || arguments_refuse_value(&part, "tcp", value);
	}
	return false;
}

/* Removes the spaces around a text. */
static char *trim(char *text)
{
	char *end = text + strlen(text);

	while (end > text && isspace((unsigned char)end[-1]))
		*--end = '\0';
	return text + strspn(text, " \t");
}

static bool read_pair(const struct argument *argument, struct options *options, char *pair)
{
	char *equals = strchr(pair, '='), name[ARGUMENT_NAME_SIZE];
	const char *key = pair;
	struct rd_nearest nearest = RD_NEAREST(key);

	if (equals)
		*equals = '\0';
	key = trim(pair);
	if (!*key || !equals || !*trim(equals + 1))
		return arguments_refuse("%s: %s needs the form KEY=VALUE",
			arguments_name(argument, name), *key ? key : "each part");
	nearest.wanted = key;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strcmp(keys[i].name, key) == 0)
			return read_key(argument, &keys[i], options, trim(equals + 1));
		rd_nearest_try(&nearest, keys[i].name);
	}
	return arguments_refuse_name(argument, "keys of torchrun", &nearest);
}

bool values_rendezvous(const struct argument *argument, void *target, const char *text)
{
	char *copy = strdup(text), *rest = copy, *pair;
	bool read = true;

	if (!copy)
		return arguments_refuse("out of memory");
	while (read && *trim(copy) && (pair = strsep(&rest, ",")))
		read = read_pair(argument, target, pair);
	free(copy);
	return read;
}

/* ---- Lists ---------------------------------------------------------------------------------- */

/* Checks "RANK:STREAMS,...". */
static bool is_stream_list(const char *text)
{
	int rank, streams;

	for (;;) {
		size_t length = strcspn(text, ","), colon = strcspn(text, ":");

		if (colon >= length ||
			!values_digits(text, text + colon, 0, RANKS_MAX - 1, &rank) ||
			!values_digits(text + colon + 1, text + length, 0, 3, &streams))
			return false;
		if (!text[length])
			return true;
		text += length + 1;
	}
}

bool values_streams(const struct argument *argument, void *target, const char *text)
{
	struct streams *streams = target;
	int all;

	if (values_digits(text, text + strlen(text), 0, 3, &all)) {
		*streams = (struct streams){ .all = all };
		return true;
	}
	if (!is_stream_list(text))
		return arguments_refuse_value(argument,
			"0, 1 (stdout), 2 (stderr) or 3 (both), or LOCAL_RANK:STREAMS,...", text);
	*streams = (struct streams){ .listed = text };
	return true;
}

bool values_list(const struct argument *argument, void *target, const char *text)
{
	int rank;

	for (const char *at = text;; at++) {
		const char *end = at + strcspn(at, ",");

		if (!values_digits(at, end, 0, RANKS_MAX - 1, &rank))
			return arguments_refuse_value(
				argument, "local ranks with commas between them", text);
		at = end;
		if (!*at)
			break;
	}
	*(const char **)target = text;
	return true;
}

/* ---- Words ---------------------------------------------------------------------------------- */

/* All but those that the kernel keeps for itself, and those that rondo-run uses. */
static const struct {
	const char *name;
	int number;
} signals_passed_on[] = {
	{ "SIGHUP", SIGHUP },
	{ "SIGINT", SIGINT },
	{ "SIGQUIT", SIGQUIT },
	{ "SIGILL", SIGILL },
	{ "SIGTRAP", SIGTRAP },
	{ "SIGABRT", SIGABRT },
	{ "SIGBUS", SIGBUS },
	{ "SIGFPE", SIGFPE },
	{ "SIGUSR1", SIGUSR1 },
	{ "SIGSEGV", SIGSEGV },
	{ "SIGUSR2", SIGUSR2 },
	{ "SIGALRM", SIGALRM },
	{ "SIGTERM", SIGTERM },
	{ "SIGSTKFLT", SIGSTKFLT },
	{ "SIGTTIN", SIGTTIN },
	{ "SIGTTOU", SIGTTOU },
	{ "SIGURG", SIGURG },
	{ "SIGXCPU", SIGXCPU },
	{ "SIGXFSZ", SIGXFSZ },
	{ "SIGVTALRM", SIGVTALRM },
	{ "SIGPROF", SIGPROF },
	{ "SIGWINCH", SIGWINCH },
	{ "SIGPOLL", SIGPOLL },
	{ "SIGPWR", SIGPWR },
	{ "SIGSYS", SIGSYS },
};

/* -1: no signal that is passed on has this name. */
static int signal_number(const char *name)
{
	for (size_t i = 0; i < sizeof(signals_passed_on) / sizeof(signals_passed_on[0]); i++)
		if (!strcmp(signals_passed_on[i].name, name))
			return signals_passed_on[i].number;
	return -1;
}

bool values_signals(const struct argument *argument, void *target, const char *text)
{
	struct options *options = target;
	char *copy = strdup(text), *rest = copy, *word;
	bool read = copy != NULL;

	sigemptyset(&options->signals);
	while (read && (word = strsep(&rest, ","))) {
		int number = signal_number(trim(word));

		read = number > 0;
		if (read)
			sigaddset(&options->signals, number);
	}
	free(copy);
	options->signal_names = text;
	return read || arguments_refuse_value(argument,
			       "signals that can be passed on, such as SIGTERM,SIGUSR1", text);
}

bool values_start_method(const struct argument *argument, void *target, const char *text)
{
	static const char *const methods[] = { "spawn", "fork", "forkserver", NULL };

	(void)target;
	return is_one_of(text, methods) ||
	       arguments_refuse_value(argument, "spawn, fork or forkserver", text);
}

bool values_bind(const struct argument *argument, void *target, const char *text)
{
	static const char *const names[] = {
		[BIND_NONE] = "none", [BIND_CORES] = "cores", [BIND_NUMA] = "numa"
	};

	for (int i = 0; i < 3; i++) {
		if (strcmp(text, names[i]) == 0) {
			*(enum bind *)target = (enum bind)i;
			return true;
		}
	}
	return arguments_refuse_value(argument, "cores, numa or none", text);
}

bool values_export(const struct argument *argument, void *target, const char *text)
{
	struct options *options = target;
	size_t name = strcspn(text, "=");

	if (name == 0 || isdigit((unsigned char)*text))
		return arguments_refuse_value(argument, "NAME or NAME=VALUE", text);
	if (options->export_count == EXPORTS_MAX)
		return arguments_refuse("--%s: at most %d variables", argument->name, EXPORTS_MAX);
	options->exports[options->export_count++] = text;
	return true;
}
