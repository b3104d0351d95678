/*
 * The agents of a meeting (run/nodes/meeting.h), without their processes: the test sends what each
 * of them sends, sees what it got, and has the clock.
 */
#ifndef MEETING_AGENTS_H
#define MEETING_AGENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "run/nodes/meeting.h"

#define AGENTS 64

/* The type in agents[] of a STOP that ends the job. */
#define GOT_END ((enum message_type)(MESSAGE_LAST + 1))

/* The agents, as far as the meeting has sent them something. */
extern struct agent {
	bool connected;
	struct hello hello;
	struct message last; /* that it got, PING apart */
	int received;
	bool refused;
} agents[AGENTS];

extern struct meeting meeting;
extern int64_t now; /* ms */

/* Begins anew: a meeting without agents. */
void open_meeting(int least, int most, int max_restarts);

/* The HELLO of an agent with two ranks on "hostID", for any node. */
struct hello hello_of(int id);
/* It connects from 10.0.0.ID, and sends HELLO. */
void greet(int id, const struct hello *hello);
/* A message without contents; of JOIN, the ports. */
void tell(int id, enum message_type type);
/* HELLO and JOIN. */
void enter(int id);
void enter_all(int count);
/* Its connection is lost. */
void lose(int id);
/* One of its ranks failed, age_ms ago. */
void fail(int id, int status, bool by_signal, int age_ms);
void leave(int id);
void wait_ms(int64_t ms);

/* Fails the test unless this was the last message to the agent. */
void got(int id, enum message_type type);
void all_got(int first, int count, enum message_type type);
/* The world of its last message, WORLD. */
const struct world *world_of(int id);

#define ALL(...) (const int[]){ __VA_ARGS__ }, (int)(sizeof((int[]){ __VA_ARGS__ }) / sizeof(int))
/* All ranks end after STOP; then each agent is asked to join again, and does: ALL(0, 1). */
void come_again(const int *ids, int count);

void reason_has(const char *reason, const char *part);

#endif
