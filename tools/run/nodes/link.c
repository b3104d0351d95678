#include "run/nodes/link.h"

#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "run/base/deadline.h"

#define RETRY_LEAST_MS 10
#define RETRY_MOST_MS 500
/* A leader answers at once. A candidate may still be waiting for a leader before it. */
#define ANSWER_MS 10000

/* A wait of this length is reported, once. */
#define NOTICE_MS 3000
#define PROBE_MS 100
#define REDIRECTIONS_MAX 8

static void fail(struct link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void fail(struct link *link, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(link->reason, sizeof(link->reason), format, args);
	va_end(args);
	peer_close(&link->peer);
	link->state = LINK_FAILED;
}

static bool leads(const struct link *link)
{
	return link->server.state == SERVER_LEADS;
}

/* ---- Leading -------------------------------------------------------------------------------- */

static void lead(struct link *link, const struct world *last)
{
	bool away = link->endpoint.name && link->server.endpoint_fd < 0;

	peer_close(&link->peer);
	link->state = LINK_JOINED;
	link->next_id = 0;
	link->place.port = 0;
	link->probe_ms = away && !link->is_static ? rd_clock_ms() : 0;
	snprintf(link->host, sizeof(link->host), "%s", link->hello.host);
	server_lead(&link->server, link->rules, &link->hello, last);
}

static void report_listening(struct link *link, int error)
{
	const struct endpoint *endpoint = &link->endpoint;
	bool bare = !strchr(endpoint->name, ':');

	fail(link,
		link->is_static ? "cannot listen at %s%s%s:%d, which --master-port gives: %s"
				: "cannot listen at %s%s%s:%d: %s",
		bare ? "" : "[", endpoint->name, bare ? "" : "]", endpoint->port, strerror(error));
}

/* The others come to an address that the endpoint's name stands for. */
static void listen_at_endpoint(struct link *link)
{
	bool is_local = endpoint_is_at(&link->endpoint, &link->local);

	server_open_endpoint(&link->server, is_local ? &link->local : NULL, link->endpoint.port);
}

/* False: this agent cannot listen there, and is to connect. */
static bool host_at_endpoint(struct link *link)
{
	struct server *server = &link->server;

	link->is_taken = false;
	if (link->is_static ? link->hello.node != 0 : !endpoint_is_here(&link->endpoint))
		return false;
	if (server->endpoint_fd < 0)
		listen_at_endpoint(link);
	if (server->endpoint_fd >= 0)
		lead(link, NULL);
	else if (errno != EADDRINUSE || link->is_static)
		report_listening(link, errno);
	else
		link->is_taken = true;
	return !link->is_taken;
}

/* ---- Seeking -------------------------------------------------------------------------------- */

static void greet(struct link *link, const struct rd_addresses *addresses, int index)
{
	struct message message = { .type = MESSAGE_HELLO, .hello = link->hello };

	peer_close(&link->peer);
	peer_connect(&link->peer, addresses, index, link->server.secret);
	link->peer_place.port = rd_address_port(&addresses->at[index]);
	memcpy(link->peer_place.address, link->peer.address, sizeof(link->peer.address));
	peer_send(&link->peer, &message);
	link->state = LINK_GREETS;
	link->answer_ms = rd_clock_ms() + ANSWER_MS;
}

static void retry_later(struct link *link)
{
	link->state = LINK_SEEKS;
	link->retry_ms = rd_clock_ms() + link->wait_ms;
	link->wait_ms = 2 * link->wait_ms < RETRY_MOST_MS ? 2 * link->wait_ms : RETRY_MOST_MS;
}

static bool resolve(struct link *link)
{
	const char *reason;

	if (link->endpoint.addresses.count > 0)
		return true;
	reason = endpoint_resolve(&link->endpoint);
	if (!reason)
		return true;
	snprintf(link->reason, sizeof(link->reason), "%s", reason);
	if (!link->was_named)
		console_print(link->console, "\"%s\" has no address here yet (%s): asking again",
			link->endpoint.name, reason);
	link->was_named = true;
	return false;
}

/* Where the endpoint's host is off, a node of the running job leads to the meeting. */
static void begin_again(struct link *link)
{
	link->next_address = link->barred = 0;
	link->next_candidate = link->candidates.count > 0 ? 0 : -1;
	retry_later(link);
}

static void try_endpoint(struct link *link)
{
	struct endpoint *endpoint = &link->endpoint;

	if (!endpoint->name) {
		lead(link, NULL);
		return;
	}
	if (!resolve(link) || link->next_address >= endpoint->addresses.count) {
		begin_again(link);
		return;
	}
	if (link->next_address == 0 && host_at_endpoint(link))
		return;
	greet(link, &endpoint->addresses, link->next_address++);
	link->barred += link->peer.barred;
	if (link->barred == endpoint->addresses.count)
		fail(link, "cannot connect to %s:%d: %s", endpoint->name, endpoint->port,
			link->peer.reason);
}

static void try_place(struct link *link, const struct place *place)
{
	struct rd_addresses at;

	if (rd_addresses_find(&at, place->address, place->port, AI_NUMERICHOST))
		retry_later(link);
	else
		greet(link, &at, 0);
}

/* Each agent comes to the same order, and so to the same leader. */
static void try_candidate(struct link *link)
{
	const struct candidate *next = &link->candidates.list[link->next_candidate];

	if (link->next_candidate >= link->candidates.count) {
		link->next_candidate = -1;
		try_endpoint(link);
	} else if (next->id == link->id && link->last.nodes == 0) {
		link->next_candidate++; /* it has no ranks to go on with: the others lead */
	} else if (next->id == link->id) {
		lead(link, &link->last);
	} else {
		link->next_candidate++;
		try_place(link, &next->place);
	}
}

static void try_next(struct link *link)
{
	struct place place = link->place;

	link->place.port = 0;
	if (place.port)
		try_place(link, &place);
	else if (link->next_candidate >= 0)
		try_candidate(link);
	else
		try_endpoint(link);
}

static void begin(struct link *link)
{
	peer_close(&link->peer);
	peer_close(&link->probe);
	link->state = LINK_SEEKS;
	link->retry_ms = rd_clock_ms();
	link->notice_ms = link->retry_ms + NOTICE_MS;
	link->wait_ms = RETRY_LEAST_MS;
	link->place.port = 0;
	link->redirections = 0;
	link->probe_ms = 0;
	link->reason[0] = '\0';
	server_wait(&link->server);
}

static void seek_endpoint(struct link *link)
{
	begin(link);
	link->next_candidate = -1;
	link->next_address = link->barred = 0;
	link->give_up_ms = rd_clock_ms() + link->rules->join_ms;
}

void link_seek_next(struct link *link)
{
	begin(link);
	link->next_candidate = 0;
	link->give_up_ms = rd_clock_ms() + link->rules->join_ms;
}

/* ---- Answers -------------------------------------------------------------------------------- */

static void go_to(struct link *link, const struct place *place)
{
	link->place = *place;
	link->state = LINK_SEEKS;
	link->retry_ms = rd_clock_ms();
	if (++link->redirections <= REDIRECTIONS_MAX)
		return;
	/* Agents that have lost each other may point in a circle for a moment. */
	link->redirections = 0;
	link->place.port = 0;
	retry_later(link);
}

static void take_candidates(struct link *link, const struct candidates *candidates)
{
	link->candidates = *candidates;
	link->id = link->next_id;
}

static void take_welcome(struct link *link, const struct welcome *welcome)
{
	link->state = LINK_JOINED;
	link->redirections = 0;
	link->next_id = welcome->id;
	/* Survivors of a lost leader keep the list that they share, until the next world. */
	if (link->last.nodes == 0)
		take_candidates(link, &welcome->candidates);
	memcpy(link->host, welcome->host, sizeof(link->host));
	server_send_on(&link->server, &link->peer_place);
}

/* True: the message is the agent's as well. */
static bool take(struct link *link, const struct message *message)
{
	switch (message->type) {
	case MESSAGE_WELCOME:
		if (link->state == LINK_GREETS)
			take_welcome(link, &message->welcome);
		return true;
	case MESSAGE_WORLD:
		take_candidates(link, &message->start.candidates);
		link->last = message->start.world;
		return true;
	case MESSAGE_MOVED:
		go_to(link, &message->moved.leader);
		return false;
	case MESSAGE_REFUSED:
		fail(link, "%s", message->reason);
		return false;
	default:
		return true;
	}
}

/* The connection has ended, and its last messages have been taken. */
static void take_loss(struct link *link)
{
	bool foreign = link->peer.foreign && link->next_candidate < 0;
	char reason[REASON_SIZE];

	link->lost = link->state == LINK_JOINED;
	/* An agent would listen at the port that it has. */
	bool other = link->is_taken && strcmp(link->peer.reason, strerror(ECONNREFUSED)) == 0;
	snprintf(reason, sizeof(reason), "%s%s",
		other ? "another program of this node has the port: " : "", link->peer.reason);
	memcpy(link->reason, reason, sizeof(reason));
	peer_close(&link->peer);
	link->state = LINK_SEEKS;
	/* The agent decides after a loss. */
	link->retry_ms = link->lost ? 0 : rd_clock_ms();
	if (foreign && !link->lost)
		fail(link, "at %s:%d listens %s", link->endpoint.name, link->endpoint.port, reason);
}

bool link_next(struct link *link, struct message *message)
{
	while (leads(link) && server_next(&link->server, message))
		if (take(link, message))
			return true;
	while (link->state == LINK_GREETS || (link->state == LINK_JOINED && !leads(link))) {
		if (!peer_next(&link->peer, message)) {
			if (link->peer.lost)
				take_loss(link);
			return false;
		}
		if (take(link, message))
			return true;
	}
	return false;
}

void link_send(struct link *link, const struct message *message)
{
	if (leads(link))
		server_take(&link->server, message);
	else if (link->state == LINK_JOINED)
		peer_send(&link->peer, message);
}

/* ---- The endpoint, while this agent leads elsewhere ------------------------------------------ */

static void probe_endpoint(struct link *link)
{
	struct endpoint *endpoint = &link->endpoint;
	struct message message = { .type = MESSAGE_MOVED,
		.moved.leader.port = link->server.own_port };
	int at;

	link->probe_ms = rd_clock_ms() + PROBE_MS;
	if (endpoint->addresses.count == 0 || !link->probe.lost)
		return;
	peer_close(&link->probe);
	if (endpoint_is_here(endpoint)) {
		listen_at_endpoint(link);
		if (link->server.endpoint_fd >= 0) {
			link->probe_ms = 0;
			return;
		}
	}
	at = link->next_address++ % endpoint->addresses.count;
	snprintf(message.moved.run_id, sizeof(message.moved.run_id), "%s", link->rules->run_id);
	peer_connect(&link->probe, &endpoint->addresses, at, link->server.secret);
	peer_send(&link->probe, &message);
}

static void take_probe(struct link *link)
{
	struct message message;

	while (!link->probe.lost && peer_next(&link->probe, &message)) {
		if (message.type != MESSAGE_REFUSED)
			continue;
		console_print(link->console, "at %s:%d: %s", link->endpoint.name,
			link->endpoint.port, message.reason);
		peer_close(&link->probe);
		link->probe_ms = 0;
	}
}

/* This agent is the one at the endpoint, and the meeting is elsewhere. */
static void follow_moved(struct link *link)
{
	struct place place = link->server.moved_to;

	if (!link->server.moved)
		return;
	server_send_on(&link->server, &place);
	peer_close(&link->peer);
	go_to(link, &place);
}

/* ---- The loop ------------------------------------------------------------------------------- */

void link_add_polls(struct link *link, struct polls *polls)
{
	server_add_polls(&link->server, polls);
	peer_add_polls(&link->peer, polls);
	peer_add_polls(&link->probe, polls);
}

void link_take_polls(struct link *link, const struct polls *polls)
{
	peer_take_polls(&link->peer, polls);
	peer_take_polls(&link->probe, polls);
	take_probe(link);
	server_take_polls(&link->server, polls);
	if (link->server.forbidden)
		fail(link, "cannot accept other nodes: %s", strerror(link->server.forbidden));
	follow_moved(link);
}

/* After a loss the agent may be ending its ranks, and look for no leader. */
static bool is_seeking(const struct link *link)
{
	return link->state == LINK_GREETS || (link->state == LINK_SEEKS && link->retry_ms);
}

/* When a line names the wait for other nodes, which this agent's meeting gathers; 0: it was
   printed, or there is no wait. */
static int64_t gathering_notice(const struct link *link)
{
	const struct meeting *meeting = &link->server.meeting;

	if (!leads(link) || meeting->state != MEETING_GATHERS ||
		meeting->join_at == link->noticed_ms ||
		members_count(&meeting->members, MEMBER_READY) >= meeting->rules.nodes_min)
		return 0;
	return meeting->join_at - meeting->rules.join_ms + NOTICE_MS;
}

static void report_gathering(struct link *link)
{
	const struct meeting *meeting = &link->server.meeting;
	int ready = members_count(&meeting->members, MEMBER_READY);

	link->noticed_ms = meeting->join_at;
	console_print(link->console,
		"waiting for other nodes, for at most %g s: %d of %s%d %s here",
		link->rules->join_ms / 1000.0, ready,
		rules_are_elastic(link->rules) ? "at least " : "", link->rules->nodes_min,
		ready == 1 ? "is" : "are");
}

int64_t link_deadline(const struct link *link)
{
	int64_t at = deadline_earlier(peer_deadline(&link->peer), server_deadline(&link->server));

	if (link->state == LINK_SEEKS)
		at = deadline_earlier(at, link->retry_ms);
	if (link->state == LINK_GREETS)
		at = deadline_earlier(at, link->answer_ms);
	if (is_seeking(link))
		at = deadline_earlier(deadline_earlier(at, link->give_up_ms), link->notice_ms);
	at = deadline_earlier(at, gathering_notice(link));
	return deadline_earlier(at, deadline_earlier(link->probe_ms, peer_deadline(&link->probe)));
}

/* Why nobody has answered: an attempt that is under way hides no earlier one's reason. */
static const char *seeking_reason(const struct link *link)
{
	bool silent = link->state == LINK_GREETS && !link->peer.connecting;

	return silent || !*link->reason ? "no answer" : link->reason;
}

static void report_wait(struct link *link)
{
	console_print(link->console, "waiting for rondo-run at %s:%d, for at most %g s (%s)",
		link->endpoint.name, link->endpoint.port, link->rules->join_ms / 1000.0,
		seeking_reason(link));
	link->notice_ms = 0;
}

static void give_up(struct link *link)
{
	char reason[REASON_SIZE];

	snprintf(reason, sizeof(reason), "%s", seeking_reason(link));
	fail(link, "no rondo-run answers at %s:%d within %g s (%s)", link->endpoint.name,
		link->endpoint.port, link->rules->join_ms / 1000.0, reason);
}

void link_on_clock(struct link *link, int64_t now_ms)
{
	bool seeks = is_seeking(link);

	server_on_clock(&link->server, now_ms);
	peer_on_clock(&link->peer, now_ms);
	peer_on_clock(&link->probe, now_ms);
	if (link->probe_ms && now_ms >= link->probe_ms)
		probe_endpoint(link);
	if (link->state == LINK_GREETS && now_ms >= link->answer_ms) {
		peer_close(&link->peer);
		link->reason[0] = '\0';
		link->state = LINK_SEEKS;
		link->retry_ms = now_ms;
	}
	if (seeks && link->notice_ms && now_ms >= link->notice_ms)
		report_wait(link);
	if (gathering_notice(link) && now_ms >= gathering_notice(link))
		report_gathering(link);
	/* One attempt at least: it may be this agent that leads. */
	if (seeks && link->state == LINK_SEEKS && now_ms >= link->retry_ms)
		try_next(link);
	if (is_seeking(link) && now_ms >= link->give_up_ms)
		give_up(link);
}

/* ---- Its life ------------------------------------------------------------------------------- */

void link_init(struct link *link, const struct rules *rules, const struct endpoint *endpoint,
	bool is_static, const struct secret *secret, struct console *console)
{
	*link = (struct link){ .rules = rules,
		.endpoint = *endpoint,
		.is_static = is_static,
		.console = console,
		.peer = PEER_NONE,
		.probe = PEER_NONE };
	endpoint_local(&link->local, endpoint->local);
	server_init(&link->server, rules->run_id, secret);
	if (endpoint->name && !is_static)
		server_open(&link->server, &link->local, endpoint->port);
	link->hello.port = link->server.own_port;
	seek_endpoint(link);
}

void link_finish(struct link *link)
{
	peer_close(&link->peer);
	peer_close(&link->probe);
	server_finish(&link->server);
}
