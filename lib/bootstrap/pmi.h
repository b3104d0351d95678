/*
 * Rendezvous by PMI: rank 0 listens, and its address card goes through the key-value space of the
 * process manager (MPICH's mpiexec and its kin). The wire protocol is that of MPICH's "simple
 * PMI", version 1: lines of "cmd=NAME key=value..." over the socket PMI_FD. An MPI library of the
 * program may use the same socket, before or after, but not at the same time. So `init` is left
 * out, and `finalize` goes out when the process exits, unless MPI_Finalize() has closed the
 * socket. A process that ends without it has failed, and its process manager ends the others.
 */
#ifndef RD_PMI_H
#define RD_PMI_H

#include <stdint.h>

#include "base/settings.h"
#include "bootstrap/address_card.h"

/*
 * Sets address, port and key of the settings; in rank 0, rendezvous_fd to a copy of the socket. The
 * processes exchange them once, before the first comm. Each process of the job must call it, or the
 * exchange ends after init_timeout_ms with an error, which stays. Any thread may call it.
 */
int rd_pmi_meet(struct rd_settings *settings);

/*
 * The conversation with a process manager, each line of which has one line as its answer.
 */
#define RD_PMI_LINE 2048

struct rd_pmi_conversation {
	int fd;
	int64_t deadline_ms; /* no answer is waited for longer */
	int timeout_ms; /* the time until then, for the errors */
	char line[RD_PMI_LINE]; /* the latest answer */
};

/*
 * Puts `mine` (NULL: another process does), and gets it into `text` after all processes have come
 * here. Takes no byte behind the answers. RONDO_TIMEOUT, RONDO_BROKEN, RONDO_PROTOCOL or
 * RONDO_SYSTEM, with a reason.
 */
int rd_pmi_exchange(
	struct rd_pmi_conversation *with, const char *mine, char text[RD_ADDRESS_CARD_TEXT]);

#endif
