#include "bootstrap/shrink/rings.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/socket.h"
#include "topo/place.h"

/* Most ranks come at once, and need no ring. */
#define AFTER_MS 100
/* A process that ends closes its place a moment after it is seen to die. */
#define AGAIN_MS 20

bool rd_rings_judge(struct rd_shrink *shrink, int rank, int error)
{
	const struct rd_member *here = &shrink->members[shrink->rank];
	bool sure = shrink->fates[rank] == RD_FATE_ACCUSED ||
		    rd_place_same_host(&here->place, &shrink->members[rank].place);

	/* On another host, a firewall may refuse as a kernel does, and mostly for a moment. */
	if (error == ECONNREFUSED && !sure && rd_clock_ms() < shrink->doubts_ms)
		return false;
	shrink->fates[rank] = error == ECONNREFUSED && sure ? RD_FATE_DEAD : RD_FATE_LOST;
	return true;
}

void rd_rings_doubt(struct rd_shrink *shrink)
{
	shrink->doubts_ms = rd_clock_ms() + RD_SHRINK_DOUBTS_MS;
}

void rd_rings_stop(struct rd_shrink *shrink, int rank)
{
	if (shrink->rings[rank].fd >= 0)
		close(shrink->rings[rank].fd);
	shrink->rings[rank].fd = -1;
	/* If it has come, and goes again, there is no time to wait. */
	shrink->rings[rank].next_ms = 0;
}

void rd_rings_start(struct rd_shrink *shrink, int64_t now_ms)
{
	rd_rings_doubt(shrink);
	for (int rank = 0; rank < shrink->size; rank++) {
		rd_rings_stop(shrink, rank);
		shrink->rings[rank].next_ms =
			shrink->fates[rank] == RD_FATE_ACCUSED ? now_ms : now_ms + AFTER_MS;
	}
}

/* The first address does: each host listens at one. */
static int begin(struct rd_shrink *shrink, int rank, int64_t now_ms)
{
	struct epoll_event event = { .events = EPOLLOUT | EPOLLRDHUP,
		.data.u64 = RD_MARK_RINGS + (uint64_t)rank };
	struct rd_ring *ring = &shrink->rings[rank];
	struct rd_addresses addresses = { 0 };
	struct rd_settings place;

	rd_shrink_place(shrink, rank, &place);
	if (rd_resolve(&addresses, &place, now_ms))
		return EHOSTUNREACH;
	ring->fd = rd_connect_start(&addresses, 0);
	if (ring->fd < 0 || epoll_ctl(shrink->epoll_fd, EPOLL_CTL_ADD, ring->fd, &event))
		return errno;
	ring->answered = false;
	ring->next_ms = now_ms + shrink->settings->heartbeat_timeout_ms;
	return 0;
}

static void ring(struct rd_shrink *shrink, int rank, int64_t now_ms)
{
	int error = begin(shrink, rank, now_ms);

	if (!error)
		return;
	rd_rings_stop(shrink, rank);
	if (rd_lacks_resources(error) || !rd_rings_judge(shrink, rank, error))
		shrink->rings[rank].next_ms = now_ms + AFTER_MS;
}

void rd_rings_tick(struct rd_shrink *shrink, int64_t now_ms)
{
	for (int rank = 0; rank < shrink->size; rank++) {
		struct rd_ring *at = &shrink->rings[rank];

		if (rank == shrink->rank || shrink->visit_of[rank] >= 0 ||
			shrink->fates[rank] >= RD_FATE_LOST || now_ms < at->next_ms)
			continue;
		if (at->fd < 0)
			ring(shrink, rank, now_ms);
		else if (!at->answered || shrink->fates[rank] == RD_FATE_ACCUSED)
			shrink->fates[rank] = RD_FATE_LOST;
		if (shrink->fates[rank] >= RD_FATE_LOST)
			rd_rings_stop(shrink, rank);
	}
}

void rd_rings_take(struct rd_shrink *shrink, int rank, int64_t now_ms)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP,
		.data.u64 = RD_MARK_RINGS + (uint64_t)rank };
	struct rd_ring *at = &shrink->rings[rank];
	int error;

	if (at->fd < 0)
		return;
	error = at->answered ? ECONNRESET : rd_connect_finish(at->fd);
	if (error == ECONNRESET) {
		/* It was closed: the process ends, makes room for others, or is cut off. */
		rd_rings_doubt(shrink);
		rd_rings_stop(shrink, rank);
		at->next_ms = now_ms + AGAIN_MS;
		return;
	}
	if (error) {
		rd_rings_stop(shrink, rank);
		if (!rd_rings_judge(shrink, rank, error))
			at->next_ms = now_ms + AGAIN_MS;
		return;
	}
	at->answered = true;
	rd_socket_tune(at->fd, shrink->settings->heartbeat_timeout_ms);
	epoll_ctl(shrink->epoll_fd, EPOLL_CTL_MOD, at->fd, &event);
}
