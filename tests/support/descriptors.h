/* The descriptors of this process by kind, for tests of comms that need none of their own. */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include <stdbool.h>

#include "world.h"

/* Numbers of those that links and sleepers use, and of all. Some of the connections over TCP are
   the control plane's. */
struct descriptors {
	int eventfds, epolls, timers, memory, packet_sockets, connections, all;
};

struct descriptors descriptors_count(void);

/* Whether there are these, for comms that each have an epoll and a link over TCP; one more epoll at
   most, on which another thread has slept; and fewer connections of the control plane, maybe. */
bool descriptors_are_of(
	const struct descriptors *now, const struct descriptors *before, int comms_over_tcp);

/* Says both, and returns what a failed rank returns. */
int descriptors_report(struct rank_env *env, const char *when, const struct descriptors *before,
	const struct descriptors *after);

#endif
