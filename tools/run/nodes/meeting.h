/*
 * The meeting of the nodes of a job, on its leader's side: a state machine without sockets and
 * without a clock. The caller passes it what agents send, and the time; it calls back to send.
 *
 *     GATHERING  until enough nodes have sent JOIN; then each gets WORLD
 *     RUNNING    until all are DONE, a rank fails, a node is lost or leaves, or one more comes
 *     STOPPING   each gets STOP, and sends ENDED when none of its ranks is left
 *     OVER       each got the last STOP
 *
 * From STOPPING the meeting gathers again (AGAIN), or it is over. So ranks of an attempt start
 * only when those of the attempt before have ended. After short attempts, a restart and newcomers
 * wait for a while (pace.h).
 *
 * Times are in ms of one monotonic clock.
 */
#ifndef RUN_MEETING_H
#define RUN_MEETING_H

#include <stdbool.h>
#include <stdint.h>

#include "run/nodes/members.h"
#include "run/nodes/message.h"
#include "run/nodes/pace.h"
#include "run/nodes/rules.h"

/* The time that survivors of a lost leader have to reach the next one. */
#define MEETING_RETURN_MS 5000

/* Reasons to end an attempt; a later one goes before an earlier one. */
enum cause { CAUSE_NONE, CAUSE_NEWCOMER, CAUSE_FAILURE, CAUSE_LOST, CAUSE_LEFT };

struct meeting {
	struct rules rules;
	enum { MEETING_GATHERS, MEETING_RUNS, MEETING_STOPS, MEETING_OVER } state;
	struct members members;
	int self; /* the id of the leader's own agent: it is no candidate */
	char address[ADDRESS_SIZE]; /* the leader's own; "": not known */
	int attempts, restarts;
	int64_t start_ms;
	struct pace pace;
	/* While it gathers. */
	int64_t pause_at; /* no attempt starts before; 0: one may */
	int64_t join_at, last_call_at; /* deadlines; last_call_at is 0 until enough are there */
	int expected; /* survivors of a lost leader, this one too, that are awaited... */
	int64_t expected_at; /* ...until then */
	/* While it runs: when it makes room for newcomers; 0: there are none. */
	int64_t grow_at;
	/* While it stops. */
	enum cause cause;
	int cause_status; /* the job's exit status if it cannot go on */
	struct stop stop; /* the first failure and the reason */
};

/* The rules' strings must outlive the meeting. */
void meeting_init(struct meeting *meeting, const struct rules *rules, int self, int64_t now_ms);
void meeting_finish(struct meeting *meeting);

/* Right after meeting_init(): continues the job of a lost leader, whose last world this was.
   Where the number of nodes is fixed, its loss counts as a restart. */
void meeting_take_over(struct meeting *meeting, const struct world *last, int64_t now_ms);

/* An agent's HELLO, and its numeric address. Answers WELCOME, REFUSED or the last STOP. */
void meeting_hello(struct meeting *meeting, int id, const struct hello *hello, const char *address,
	int64_t now_ms);
/* A later message. Ignores messages of ids without a member, and those out of place. */
void meeting_take(struct meeting *meeting, int id, const struct message *message, int64_t now_ms);
/* Its connection is gone, for the reason given. */
void meeting_lose(struct meeting *meeting, int id, const char *reason, int64_t now_ms);

/* The time by which meeting_on_clock() must be called; 0: none. */
int64_t meeting_deadline(const struct meeting *meeting);
void meeting_on_clock(struct meeting *meeting, int64_t now_ms);

#endif
