#include "pace.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"

#define STRETCHES 9
#define ROUNDS 8

/* Made once, and kept: the process ends soon. */
static const int *sockets(void)
{
	static int fds[2] = { -1, -1 };

	if (fds[0] < 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return NULL;
	return fds;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double peers_pace_ns(void)
{
	const int *fds = sockets();
	double each_ns[STRETCHES];
	char bytes[64] = "";

	if (!fds)
		return NAN;
	for (int stretch = 0; stretch < STRETCHES; stretch++) {
		int64_t start = rd_clock_ns();

		for (int i = 0; i < ROUNDS; i++) {
			if (send(fds[0], bytes, sizeof(bytes), MSG_NOSIGNAL) != sizeof(bytes) ||
				recv(fds[1], bytes, sizeof(bytes), 0) != sizeof(bytes))
				return NAN;
		}
		each_ns[stretch] = (double)(rd_clock_ns() - start) / ROUNDS;
	}
	qsort(each_ns, STRETCHES, sizeof(*each_ns), ascending);
	return each_ns[STRETCHES / 2];
}
