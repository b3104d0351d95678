#include "run/nodes/agent.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/environment.h"
#include "base/host_name.h"
#include "base/port.h"
#include "run/base/descriptor.h"
#include "run/rendezvous.h"

#define FOUND_MS 2000
/* Shorter pauses need no line. */
#define PAUSE_LINE_MS 1000

static int64_t epoch_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static bool is_alone(const struct agent *agent)
{
	return agent->options->nodes == 1;
}

static void close_ports(struct agent *agent)
{
	descriptor_close(&agent->rendezvous_fd);
	descriptor_close(&agent->reserved[0]);
	descriptor_close(&agent->reserved[1]);
}

static void send_plain(struct agent *agent, enum message_type type)
{
	struct message message = { .type = type };

	link_send(&agent->link, &message);
}

/* ---- Joining -------------------------------------------------------------------------------- */

/* Node 0 is known: it listens before any rank runs. */
static bool open_as_node_0(struct agent *agent)
{
	struct world world;

	world_init(&world, agent->options);
	if (!rendezvous_port_is_free(&world) || !rendezvous_open(&world, &agent->rendezvous_fd))
		return false;
	agent->join.port = world.port;
	agent->join.rondo_port = world.rondo_port;
	memcpy(agent->join.address, world.address, sizeof(world.address));
	return true;
}

/* Any node may become node 0, at an address that the leader of the meeting may have to find. */
static bool reserve_ports(struct agent *agent)
{
	const struct options *options = agent->options;
	const char *address = options->address ? options->address : options->local_address;
	struct join *join = &agent->join;

	snprintf(join->address, sizeof(join->address), "%s", address ? address : "");
	join->port = options->port ? options->port
				   : endpoint_reserve_for_program(
					     options->endpoint_port, &agent->reserved[0]);
	join->rondo_port = options->rondo_port
				   ? options->rondo_port
				   : endpoint_reserve(options->endpoint_port, &agent->reserved[1]);
	if (join->port > 0 && join->rondo_port > 0)
		return true;
	fputs("rondo-run: no port is free here\n", stderr);
	return false;
}

static bool prepare(struct agent *agent)
{
	if (agent->prepared)
		return true;
	agent->prepared = true;
	if (is_alone(agent) || (agent->link.is_static && agent->options->node == 0))
		return open_as_node_0(agent);
	return agent->link.is_static || reserve_ports(agent);
}

static void join(struct agent *agent)
{
	struct message message = { .type = MESSAGE_JOIN };

	agent->joins = false;
	if (!prepare(agent)) {
		agent->over = true;
		agent->status = 1;
		return;
	}
	message.join = agent->join;
	link_send(&agent->link, &message);
}

/* ---- Ranks ---------------------------------------------------------------------------------- */

static void print_attempt(const struct agent *agent)
{
	const struct world *world = &agent->world;
	char nodes[32] = "", restarts[48] = "";

	if (!is_alone(agent))
		snprintf(nodes, sizeof(nodes), " on %d node%s", world->nodes,
			world->nodes > 1 ? "s" : "");
	if (world->restarts)
		snprintf(restarts, sizeof(restarts), " (restart %d of %d)", world->restarts,
			agent->options->max_restarts);
	console_print(agent->console, "the ranks start again%s%s", nodes, restarts);
}

static void leave(struct agent *agent, int status, const char *reason)
{
	struct message message = { .type = MESSAGE_LEAVE, .leave = { .status = status } };

	agent->leaves = true;
	agent->over = true;
	agent->status = status;
	snprintf(message.leave.reason, sizeof(message.leave.reason), "%s", reason);
	link_send(&agent->link, &message);
}

static void start(struct agent *agent, const struct world *world)
{
	bool first = agent->world.nodes == 0;
	int status = 1;

	agent->world = *world;
	agent->link.hello.attempts = world->attempt + 1;
	agent->link.hello.restarts = world->restarts;
	agent->link.hello.last_node = world->node;
	agent->prepared = agent->stops = false;
	agent->stop = (struct stop){ .status = -1 };
	agent->reported = 0;
	if (world->node == 0 && agent->rendezvous_fd < 0 &&
		!rendezvous_open(&agent->world, &agent->rendezvous_fd)) {
		leave(agent, 1, "rank 0 cannot listen there");
		return;
	}
	if (world->node != 0)
		descriptor_close(&agent->rendezvous_fd);
	/* The program's port is free for it, but for other programs only from here on. */
	descriptor_close(&agent->reserved[0]);
	descriptor_close(&agent->reserved[1]);
	if (!first)
		print_attempt(agent);
	agent->group->world = &agent->world;
	agent->group->rendezvous_fd = agent->rendezvous_fd;
	if (!group_start(agent->group, &status))
		leave(agent, status, "its ranks cannot be started");
	/* Rank 0 alone holds it: when rank 0 dies, connections are refused. */
	descriptor_close(&agent->rendezvous_fd);
}

static void report_failure(struct agent *agent)
{
	const struct group *group = agent->group;
	struct message message = { .type = MESSAGE_FAILED };
	int64_t age_ms = epoch_ms() - group->failure.at_ms;

	if (!group_has_failed(group) || group->failure.pid == agent->reported)
		return;
	agent->reported = group->failure.pid;
	message.failed.failure = group->failure;
	message.failed.age_ms = age_ms < 0 ? 0 : age_ms > 60000 ? 60000 : (int)age_ms;
	link_send(&agent->link, &message);
}

/* A rank that does not end still has its memory and its GPU: no attempt starts beside it. */
static void leave_beside(struct agent *agent, pid_t rank)
{
	char reason[64];

	/* The job ends anyway, with a status of its own. */
	if (agent->over || agent->stop.status >= 0)
		return;
	snprintf(reason, sizeof(reason), "process %d, a rank, does not end", (int)rank);
	leave(agent, agent->stop.failed ? agent->stop.failure.status : 1, reason);
}

/* Whether the ranks have ended just now. */
static bool watch_ranks(struct agent *agent)
{
	struct group *group = agent->group;

	if (!group->ranks)
		return false;
	report_failure(agent);
	if (group->alive > 0)
		return false;
	group_finish(group);
	if (group->left)
		leave_beside(agent, group->left);
	send_plain(agent, MESSAGE_ENDED);
	return true;
}

static void stop_ranks(struct agent *agent, bool at_once)
{
	agent->stops = true;
	if (agent->group->ranks)
		group_stop(agent->group, at_once);
}

/* ---- Messages of the leader ----------------------------------------------------------------- */

static void print_stop(const struct agent *agent, const struct stop *stop)
{
	char text[256];

	if (*stop->reason) {
		console_print(agent->console, "%s", stop->reason);
	} else if (stop->failed && stop->failure.node != agent->world.node &&
		   !agent->options->remote) {
		failure_describe(&stop->failure, text, sizeof(text));
		console_print(agent->console, "on host %s, %s", stop->failure.host, text);
	}
}

static void take_stop(struct agent *agent, const struct stop *stop)
{
	agent->stop = *stop;
	if (!agent->leaves)
		print_stop(agent, stop);
	stop_ranks(agent, stop->at_once);
	if (!agent->group->ranks)
		send_plain(agent, MESSAGE_ENDED);
}

/* With --hosts, the lines of all nodes come together: the failed rank's node reports alone, or the
   first one that is not lost. */
static bool reports(const struct agent *agent, const struct stop *stop)
{
	int node = stop->failure.rank < 0 ? stop->failure.node == 0 : stop->failure.node;

	return stop->status != 0 && stop->failed &&
	       (!agent->options->remote || node == agent->world.node);
}

static void end(struct agent *agent, const struct stop *stop)
{
	agent->over = true;
	agent->status = stop->status;
	stop_ranks(agent, false);
	if (reports(agent, stop))
		failure_report(&stop->failure, agent->console);
}

static void take_end(struct agent *agent, const struct stop *stop)
{
	/* Only a reason that was not known at the STOP is news. */
	if (*stop->reason && strcmp(stop->reason, agent->stop.reason) != 0)
		console_print(agent->console, "%s", stop->reason);
	if (stop->status == 0 && agent->world.nodes == 0)
		console_print(agent->console, "the job ended before this node had a place");
	end(agent, stop);
}

static void take(struct agent *agent, const struct message *message)
{
	switch (message->type) {
	case MESSAGE_WELCOME:
		if (message->welcome.spare)
			console_print(agent->console,
				"the job has its %d nodes: this one waits for a place",
				agent->options->nodes);
		agent->joins = true;
		break;
	case MESSAGE_AGAIN:
		agent->joins = true;
		if (message->pause_ms >= PAUSE_LINE_MS)
			console_print(agent->console, "the ranks start again in %g s",
				message->pause_ms / 1000.0);
		break;
	case MESSAGE_WORLD:
		if (!agent->group->ranks && !agent->over)
			start(agent, &message->start.world);
		break;
	case MESSAGE_STOP:
		if (message->stop.ends)
			take_end(agent, &message->stop);
		else
			take_stop(agent, &message->stop);
		break;
	default:
		break;
	}
}

/* ---- Loss of the leader ---------------------------------------------------------------------- */

static bool may_go_on(const struct agent *agent)
{
	return !agent->link.is_static && (rules_are_elastic(&agent->rules) ||
						 agent->world.restarts < agent->rules.max_restarts);
}

static void report_lost_host(struct agent *agent)
{
	struct failure failure = { .rank = -1,
		.local_rank = -1,
		.node = -1,
		.at_ms = epoch_ms(),
		.after_ms = rd_clock_ms() - agent->group->job_start_ms };

	snprintf(failure.host, sizeof(failure.host), "%s", agent->link.host);
	failure_report(&failure, agent->console);
}

static void take_loss(struct agent *agent)
{
	struct link *link = &agent->link;

	link->lost = false;
	if (agent->over)
		return;
	/* It was to end the job. */
	if (agent->stops && agent->stop.status >= 0) {
		end(agent, &agent->stop);
		return;
	}
	agent->joins = false;
	console_print(agent->console, "host %s, which led the meeting, is lost: %s", link->host,
		link->reason);
	if (agent->world.nodes == 0) {
		link_seek_next(link);
	} else if (may_go_on(agent)) {
		stop_ranks(agent, false);
		link_seek_next(link);
	} else {
		agent->over = true;
		agent->status = 1;
		stop_ranks(agent, false);
		report_lost_host(agent);
	}
}

static void take_refusal(struct agent *agent)
{
	if (agent->over)
		return;
	console_print(agent->console, "%s", agent->link.reason);
	agent->over = true;
	agent->status = 1;
	stop_ranks(agent, false);
}

/* ---- Its life ------------------------------------------------------------------------------- */

void agent_step(struct agent *agent)
{
	struct message message;
	bool again = true;

	/* The own meeting may answer each message at once. */
	while (again) {
		while (link_next(&agent->link, &message))
			take(agent, &message);
		again = watch_ranks(agent);
		if (agent->joins && !agent->group->ranks && !agent->over) {
			join(agent);
			again = true;
		}
	}
	if (agent->link.lost)
		take_loss(agent);
	if (agent->link.state == LINK_FAILED)
		take_refusal(agent);
	if (agent->leaves && !agent->group->ranks)
		server_dismiss(&agent->link.server);
}

void agent_leave(struct agent *agent, int signal)
{
	leave(agent, 128 + signal, strsignal(signal));
}

bool agent_is_over(const struct agent *agent)
{
	return agent->over && !agent->group->ranks && !server_is_ending(&agent->link.server);
}

/* Nodes that know node 0 meet there, at a port that the program and Rondo leave free. */
static struct endpoint choose_endpoint(const struct options *options)
{
	if (options->nodes == 1)
		return (struct endpoint){ .name = NULL };
	if (options->backend == RENDEZVOUS_STATIC)
		return (struct endpoint){ .name = options->address,
			.local = options->local_address,
			.port = rd_port_from_master(options->port + 1000) };
	return (struct endpoint){ .name = options->endpoint,
		.local = options->local_address,
		.port = options->endpoint_port };
}

/* An agent that starts again where a lost leader was must not start a job of its own: the survivors
   find it within this time. */
static int last_call_ms(const struct options *options)
{
	bool elastic = options->nodes_min < options->nodes;

	return elastic && options->last_call_ms < FOUND_MS ? FOUND_MS : options->last_call_ms;
}

bool agent_init(struct agent *agent, const struct options *options, struct group *group,
	struct console *console)
{
	struct endpoint endpoint = choose_endpoint(options);
	struct world world;

	*agent = (struct agent){ .options = options,
		.console = console,
		.group = group,
		.rendezvous_fd = -1,
		.reserved = { -1, -1 } };
	rd_host_name(agent->host);
	world_init(&world, options);
	memcpy(agent->run_id, world.run_id, sizeof(world.run_id));
	rd_disarm(agent->run_id, strlen(agent->run_id)); /* as other nodes receive it */
	agent->rules = (struct rules){ .run_id = agent->run_id,
		.host = agent->host,
		.nodes_min = options->nodes_min,
		.nodes = options->nodes,
		.max_restarts = options->max_restarts,
		.join_ms = options->join_timeout_ms,
		.last_call_ms = last_call_ms(options),
		.gather_ms = options->monitor_ms,
		.epoch_ms = epoch_ms() - rd_clock_ms() };
	if (!secret_init(&agent->secret, options->nodes == 1))
		return false;
	group->secret_fd = agent->secret.fd;
	link_init(&agent->link, &agent->rules, &endpoint, options->backend == RENDEZVOUS_STATIC,
		&agent->secret, console);
	agent->link.hello = (struct hello){ .version = MESSAGE_VERSION,
		.node = options->node,
		.local_size = options->local_size,
		.nodes_min = options->nodes_min,
		.nodes = options->nodes,
		.max_restarts = options->max_restarts,
		.port = agent->link.server.own_port,
		.last_node = -1 };
	memcpy(agent->link.hello.run_id, agent->run_id, sizeof(agent->run_id));
	memcpy(agent->link.hello.host, agent->host, sizeof(agent->host));
	/* A port in use is reported before anything else happens. */
	return prepare(agent);
}

void agent_finish(struct agent *agent)
{
	if (!agent->options)
		return;
	close_ports(agent);
	link_finish(&agent->link);
	secret_finish(&agent->secret);
}
