#include "bootstrap/shrink/watch.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "base/thread.h"

#define STACK_SIZE (64 << 10)

/* The first descriptor is the one that ends it. */
static void *run(void *argument)
{
	struct rd_shrink *shrink = argument;
	struct rd_shrink_watch *watch = &shrink->watch;

	rd_log_rank(shrink->quorum.rank);
	while (poll(watch->fds, (nfds_t)watch->count, -1) < 0)
		; /* a signal */
	if (!watch->fds[0].revents)
		rd_control_fail_children(shrink->control, RONDO_DIED,
			"a rank died while the ranks that were left made a communicator");
	return NULL;
}

static void add(struct rd_shrink_watch *watch, const struct rd_control_socket *socket)
{
	/* Messages stay for later. */
	if (socket)
		watch->fds[watch->count++] =
			(struct pollfd){ .fd = socket->connection.wire.fd, .events = POLLRDHUP };
}

void rd_shrink_watch_start(struct rd_shrink *shrink)
{
	struct rd_shrink_watch *watch = &shrink->watch;

	rd_control_spare_children(shrink->control);
	watch->fds = calloc(2 * (size_t)shrink->quorum.size + 1, sizeof(*watch->fds));
	watch->stop_fd = rd_above_stderr(eventfd(0, EFD_CLOEXEC));
	watch->count = 1;
	if (watch->fds) {
		watch->fds[0] = (struct pollfd){ .fd = watch->stop_fd, .events = POLLIN };
		for (int rank = 0; rank < shrink->quorum.size; rank++) {
			add(watch, shrink->dialled[rank].socket);
			add(watch, shrink->arrived[rank]);
		}
	}
	watch->runs = watch->fds && watch->stop_fd >= 0 &&
		      rd_thread_start(&watch->thread, STACK_SIZE, run, shrink) == 0;
}

void rd_shrink_watch_stop(struct rd_shrink *shrink)
{
	struct rd_shrink_watch *watch = &shrink->watch;

	if (watch->runs && eventfd_write(watch->stop_fd, 1) == 0)
		pthread_join(watch->thread, NULL);
	if (watch->stop_fd >= 0)
		close(watch->stop_fd);
	free(watch->fds);
	*watch = (struct rd_shrink_watch){ .stop_fd = -1 };
}
