/*
 * Receives from any source that no other rank can match. All have left: then such a receive ends,
 * and the comm continues. Or rank 0's process has ended: nobody can have a further link opened
 * then, and those that are open end with their ranks, which ends the comm.
 *
 * All functions where nothing moved, with the mailbox's lock.
 */
#ifndef RD_ANY_SOURCE_H
#define RD_ANY_SOURCE_H

#include "comm/mailbox.h"

/* Whether all other ranks have left, all that they sent has come, and such a receive is left. */
bool rd_any_source_is_deserted(const struct rd_mailbox *mailbox);
/* In that case: ends those. The comm continues. True: some have ended. */
bool rd_any_source_end_deserted(struct rd_mailbox *mailbox);

/* An error, with its reason, where a receive from any source has waited for the timeout of calls
   without a link over which a message may come. *culprit: the rank whose link ended last; -1: none
   was open. */
int rd_any_source_check(struct rd_mailbox *mailbox, int *culprit);

#endif
