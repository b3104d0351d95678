#include "check/transport.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "check/crash.h"
#include "transports/contract/suite.h"
#include "base/clock.h"
#include "base/error.h"
#include "transports/contract/fixture.h"
#include "transports/transports.h"
#include "api/plugin.h"
#include "base/trial.h"
#include "rondo.h"

#define TIMEOUT_S 60
#define DEBUGGER_TIMEOUT_S 3600

/* A failed case exits at once: its process ends anyway. */
static jmp_buf failed_case;

void case_failed(const char *reason)
{
	rd_fail(RONDO_INVALID, "%s", reason);
	longjmp(failed_case, 1);
}

/* Shared with the process of a case. */
struct trial {
	_Atomic int crash; /* enum crash_place */
	char result[SPEED_TEXT];
};

struct run {
	const struct contract_case *what;
	const struct rd_transport *transport;
	const char *path; /* of a plug-in; the name of a transport of Rondo's own */
	bool own; /* a transport of Rondo's own */
	struct trial *trial; /* in shared memory */
	bool here; /* in this process */
	bool measures; /* those of speed */
};

static int run_case(void *argument)
{
	const struct run *run = argument;

	if (setjmp(failed_case))
		return RONDO_INVALID;
	rd_trial_stage("this case");
	if (!run->here && !run->own)
		crash_watch(&run->trial->crash, run->transport);
	run->what->run(run->transport->name);
	return 0;
}

static bool is_wanted(const struct options *options, const char *name)
{
	if (!options->cases[0])
		return true;
	for (char **wanted = options->cases; *wanted; wanted++)
		if (strcmp(*wanted, name) == 0)
			return true;
	return false;
}

/* The suite also crashes where the plug-in returned an invalid pointer. */
static const char *place_text(enum crash_place place)
{
	static const char *const texts[] = {
		[CRASH_UNKNOWN] = "",
		[CRASH_IN_PLUGIN] = ", in a function of the plug-in",
		[CRASH_UNDER_PLUGIN] = ", in Rondo, called by the plug-in",
		[CRASH_IN_RONDO] = (", in the suite and in no function of the plug-in: memory "
				    "that one of them gave it, or a fault of rondo-check"),
	};

	return texts[place];
}

static void report_failure(const struct run *run, int err, struct report *report)
{
	char text[RD_REASON_SIZE + 160];

	snprintf(text, sizeof(text), "%s%s", rondo_last_error(),
		place_text((enum crash_place)run->trial->crash));
	report_line(report, err == RONDO_MEMORY ? UNKNOWN : REFUSED, run->what->name, text);
	if (!run->here && !run->measures)
		report_hint(report, "--transport %s --no-fork %s", run->path, run->what->name);
}

/* NULL: the transport must pass this case. */
static const char *reason_to_skip(
	const struct contract_case *what, const struct rd_transport *transport)
{
	if (what->needs == CONTRACT_REGION && !transport->offer)
		return "it offers no memory";
	if (what->needs == CONTRACT_REGISTRATION && !transport->attach)
		return "it takes no registrations";
	if (what->needs == CONTRACT_PEER && transport == &rd_transport_loop)
		return "it links a rank to itself alone";
	return NULL;
}

static void check_case(struct run *run, int timeout_ms, struct report *report)
{
	const struct contract_case *what = run->what;
	const char *reason = reason_to_skip(what, run->transport);
	int err;

	if (reason) {
		report_line(report, SKIPPED, what->name, reason);
		return;
	}
	*run->trial = (struct trial){ .crash = CRASH_UNKNOWN };
	err = run->here ? run_case(run) : rd_trial(run_case, run, timeout_ms);
	if (err)
		report_failure(run, err, report);
	else
		report_line(report, KEPT, what->name, run->trial->result);
}

static int timeout_of(const struct options *options)
{
	if (options->timeout_s)
		return options->timeout_s * 1000;
	return (options->no_fork ? DEBUGGER_TIMEOUT_S : TIMEOUT_S) * 1000;
}

static void check_cases(struct run *run, const struct options *options, struct report *report)
{
	int timeout_ms = timeout_of(options);

	/* A wait within a case ends first, and its reason is more precise. */
	fixture_wait_ms = timeout_ms / 3;
	for (const struct contract_case *one = run->measures ? speed_cases : contract_cases;
		one->name; one++) {
		run->what = one;
		if (is_wanted(options, one->name))
			check_case(run, timeout_ms, report);
	}
}

static void check_transport(struct run *run, const struct options *options, struct report *report)
{
	if (run->own)
		printf("transport %s\n", run->transport->name);
	else
		printf("transport %s, from %s\n", run->transport->name, run->path);
	fflush(stdout);
	check_cases(run, options, report);
}

static int load(struct run *run, const struct rd_settings *settings)
{
	run->transport = rd_transport_find(run->path);
	run->own = run->transport != NULL;
	if (run->own)
		return run->transport->probe ? run->transport->probe(settings) : 0;
	return rd_plugin_load(RD_PLUGIN_TRANSPORT, run->path, settings);
}

bool check_transports(const char *path, const struct options *options,
	const struct rd_settings *settings, struct report *report)
{
	const struct rd_transport *const *transports;
	struct run run = { .path = path, .here = options->no_fork, .measures = options->measures };

	if (load(&run, settings))
		return false;
	run.trial = mmap(NULL, sizeof(*run.trial), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (run.trial == MAP_FAILED)
		return !rd_fail(RONDO_MEMORY, "no memory to try it");
	speed_text = run.trial->result;
	if (run.own)
		check_transport(&run, options, report);
	else
		for (transports = rd_plugin_transports(path); *transports; transports++) {
			run.transport = *transports;
			check_transport(&run, options, report);
		}
	munmap(run.trial, sizeof(*run.trial));
	return true;
}

/* ---- Speed ----------------------------------------------------------------------------------- */

#define SHORT 8
#define LONG (1 << 20)
#define ALIGNMENT 4096
#define PINGS_MAX 2000
#define PINGS_WARM 100
#define PINGS_NS 1000000000 /* the longest that pings take together */
#define ROUNDS 9
#define ROUND_NS 200000000 /* the least that a round of long messages takes */
#define STREAM_MAX (1 << 20) /* messages of a round */
/* Polls in vain, before a side sleeps. A round trip is shorter; a message of a stream is not, and
   one that polls would keep a core from the kernel's part of the transport. */
#define POLLS_SHORT 100000
#define POLLS_LONG 512
#define SLEEP_MS 100 /* the longest sleep before a look at the deadline */

/* A message's kind, in the first byte of its tag. */
enum { DATA, ASKS, LAST };

char *speed_text;

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int64_t median(int64_t *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), by_value);
	return values[count / 2];
}

/* ---- Messages. A side polls, then sleeps, as a rank does. ---- */

struct side {
	struct fixture *fixture;
	struct rd_link *link;
	int polls_most; /* before it sleeps */
	int polls; /* since the last message */
	bool armed; /* the next wait sleeps */
	uint64_t deadline_ms;
};

static void disarm(struct side *side)
{
	const struct rd_transport *transport = side->fixture->transport;

	if (side->armed && transport->disarm)
		transport->disarm(side->fixture->endpoint);
	side->armed = false;
}

static void end_wait(struct side *side)
{
	disarm(side);
	side->polls = 0;
}

/* Arms, for the caller to look once more; then sleeps. */
static void doze(struct side *side)
{
	struct fixture *fixture = side->fixture;
	struct epoll_event event;

	if (side->armed) {
		epoll_wait(fixture->local.epoll_fd, &event, 1, SLEEP_MS);
		disarm(side);
		return;
	}
	if (fixture->transport->arm)
		fixture->transport->arm(fixture->endpoint);
	side->armed = true;
}

/* False: a failure has been recorded. */
static bool wait_again(struct side *side)
{
	struct fixture *fixture = side->fixture;

	if (++side->polls >= side->polls_most) {
		if (side->polls == side->polls_most)
			side->deadline_ms = now_ms() + (uint64_t)fixture_wait_ms;
		doze(side);
		if (failed(fixture) ||
			!ok(fixture, side->link->error == 0, "the link: %s", side->link->reason) ||
			!ok(fixture, now_ms() < side->deadline_ms,
				"waited in vain for the other process"))
			return false;
	}
	fixture->transport->advance(fixture->endpoint);
	return true;
}

static bool try_to_send(
	struct rd_link *link, const struct rd_tag *tag, const void *from, size_t size)
{
	if (link->ops->send && size >= link->send_min && size > SHORT)
		return link->ops->send(link, tag, from, size);

	void *room = link->ops->reserve(link, size);

	if (!room)
		return false;
	memcpy(room, from, size);
	link->ops->commit(link, tag, size);
	return true;
}

static bool send_message(struct side *side, int kind, const void *from, size_t size)
{
	struct rd_tag tag = { { (unsigned char)kind } };

	while (!try_to_send(side->link, &tag, from, size))
		if (!wait_again(side))
			return false;
	end_wait(side);
	return true;
}

/* Its kind; -1: a failure has been recorded. */
static int receive_message(struct side *side, size_t expected)
{
	const struct rd_link_ops *ops = side->link->ops;
	struct rd_message message;

	while (!ops->recv(side->link, NULL, expected, &message))
		if (!wait_again(side))
			return -1;
	end_wait(side);

	int kind = message.tag->bytes[0];

	ops->release(side->link);
	return kind;
}

static bool ask(struct side *side, const void *from, size_t size)
{
	return send_message(side, ASKS, from, size) && receive_message(side, SHORT) >= 0;
}

/* Rank 1: takes messages, and answers those that ask. */
static void answer(struct fixture *fixture, struct rd_link **links, size_t expected, int polls_most)
{
	struct side side = { .fixture = fixture, .link = links[0], .polls_most = polls_most };
	const char pong[SHORT] = "";
	int kind;

	while ((kind = receive_message(&side, expected)) == DATA || kind == ASKS)
		if (kind == ASKS && !send_message(&side, ASKS, pong, SHORT))
			return;
}

/* ---- Latency ---- */

static void ping(struct fixture *fixture, struct rd_link **links)
{
	static int64_t times[PINGS_MAX];
	struct side side = { .fixture = fixture, .link = links[0], .polls_most = POLLS_SHORT };
	const char text[SHORT] = "";
	int count = 0;

	for (int i = 0; i < PINGS_WARM; i++)
		if (!ask(&side, text, SHORT))
			return;
	for (int64_t end = rd_clock_ns() + PINGS_NS, now = 0; count < PINGS_MAX && now < end;
		count++) {
		int64_t begin = rd_clock_ns();

		if (!ask(&side, text, SHORT))
			return;
		now = rd_clock_ns();
		times[count] = now - begin;
	}
	send_message(&side, LAST, text, SHORT);
	snprintf(speed_text, SPEED_TEXT, "%.2f us one way, %d bytes; median of %d",
		(double)median(times, count) / 2e3, SHORT, count);
}

static void pong(struct fixture *fixture, struct rd_link **links)
{
	answer(fixture, links, SHORT, POLLS_SHORT);
}

static void measure_latency(const char *transport)
{
	fixture_pair(transport, &shape_small, PROCESSES, ping, pong);
}

/* ---- Bandwidth ---- */

static const struct shape shape_long = { .size = 2, .channels = 1, .slots = 4, .piece = LONG };

/* The duration of `count` messages, until the last has arrived; -1: a failure. */
static int64_t stream_round(struct side *side, const void *memory, size_t size, int count)
{
	int64_t begin = rd_clock_ns();

	for (int i = 1; i < count; i++)
		if (!send_message(side, DATA, memory, size))
			return -1;
	return ask(side, memory, size) ? rd_clock_ns() - begin : -1;
}

static void stream(struct side *side, const void *memory, size_t size)
{
	int64_t times[ROUNDS];
	int count = 1;

	while ((times[0] = stream_round(side, memory, size, count)) < ROUND_NS &&
		count < STREAM_MAX)
		if (times[0] < 0)
			return;
		else
			count *= 2;
	for (int i = 0; i < ROUNDS; i++)
		if ((times[i] = stream_round(side, memory, size, count)) < 0)
			return;
	send_message(side, LAST, memory, SHORT);
	/* The memory stays until no message needs it. */
	while (side->link->sent != side->link->posted)
		if (!wait_again(side))
			return;
	end_wait(side);
	snprintf(speed_text, SPEED_TEXT, "%.4g GB/s, %zu bytes each; median of %d rounds",
		(double)size * count / (double)median(times, ROUNDS), size, ROUNDS);
}

/* Lets the links move messages from this memory with no copy, where the transport can. */
static bool attach(struct fixture *fixture, void *memory, size_t size)
{
	const struct rd_transport *transport = fixture->transport;
	const struct rd_registration registration = {
		.id = 1, .base = memory, .size = size, .dmabuf_fd = -1
	};

	return !transport->attach ||
	       ok(fixture, transport->attach(fixture->endpoint, &registration) == 0, "attach: %s",
		       rondo_last_error());
}

static void stream_out(struct fixture *fixture, struct rd_link **links)
{
	struct side side = { .fixture = fixture, .link = links[0], .polls_most = POLLS_LONG };
	size_t size = fixture_fit(fixture, LONG);
	void *memory = aligned_alloc(ALIGNMENT, LONG);

	if (!ok(fixture, memory != NULL, "no memory"))
		return;
	memset(memory, 1, LONG);
	if (attach(fixture, memory, LONG)) {
		stream(&side, memory, size);
		if (fixture->transport->detach)
			fixture->transport->detach(fixture->endpoint, 1);
	}
	free(memory);
}

static void stream_in(struct fixture *fixture, struct rd_link **links)
{
	answer(fixture, links, fixture_fit(fixture, LONG), POLLS_LONG);
}

static void measure_bandwidth(const char *transport)
{
	fixture_pair(transport, &shape_long, PROCESSES, stream_out, stream_in);
}

const struct contract_case speed_cases[] = {
	{ "latency", CONTRACT_PEER, measure_latency },
	{ "bandwidth", CONTRACT_PEER, measure_bandwidth },
	{ 0 },
};
