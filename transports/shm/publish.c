#include "transports/shm/publish.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"

struct rd_shm_line rd_shm_no_line;

/* From here on the hot paths find neither message nor room, without another check. */
void rd_shm_link_fail(struct rd_shm_link *link, int error, const char *format, ...)
{
	va_list args;

	if (link->base.error)
		return;
	va_start(args, format);
	vsnprintf(link->base.reason, sizeof(link->base.reason), format, args);
	va_end(args);
	link->base.error = error;
	link->in = &rd_shm_no_line;
	link->in_stamp = 1;
	link->out_limit = link->out_count;
}

void rd_shm_link_end(struct rd_shm_link *link)
{
	rd_shm_link_fail(link, RONDO_BROKEN, "%s",
		link->peer->goodbye ? "closed its connection"
				    : "ended without closing its connection");
}

void rd_shm_wake_peer(struct rd_shm_link *link, _Atomic uint32_t *waits)
{
	uint64_t one = 1;

	if (!atomic_exchange(waits, 0))
		return;
	/* Fails only when the count is at its maximum; then the peer is awake. */
	ssize_t written = write(link->peer->wake_fd, &one, sizeof(one));

	(void)written;
}

bool rd_shm_read_consumed(struct rd_shm_link *link)
{
	uint32_t consumed = atomic_load(&link->outbound->consumed);

	rd_tsan_acquire(&link->outbound->consumed);
	if (rd_shm_update_consumed(link, consumed))
		return true;
	rd_shm_link_fail(link, RONDO_PROTOCOL, "released messages that it was never sent");
	return false;
}
