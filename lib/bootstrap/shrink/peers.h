/* The ranks of a quorum, for both of its sides and the vote. */
#ifndef RD_SHRINK_PEERS_H
#define RD_SHRINK_PEERS_H

#include "bootstrap/shrink/quorum.h"

/* The quorum ends, with this error. */
void rd_quorum_fail(struct rd_quorum *quorum, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* A connection to this rank's place is to be opened. A host that lives has its kernel answer within
   the bound of heartbeats. */
void rd_quorum_dial(struct rd_quorum *quorum, int rank, int64_t now_ms);
/* Sets the standing of a rank to whose place no connection could be opened, by this errno. False:
   it is to be tried again. */
bool rd_quorum_judge(struct rd_quorum *quorum, int rank, int error, int64_t now_ms);
/* From now on refusals are tried again for RD_QUORUM_DOUBTS_MS. Each rank has that time; and again
   when a connection with it has ended. */
void rd_quorum_doubt(struct rd_quorum *quorum, int64_t now_ms);

#endif
