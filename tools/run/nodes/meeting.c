#include "run/nodes/meeting.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/base/deadline.h"
#include "run/nodes/endpoint.h"

/* ---- Sending -------------------------------------------------------------------------------- */

/* Agents on the leader's own node come from a loopback address, which serves them alone. */
static void copy_address(
	const struct meeting *meeting, const struct member *member, char address[ADDRESS_SIZE])
{
	bool local = endpoint_is_loopback(member->address) && *meeting->address;

	memcpy(address, local ? meeting->address : member->address, ADDRESS_SIZE);
}

static void list_candidates(const struct meeting *meeting, struct candidates *candidates)
{
	struct member **list;
	int count = members_sort(&meeting->members, false, &list);

	candidates->count = 0;
	for (int i = 0; i < count && candidates->count < CANDIDATES_MAX; i++) {
		struct candidate *next = &candidates->list[candidates->count];

		if (list[i]->id == meeting->self || list[i]->hello.port == 0 || list[i]->leaves)
			continue;
		next->id = list[i]->id;
		next->place.port = list[i]->hello.port;
		copy_address(meeting, list[i], next->place.address);
		candidates->count++;
	}
	free(list);
}

static void send_to(struct meeting *meeting, int id, const struct message *message)
{
	meeting->rules.send(meeting->rules.context, id, message);
}

static void send_stop(struct meeting *meeting, int id, bool ends)
{
	struct message message = { .type = MESSAGE_STOP, .stop = meeting->stop };

	message.stop.ends = ends;
	send_to(meeting, id, &message);
}

/* ---- Rounds --------------------------------------------------------------------------------- */

static void forget_cause(struct meeting *meeting)
{
	meeting->cause = CAUSE_NONE;
	meeting->stop = (struct stop){ .status = -1 };
}

static void gather(struct meeting *meeting, int pause_ms, int64_t now_ms)
{
	struct message again = { .type = MESSAGE_AGAIN, .pause_ms = pause_ms };

	meeting->state = MEETING_GATHERS;
	meeting->pause_at = pause_ms ? now_ms + pause_ms : 0;
	meeting->join_at = now_ms + pause_ms + meeting->rules.join_ms;
	meeting->last_call_at = 0;
	meeting->grow_at = 0;
	forget_cause(meeting);
	for (int i = 0; i < meeting->members.count; i++)
		if (meeting->members.list[i].state == MEMBER_ENDED) {
			meeting->members.list[i].state = MEMBER_HERE;
			send_to(meeting, meeting->members.list[i].id, &again);
		}
}

static void start_nodes(struct meeting *meeting, struct member **list, int count)
{
	const struct member *master = list[0];
	struct message message = { .type = MESSAGE_WORLD };
	struct world *world = &message.start.world;

	*world = (struct world){ .attempt = meeting->attempts,
		.restarts = meeting->restarts,
		.nodes = count,
		.port = master->join.port,
		.rondo_port = master->join.rondo_port };
	snprintf(world->run_id, sizeof(world->run_id), "%s", meeting->rules.run_id);
	if (*master->join.address)
		memcpy(world->address, master->join.address, sizeof(world->address));
	else
		copy_address(meeting, master, world->address);
	for (int i = 0; i < count; i++) {
		list[i]->node = i;
		list[i]->state = MEMBER_RUNS;
		world->size += list[i]->hello.local_size;
	}
	list_candidates(meeting, &message.start.candidates);
	message.start.patient = !rules_are_elastic(&meeting->rules) &&
				meeting->restarts >= meeting->rules.max_restarts;
	for (int i = 0; i < count; i++) {
		world->node = i;
		world->local_size = list[i]->hello.local_size;
		send_to(meeting, list[i]->id, &message);
		world->first += world->local_size;
	}
}

static void note_newcomers(struct meeting *meeting, int64_t now_ms);

static void start_round(struct meeting *meeting, int64_t now_ms)
{
	struct member **list;
	int count = members_sort(&meeting->members, true, &list);

	if (count > meeting->rules.nodes)
		count = meeting->rules.nodes;
	for (int i = 0; i < meeting->members.count; i++)
		meeting->members.list[i].node = -1;
	members_number(list, count);
	start_nodes(meeting, list, count);
	free(list);
	meeting->attempts++;
	pace_start(&meeting->pace, now_ms);
	meeting->state = MEETING_RUNS;
	meeting->expected = 0;
	forget_cause(meeting);
	note_newcomers(meeting, now_ms);
}

/* Survivors of a lost leader may still be on their way here. */
static bool awaits_survivors(const struct meeting *meeting, int64_t now_ms)
{
	int here = 0;

	if (now_ms >= meeting->expected_at)
		return false;
	for (int i = 0; i < meeting->members.count; i++)
		here += meeting->members.list[i].hello.attempts > 0;
	return here < meeting->expected;
}

static bool is_complete(const struct meeting *meeting, int64_t now_ms)
{
	int ready = members_count(&meeting->members, MEMBER_READY);

	if (ready < meeting->rules.nodes_min || meeting->pause_at)
		return false;
	if (now_ms >= meeting->join_at)
		return true;
	if (meeting->attempts == 0)
		return ready >= meeting->rules.nodes || now_ms >= meeting->last_call_at;
	return members_count(&meeting->members, MEMBER_HERE) == 0 &&
	       !awaits_survivors(meeting, now_ms);
}

static void end_job(struct meeting *meeting)
{
	meeting->state = MEETING_OVER;
	for (int i = 0; i < meeting->members.count; i++)
		if (!meeting->members.list[i].leaves)
			send_stop(meeting, meeting->members.list[i].id, true);
}

static void give_up_waiting(struct meeting *meeting)
{
	const struct rules *rules = &meeting->rules;
	struct stop *stop = &meeting->stop;
	int ready = members_count(&meeting->members, MEMBER_READY);
	int node = members_missing(&meeting->members);
	char missing[64] = "";

	if (node >= 0)
		snprintf(missing, sizeof(missing), ", and node %d did not", node);
	stop->status = 1;
	snprintf(stop->reason, sizeof(stop->reason), "%d of %s%d nodes came within %g s%s", ready,
		rules_are_elastic(rules) ? "at least " : "", rules->nodes_min,
		rules->join_ms / 1000.0, missing);
	end_job(meeting);
}

/* Rather than give up, the meeting takes newcomers before their time: they disturb no attempt. */
static void end_waits_early(struct meeting *meeting)
{
	for (int i = 0; i < meeting->members.count; i++)
		if (meeting->members.list[i].state == MEMBER_WAITS)
			meeting->members.list[i].state = MEMBER_READY;
}

static void try_round(struct meeting *meeting, int64_t now_ms)
{
	if (meeting->state != MEETING_GATHERS)
		return;
	if (now_ms >= meeting->join_at &&
		members_count(&meeting->members, MEMBER_READY) < meeting->rules.nodes_min)
		end_waits_early(meeting);
	if (members_count(&meeting->members, MEMBER_READY) < meeting->rules.nodes_min)
		meeting->last_call_at = 0;
	else if (!meeting->last_call_at)
		meeting->last_call_at = now_ms + meeting->rules.last_call_ms;
	if (is_complete(meeting, now_ms))
		start_round(meeting, now_ms);
	else if (now_ms >= meeting->join_at)
		give_up_waiting(meeting);
}

/* ---- The end of an attempt ------------------------------------------------------------------ */

/* The job's exit status where it cannot go on; -1: it can. */
static int verdict(const struct meeting *meeting)
{
	bool may_restart = meeting->restarts < meeting->rules.max_restarts;
	bool elastic = rules_are_elastic(&meeting->rules);

	switch (meeting->cause) {
	case CAUSE_FAILURE:
		return may_restart ? -1 : meeting->cause_status;
	case CAUSE_LOST:
		return elastic || may_restart ? -1 : meeting->cause_status;
	case CAUSE_LEFT:
		return elastic ? -1 : meeting->cause_status;
	default:
		return -1;
	}
}

static bool is_running(const struct member *member)
{
	return member->state == MEMBER_RUNS || member->state == MEMBER_DONE;
}

static void give_up_pacing(struct meeting *meeting)
{
	struct stop *stop = &meeting->stop;

	stop->status = 1;
	snprintf(stop->reason, sizeof(stop->reason),
		"%d attempts in a row ended within %d s because nodes came and went",
		PACE_NODES_MAX, PACE_STEADY_MS / 1000);
}

static void decide_when_all_ended(struct meeting *meeting, int64_t now_ms)
{
	bool counts = meeting->cause == CAUSE_FAILURE ||
		      (meeting->cause == CAUSE_LOST && !rules_are_elastic(&meeting->rules));

	if (meeting->state != MEETING_STOPS)
		return;
	for (int i = 0; i < meeting->members.count; i++)
		if (is_running(&meeting->members.list[i]))
			return;
	meeting->stop.status = verdict(meeting);
	if (meeting->stop.status < 0 && !pace_end(&meeting->pace, !counts, now_ms))
		give_up_pacing(meeting);
	if (meeting->stop.status >= 0) {
		end_job(meeting);
		return;
	}
	meeting->restarts += counts;
	gather(meeting, counts ? pace_pause_ms(&meeting->pace) : 0, now_ms);
	try_round(meeting, now_ms);
}

static void stop_all(struct meeting *meeting)
{
	meeting->state = MEETING_STOPS;
	meeting->stop.at_once = meeting->cause == CAUSE_NEWCOMER;
	meeting->stop.status = verdict(meeting);
	for (int i = 0; i < meeting->members.count; i++)
		if (is_running(&meeting->members.list[i]))
			send_stop(meeting, meeting->members.list[i].id, false);
}

static void note_cause(struct meeting *meeting, enum cause cause, int status, const char *format,
	...) __attribute__((format(printf, 4, 5)));

/* The reason of the greater cause counts, and of the same cause the first. */
static void note_cause(
	struct meeting *meeting, enum cause cause, int status, const char *format, ...)
{
	struct stop *stop = &meeting->stop;
	va_list args;

	if (cause > meeting->cause) {
		meeting->cause = cause;
		meeting->cause_status = status;
		va_start(args, format);
		vsnprintf(stop->reason, sizeof(stop->reason), format, args);
		va_end(args);
	}
	if (meeting->state == MEETING_RUNS)
		stop_all(meeting);
}

/* With those of the ranks that have ended well, there may be nothing left to wait for. */
static void end_if_all_done(struct meeting *meeting)
{
	if (meeting->state != MEETING_RUNS || members_count(&meeting->members, MEMBER_RUNS) > 0)
		return;
	meeting->stop.status = 0;
	end_job(meeting);
}

/* ---- Newcomers while ranks run -------------------------------------------------------------- */

static int count_nodes(const struct meeting *meeting)
{
	return members_count(&meeting->members, MEMBER_RUNS) +
	       members_count(&meeting->members, MEMBER_DONE);
}

/* A job some of whose ranks have ended well takes in no more nodes. */
static bool has_room(const struct meeting *meeting)
{
	return count_nodes(meeting) < meeting->rules.nodes &&
	       members_count(&meeting->members, MEMBER_DONE) == 0 &&
	       members_count(&meeting->members, MEMBER_READY) > 0;
}

static void note_newcomers(struct meeting *meeting, int64_t now_ms)
{
	if (!has_room(meeting))
		meeting->grow_at = 0;
	else if (!meeting->grow_at)
		meeting->grow_at = now_ms + meeting->rules.gather_ms;
}

static void grow(struct meeting *meeting)
{
	int nodes = count_nodes(meeting), more = members_count(&meeting->members, MEMBER_READY);

	if (more > meeting->rules.nodes - nodes)
		more = meeting->rules.nodes - nodes;
	meeting->grow_at = 0;
	note_cause(meeting, CAUSE_NEWCOMER, 0, "%d more node%s here", more,
		more > 1 ? "s are" : " is");
}

/* ---- Messages of agents --------------------------------------------------------------------- */

void meeting_hello(struct meeting *meeting, int id, const struct hello *hello, const char *address,
	int64_t now_ms)
{
	struct message message = { .type = MESSAGE_WELCOME, .welcome = { .id = id } };
	struct message refusal = { .type = MESSAGE_REFUSED };
	struct member *member;

	if (members_find(&meeting->members, id))
		return;
	if (!rules_accept(&meeting->rules, &meeting->members, hello, refusal.reason)) {
		send_to(meeting, id, &refusal);
		return;
	}
	if (meeting->state == MEETING_OVER) {
		send_stop(meeting, id, true);
		return;
	}
	member = members_add(&meeting->members);
	*member = (struct member){ .id = id, .hello = *hello, .node = hello->last_node };
	snprintf(member->address, sizeof(member->address), "%s", address);
	if (hello->attempts > meeting->attempts)
		meeting->attempts = hello->attempts;
	if (hello->restarts > meeting->restarts)
		meeting->restarts = hello->restarts;
	snprintf(message.welcome.host, sizeof(message.welcome.host), "%s", meeting->rules.host);
	message.welcome.spare =
		meeting->state == MEETING_RUNS && count_nodes(meeting) == meeting->rules.nodes;
	if (meeting->attempts > 0)
		list_candidates(meeting, &message.welcome.candidates);
	send_to(meeting, id, &message);
	try_round(meeting, now_ms);
}

static void become_ready(struct meeting *meeting, struct member *member, int64_t now_ms)
{
	member->state = MEMBER_READY;
	try_round(meeting, now_ms);
	if (meeting->state == MEETING_RUNS)
		note_newcomers(meeting, now_ms);
}

static void take_join(
	struct meeting *meeting, struct member *member, const struct join *join, int64_t now_ms)
{
	int pause_ms = member->node < 0 ? pace_pause_ms(&meeting->pace) : 0;

	if (member->state != MEMBER_HERE)
		return;
	member->join = *join;
	if (pause_ms == 0) {
		become_ready(meeting, member, now_ms);
		return;
	}
	member->state = MEMBER_WAITS;
	member->ready_at = now_ms + pause_ms;
}

static void end_waits(struct meeting *meeting, int64_t now_ms)
{
	for (int i = 0; i < meeting->members.count; i++) {
		struct member *member = &meeting->members.list[i];

		if (member->state == MEMBER_WAITS && now_ms >= member->ready_at)
			become_ready(meeting, member, now_ms);
	}
}

static bool goes_before(const struct failure *failure, const struct failure *other)
{
	if (failure_outranks(other, failure))
		return false;
	return failure_outranks(failure, other) || failure->at_ms < other->at_ms;
}

static void take_failure(struct meeting *meeting, const struct member *member,
	const struct failed *failed, int64_t now_ms)
{
	struct failure failure = failed->failure;
	struct stop *stop = &meeting->stop;

	failure.node = member->node;
	failure.after_ms = now_ms - failed->age_ms - meeting->start_ms;
	if (failure.after_ms < 0)
		failure.after_ms = 0;
	failure.at_ms = meeting->rules.epoch_ms + meeting->start_ms + failure.after_ms;
	if (!stop->failed || goes_before(&failure, &stop->failure)) {
		stop->failed = true;
		stop->failure = failure;
		if (meeting->cause == CAUSE_FAILURE)
			meeting->cause_status = failure.status;
	}
	note_cause(meeting, CAUSE_FAILURE, failure.status, "%s", "");
}

/* A loss of a node: its ranks are no more, or nobody sees them. */
static void take_loss(
	struct meeting *meeting, const struct member *member, const char *reason, int64_t now_ms)
{
	struct failure failure = { .rank = -1,
		.local_rank = -1,
		.node = member->node,
		.status = 1,
		.at_ms = meeting->rules.epoch_ms + now_ms,
		.after_ms = now_ms - meeting->start_ms };

	memcpy(failure.host, member->hello.host, sizeof(failure.host));
	if (meeting->cause < CAUSE_LOST) {
		meeting->stop.failed = true;
		meeting->stop.failure = failure;
	}
	note_cause(meeting, CAUSE_LOST, 1, "node %d (host %s) is lost: %s", member->node,
		member->hello.host, reason);
}

/* With one member less, there may be nothing left to wait for. */
static void go_on_without(struct meeting *meeting, int64_t now_ms)
{
	try_round(meeting, now_ms);
	decide_when_all_ended(meeting, now_ms);
	if (meeting->state != MEETING_RUNS)
		return;
	note_newcomers(meeting, now_ms);
	end_if_all_done(meeting);
}

static void take_leave(
	struct meeting *meeting, struct member *member, const struct leave *leave, int64_t now_ms)
{
	bool runs = member->state == MEMBER_RUNS, gathers = meeting->state == MEETING_GATHERS;
	bool missed = runs || member->state == MEMBER_ENDED ||
		      (gathers && meeting->attempts > 0 && member->node >= 0);

	if (missed)
		note_cause(meeting, CAUSE_LEFT, leave->status > 0 ? leave->status : 1,
			"node %d (host %s) leaves: %s", member->node, member->hello.host,
			leave->reason);
	if (runs) {
		member->leaves = true;
		return;
	}
	members_remove(&meeting->members, member);
	meeting->stop.status = gathers && missed ? verdict(meeting) : -1;
	if (meeting->stop.status >= 0)
		end_job(meeting);
	else
		go_on_without(meeting, now_ms);
}

/* Where it crosses STOP, the agent sends another one. */
static void take_end(struct meeting *meeting, struct member *member, int64_t now_ms)
{
	if (!is_running(member))
		return;
	if (meeting->state == MEETING_RUNS) {
		member->state = MEMBER_DONE;
		note_newcomers(meeting, now_ms);
		end_if_all_done(meeting);
		return;
	}
	member->state = MEMBER_ENDED;
	if (member->leaves)
		members_remove(&meeting->members, member);
	decide_when_all_ended(meeting, now_ms);
}

void meeting_take(struct meeting *meeting, int id, const struct message *message, int64_t now_ms)
{
	struct member *member = members_find(&meeting->members, id);

	if (!member || meeting->state == MEETING_OVER)
		return;
	switch (message->type) {
	case MESSAGE_JOIN:
		take_join(meeting, member, &message->join, now_ms);
		break;
	case MESSAGE_FAILED:
		if (member->state == MEMBER_RUNS)
			take_failure(meeting, member, &message->failed, now_ms);
		break;
	case MESSAGE_LEAVE:
		take_leave(meeting, member, &message->leave, now_ms);
		break;
	case MESSAGE_ENDED:
		take_end(meeting, member, now_ms);
		break;
	default:
		break;
	}
}

void meeting_lose(struct meeting *meeting, int id, const char *reason, int64_t now_ms)
{
	struct member *member = members_find(&meeting->members, id), gone;

	if (!member)
		return;
	gone = *member;
	members_remove(&meeting->members, member);
	if (gone.state == MEMBER_RUNS || gone.state == MEMBER_ENDED)
		take_loss(meeting, &gone, reason, now_ms);
	go_on_without(meeting, now_ms);
}

/* ---- The clock ------------------------------------------------------------------------------ */

int64_t meeting_deadline(const struct meeting *meeting)
{
	int64_t at;

	if (meeting->state == MEETING_RUNS)
		return deadline_earlier(meeting->grow_at, members_next_ready(&meeting->members));
	if (meeting->state != MEETING_GATHERS)
		return 0;
	at = deadline_earlier(meeting->join_at, meeting->pause_at);
	at = deadline_earlier(at, members_next_ready(&meeting->members));
	if (meeting->attempts == 0)
		at = deadline_earlier(at, meeting->last_call_at);
	return meeting->expected ? deadline_earlier(at, meeting->expected_at) : at;
}

void meeting_on_clock(struct meeting *meeting, int64_t now_ms)
{
	if (now_ms >= meeting->pause_at)
		meeting->pause_at = 0;
	if (meeting->state == MEETING_GATHERS || meeting->state == MEETING_RUNS)
		end_waits(meeting, now_ms);
	if (meeting->state == MEETING_GATHERS) {
		try_round(meeting, now_ms);
		if (now_ms >= meeting->expected_at)
			meeting->expected = 0;
	} else if (meeting->state == MEETING_RUNS && meeting->grow_at &&
		   now_ms >= meeting->grow_at) {
		grow(meeting);
	}
}

/* ---- Its life ------------------------------------------------------------------------------- */

void meeting_init(struct meeting *meeting, const struct rules *rules, int self, int64_t now_ms)
{
	*meeting = (struct meeting){ .rules = *rules, .self = self, .start_ms = now_ms };
	gather(meeting, 0, now_ms);
}

void meeting_take_over(struct meeting *meeting, const struct world *last, int64_t now_ms)
{
	meeting->attempts = last->attempt + 1;
	meeting->restarts = last->restarts + !rules_are_elastic(&meeting->rules);
	meeting->expected = last->nodes - 1;
	meeting->expected_at = now_ms + MEETING_RETURN_MS;
}

void meeting_finish(struct meeting *meeting)
{
	members_finish(&meeting->members);
}
