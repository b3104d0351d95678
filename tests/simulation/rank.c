/* One rank: its control thread (bootstrap/control_thread.c), and its program, with the waits of
   comm/wait.c. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "world.h"

#define SEARCH_MS 250
#define LINGER_MS 1000
#define ADDRESS "10.0.0.1:29500"

/* ---- Life ---------------------------------------------------------------------------------- */

void rank_start(struct world *world, struct sim_rank *rank)
{
	char reason[64];
	int err;

	rank->stage = STAGE_JOINING;
	err = rd_participant_create(&rank->participant, &rank->settings, &rank->self,
		&rank->activity, ADDRESS, sim_ms());
	if (!err && rank->rank == 0)
		err = rd_coordinator_create(&rank->coordinator, &rank->settings, ADDRESS,
			&(struct rd_comm_id){ world->seed | 1, { 0 } }, sim_ms());
	if (err)
		sim_fail("rank %d cannot start: %s", rank->rank, rondo_last_error());
	if (!world_fault(FAULT_decline, rank->rank, -1))
		return;
	sim_trace(rank->rank, "cannot take part");
	snprintf(reason, sizeof(reason), "rank %d has no memory", rank->rank);
	if (rank->rank == 0)
		rd_coordinator_decline(rank->coordinator, 0, RONDO_MEMORY, reason);
	else
		rd_participant_report(
			rank->participant, RONDO_MEMORY, rank->rank, reason, sim_ms());
}

void rank_finish(struct sim_rank *rank)
{
	calls_end(rank);
	rd_participant_destroy(rank->participant);
	rd_coordinator_destroy(rank->coordinator);
	rank->participant = NULL;
	rank->coordinator = NULL;
}

static void leave_world(struct world *world, struct sim_rank *rank)
{
	rank->stage = STAGE_GONE;
	rank->end_ns = sim.now_ns;
	sim_trace(rank->rank, "ends: %s%s%s", rank->result ? "" : "success",
		rank->result ? rondo_error_name(rank->result) : "", rank->result ? ": " : "");
	if (rank->result)
		sim_trace(rank->rank, "  %s", rank->result_reason);
	simulated_links_close(&world->links, rank->rank, true);
	if (rank->rank == 0)
		wire_close_coordinator(world);
	else
		wire_close(rank, 0);
	rank_finish(rank);
}

static void end_with(struct sim_rank *rank, int error, const char *reason)
{
	rank->result = error;
	snprintf(rank->result_reason, sizeof(rank->result_reason), "%s", reason);
	rank->stage = STAGE_QUITTING;
}

/* ---- The control thread -------------------------------------------------------------------- */

static void exchange_messages(struct sim_rank *rank)
{
	struct rd_control_message message;
	bool moved = rank->joined_self;

	while (moved) {
		moved = false;
		while (rd_participant_next(rank->participant, &message)) {
			rd_coordinator_take(rank->coordinator, 0, &message, sim_ms());
			moved = true;
		}
		while (rd_coordinator_next(rank->coordinator, 0, &message)) {
			rd_participant_take(rank->participant, &message, sim_ms());
			moved = true;
		}
	}
}

static void serve_zero(struct world *world, struct sim_rank *rank)
{
	char text[RD_REASON_SIZE];

	if (rd_participant_connects(rank->participant, sim_ms())) {
		rd_coordinator_open(rank->coordinator, sim_ms());
		rd_participant_connected(rank->participant, sim_ms());
		rank->joined_self = true;
	}
	exchange_messages(rank);
	if (rank->joined_self && rank->participant->phase >= RD_PARTICIPANT_LEFT) {
		rd_coordinator_closed(rank->coordinator, 0, 0, sim_ms());
		rank->joined_self = false;
	}
	wire_serve_coordinator(world);
	exchange_messages(rank);
	if (rd_coordinator_slow_call(rank->coordinator, text))
		sim_trace(0, "slow call: %s", text);
}

static void serve(struct world *world, struct sim_rank *rank)
{
	if (rank->rank == 0)
		serve_zero(world, rank);
	else
		wire_serve_rank(rank);
}

/* The coordinator's comes first, as in bootstrap/control_state.c. */
static void publish(struct world *world, struct sim_rank *rank)
{
	const char *reason = "";
	int error = 0;

	if (rank->coordinator) {
		error = rd_coordinator_verdict(rank->coordinator, &reason);
		world->coordinator_error = error;
		if (error)
			snprintf(world->coordinator_reason, sizeof(world->coordinator_reason), "%s",
				reason);
	}
	if (!error || rd_participant_spares(rank->participant))
		error = rd_participant_verdict(rank->participant, &reason);
	if (!error || rank->verdict)
		return;
	rank->verdict = error;
	snprintf(rank->reason, sizeof(rank->reason), "%s", reason);
	sim_trace(rank->rank, "verdict %s: %s", rondo_error_name(error), reason);
}

/* First all that has arrived, then the deadlines. */
static void run_control(struct world *world, struct sim_rank *rank)
{
	serve(world, rank);
	if (rank->dead_peer >= 0 && rank->participant->phase == RD_PARTICIPANT_OPEN)
		rd_participant_died(rank->participant, rank->dead_peer,
			atomic_load(&world->ranks[rank->dead_peer].activity.done));
	rank->dead_peer = -1;
	rd_participant_tick(rank->participant, sim_ms());
	if (rank->coordinator)
		rd_coordinator_tick(rank->coordinator, sim_ms());
	serve(world, rank);
	publish(world, rank);
}

static bool control_is_finished(struct sim_rank *rank)
{
	if (!rank->coordinator ||
		(rank->stage == STAGE_LEAVING && world_fault(FAULT_depart, rank->rank, -1)))
		return rank->stage == STAGE_QUITTING ||
		       rank->participant->phase >= RD_PARTICIPANT_LEFT;
	if (!rd_coordinator_decided(rank->coordinator))
		return rank->stage == STAGE_QUITTING;
	if (rank->linger_ns == NEVER)
		rank->linger_ns = sim.now_ns + LINGER_MS * MS;
	return rd_coordinator_over(rank->coordinator) || sim.now_ns >= rank->linger_ns;
}

/* ---- Waits --------------------------------------------------------------------------------- */

void rank_report(struct sim_rank *rank, int error, int culprit)
{
	sim_trace(rank->rank, "reports %s of rank %d: %s", rondo_error_name(error), culprit,
		rondo_last_error());
	snprintf(rank->result_reason, sizeof(rank->result_reason), "%s", rondo_last_error());
	rank->result = error;
	rd_participant_report(rank->participant, error, culprit, rank->result_reason, sim_ms());
	rank->stage = STAGE_REPORTING;
}

static void publish_wait(struct sim_rank *rank)
{
	struct rd_activity *activity = &rank->activity;
	struct rd_signature signature = rd_signature_of(&rank->made.call);
	uint64_t words[RD_SIGNATURE_WORDS];

	atomic_store(&activity->waiting_for, rank->exec.waiting_for);
	atomic_store(&activity->waiting_since_ms, (int64_t)(rank->since_ns / MS) + 1000);
	atomic_store(&activity->waiting_seen_ms, sim_ms());
	memcpy(words, &signature, sizeof(words));
	for (int i = 0; i < RD_SIGNATURE_WORDS; i++)
		atomic_store(&activity->slept_call[i], words[i]);
	atomic_store(&activity->slept_in, rank->made.call.number);
}

static void report_slow(struct sim_rank *rank, int waited_ms)
{
	int due_ms = rank->reported_ms == 0 ? HEARTBEAT_MS
					    : (rank->reported_ms / HEARTBEAT_MS + 1) * HEARTBEAT_MS;
	char reason[RD_REASON_SIZE];

	if (waited_ms < due_ms)
		return;
	snprintf(reason, sizeof(reason), "rank %d has waited %d ms for rank %d", rank->rank,
		waited_ms, rank->exec.waiting_for);
	rd_participant_slow(rank->participant, waited_ms, rank->exec.waiting_for, reason);
	rank->reported_ms = waited_ms;
}

static bool awaits_link(const struct sim_rank *rank)
{
	int peer = rank->exec.waiting_for;

	return peer >= 0 && !rank->opening[peer].open;
}

/* Nothing moves. */
static void wait(struct sim_rank *rank)
{
	int waited_ms, err;

	if (rank->since_ns == 0) {
		rank->since_ns = rank->searched_ns = sim.now_ns;
		rank->reported_ms = 0;
		publish_wait(rank);
	}
	waited_ms = (int)((sim.now_ns - rank->since_ns) / MS);
	if (waited_ms >= CALL_MS) {
		rd_fail(RONDO_TIMEOUT, "rank %d waited %d ms for rank %d in call #%d", rank->rank,
			waited_ms, rank->exec.waiting_for, rank->call + 1);
		rank_report(rank, RONDO_TIMEOUT, rank->exec.waiting_for);
		return;
	}
	if (sim.now_ns < rank->searched_ns + SEARCH_MS * MS)
		return;
	rank->searched_ns = sim.now_ns;
	publish_wait(rank);
	err = awaits_link(rank) ? 0 : rd_exec_find_mismatch(&rank->exec);
	if (err)
		rank_report(rank, err, rank->exec.waiting_for);
	else
		report_slow(rank, waited_ms);
}

/* ---- The program --------------------------------------------------------------------------- */

static void begin_call(struct world *world, struct sim_rank *rank)
{
	calls_begin(world, rank);
	rank->started = true;
	rank->since_ns = 0;
	atomic_store(&rank->activity.collective, (int)rank->made.call.problem.collective);
	atomic_store(&rank->activity.calls, (uint32_t)rank->call + 1);
	sim_trace(rank->rank, "begins call %d: %s by %s, %zu elements%s", rank->call,
		rd_collective_name(rank->made.call.problem.collective),
		rank->made.plans[0]->algorithm, rank->made.call.count,
		rank->made.differs ? " (no other rank does)" : "");
}

static void end_call(struct world *world, struct sim_rank *rank)
{
	calls_check(world, rank);
	calls_end(rank);
	atomic_store(&rank->activity.done, (uint32_t)rank->call + 1);
	atomic_store(&rank->activity.waiting_for, -1);
	sim_trace(rank->rank, "ends call %d", rank->call);
	rank->started = false;
	rank->lag_ns = 0;
	rank->call++;
	if (!world_fault(FAULT_quit, rank->rank, rank->call - 1))
		return;
	sim_trace(rank->rank, "dies after call %d", rank->call - 1);
	world_kill(world, rank, false);
	sim.struck_ns = sim.now_ns;
}

static void step_call(struct world *world, struct sim_rank *rank)
{
	bool moved = false;
	int progress, awaited;

	awaited = connect_reach(world, rank);
	if (awaited >= 0) {
		rank->exec.waiting_for = awaited;
		wait(rank);
		return;
	}
	while ((progress = rd_exec_step(&rank->exec)) == RD_MOVED)
		moved = true;
	if (progress == RD_DONE) {
		end_call(world, rank);
		return;
	}
	if (progress < 0) {
		rank_report(rank, progress, rank->exec.waiting_for);
		return;
	}
	if (moved)
		rank->since_ns = 0;
	wait(rank);
}

static bool computes(struct sim_rank *rank)
{
	const struct fault *lag = world_fault(FAULT_lag, rank->rank, rank->call);

	if (rank->lag_ns == 0)
		rank->lag_ns =
			sim.now_ns + (lag ? (uint64_t)lag->number[2] * MS : draw(&sim.run, MS));
	return sim.now_ns < rank->lag_ns;
}

static uint64_t digest(const struct sim_rank *rank)
{
	uint64_t sum = 0;

	for (int call = 0; call < rank->call; call++)
		sum = sum * 31 + (world_fault(FAULT_differ, rank->rank, call) ? 1 : 7);
	return sum;
}

static void run_calls(struct world *world, struct sim_rank *rank)
{
	int call = rank->call;

	if (rank->started) {
		step_call(world, rank);
	} else if (call == world->calls || world_fault(FAULT_leave, rank->rank, call)) {
		rd_participant_leave(rank->participant, digest(rank), sim_ms());
		rank->stage = STAGE_LEAVING;
		sim_trace(rank->rank, "leaves after %d calls", call);
	} else if (world_fault(FAULT_revoke, rank->rank, call)) {
		rd_fail(RONDO_REVOKED, "rank %d revoked the communicator", rank->rank);
		rank_report(rank, RONDO_REVOKED, rank->rank);
	} else if (!computes(rank)) {
		begin_call(world, rank);
	}
}

static struct rd_link_limits limits_of(const struct world *world)
{
	return (struct rd_link_limits){ world->piece, false, RD_NO_RAILS, RD_NO_RAILS, 1 };
}

static void run_connect(struct world *world, struct sim_rank *rank)
{
	struct rd_link_limits limits = limits_of(world);

	if (connect_is_open(world, rank)) {
		rank->stage = STAGE_READY;
		rank->ready_after = rank->fallbacks;
		rd_participant_ready(rank->participant, rank->fallbacks, &limits);
	} else if (sim.now_ns >= rank->connect_ns + INIT_MS * MS) {
		rd_fail(RONDO_TIMEOUT, "rank %d waited for its links", rank->rank);
		rank_report(rank, RONDO_TIMEOUT, -1);
	}
}

/* One step of the program. Returns false where it must wait. */
static bool run_program(struct world *world, struct sim_rank *rank)
{
	enum rd_participant_phase phase = rank->participant->phase;
	enum stage before = rank->stage;
	int call = rank->call, started = rank->started;

	if (rank->stage < STAGE_LEAVING && rank->verdict)
		end_with(rank, rank->verdict, rank->reason);
	switch (rank->stage) {
	case STAGE_JOINING:
		if (phase < RD_PARTICIPANT_JOINED)
			break;
		connect_begin(world, rank);
		rank->stage = STAGE_CONNECTING;
		break;
	case STAGE_CONNECTING:
		run_connect(world, rank);
		break;
	case STAGE_READY:
		if (phase == RD_PARTICIPANT_OPEN)
			rank->stage = STAGE_CALLING;
		else if (rank->fallbacks > rank->ready_after)
			rank->stage = STAGE_CONNECTING;
		break;
	case STAGE_CALLING:
		run_calls(world, rank);
		break;
	case STAGE_REPORTING:
		break;
	case STAGE_LEAVING:
	case STAGE_QUITTING:
		if (!control_is_finished(rank))
			break;
		if (rank->stage == STAGE_LEAVING)
			end_with(rank, rank->verdict, rank->reason);
		leave_world(world, rank);
		return false;
	default:
		break;
	}
	return rank->stage != before || rank->call != call || rank->started != started;
}

/* ---- Time ---------------------------------------------------------------------------------- */

static uint64_t from_ms(int64_t ms)
{
	return ms == RD_NEVER ? NEVER : ms <= 1000 ? 0 : (uint64_t)(ms - 1000) * MS;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t next_wake(const struct sim_rank *rank)
{
	uint64_t wake_ns = from_ms(rd_participant_deadline(rank->participant));

	if (rank->coordinator)
		wake_ns = sooner(wake_ns, from_ms(rd_coordinator_deadline(rank->coordinator)));
	wake_ns = sooner(wake_ns, sooner(rank->attempt_ns, rank->linger_ns));
	if (rank->stage == STAGE_CONNECTING)
		wake_ns = sooner(wake_ns, connect_wake(rank));
	if (rank->stage == STAGE_CALLING && rank->started)
		wake_ns = sooner(wake_ns,
			sooner(rank->searched_ns + SEARCH_MS * MS, rank->since_ns + CALL_MS * MS));
	else if (rank->stage == STAGE_CALLING)
		wake_ns = sooner(wake_ns, rank->lag_ns);
	/* A deadline in the past would be one that does nothing: judge() finds what hangs. */
	return wake_ns > sim.now_ns ? wake_ns : sim.now_ns + MS;
}

void rank_run(struct world *world, struct sim_rank *rank)
{
	bool moved = true;

	if (!sim_acts(rank))
		return;
	while (moved && rank->stage != STAGE_GONE && !rank->dead) {
		run_control(world, rank);
		connect_step(world, rank);
		moved = run_program(world, rank);
		if (!moved && rank->stage != STAGE_GONE && !rank->dead)
			run_control(world, rank);
	}
	if (rank->stage != STAGE_GONE && !rank->dead)
		rank->wake_ns = next_wake(rank);
}
