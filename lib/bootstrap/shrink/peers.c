#include "bootstrap/shrink/quorum_sides.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "topo/place.h"

void rd_quorum_fail(struct rd_quorum *quorum, int error, const char *format, ...)
{
	char reason[RD_REASON_SIZE];
	va_list args;

	/* The text may be among the arguments. */
	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	memcpy(quorum->reason, reason, sizeof(reason));
	quorum->error = error;
	quorum->phase = RD_QUORUM_FAILED;
}

void rd_quorum_dial(struct rd_quorum *quorum, int rank, int64_t now_ms)
{
	struct rd_quorum_peer *peer = &quorum->peers[rank];

	peer->dials = true;
	peer->attempt = ++quorum->attempts;
	peer->answered = false;
	peer->next_ms = now_ms + quorum->settings->heartbeat_timeout_ms;
}

bool rd_quorum_judge(struct rd_quorum *quorum, int rank, int error, int64_t now_ms)
{
	struct rd_quorum_peer *peer = &quorum->peers[rank];
	bool sure = peer->standing == RD_ACCUSED ||
		    rd_place_same_host(
			    &quorum->members[quorum->rank].place, &quorum->members[rank].place);

	/* On another host, a firewall may refuse as a kernel does, and mostly for a moment. */
	if (error == ECONNREFUSED && !sure && now_ms < quorum->doubts_ms)
		return false;
	peer->standing = error == ECONNREFUSED && sure ? RD_DIED : RD_ABSENT;
	return true;
}

void rd_quorum_doubt(struct rd_quorum *quorum, int64_t now_ms)
{
	quorum->doubts_ms = now_ms + RD_QUORUM_DOUBTS_MS;
}
