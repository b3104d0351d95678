/*
 * Receives from any source, after rank 0's process has ended: nobody can have a further link opened
 * then, and those that are open end with their ranks.
 */
#ifndef RD_ANY_SOURCE_H
#define RD_ANY_SOURCE_H

#include "comm/mailbox.h"

/* To be called where nothing moved, with the mailbox's lock. An error, with its reason, where a
   receive from any source has waited for the timeout of calls without a link over which a message
   may come. *culprit: the rank whose link ended last; -1: none was open. */
int rd_any_source_check(struct rd_mailbox *mailbox, int *culprit);

#endif
