/*
 * The conversation with a process manager, over its socket PMI_FD: lines of "cmd=NAME
 * key=value...", each of which has one line as its answer (pmi.h).
 */
#ifndef RD_PMI_CONVERSATION_H
#define RD_PMI_CONVERSATION_H

#include <stdint.h>

#include "bootstrap/address_card.h"

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

/* Ends this process's part, and waits for the answer. */
void rd_pmi_finalize(struct rd_pmi_conversation *with);

#endif
