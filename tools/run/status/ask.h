/*
 * Asks the ranks on this host for their status (lib/bootstrap/status.h).
 */
#ifndef RUN_STATUS_ASK_H
#define RUN_STATUS_ASK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/json.h"

/* One rank in one comm. */
struct status {
	pid_t pid;
	char *text; /* one line of JSON, without its newline; NULL: it does not answer */
	struct rd_json json; /* the text, read: an object with these whole numbers */
	int64_t rank, size;
	bool failed;
};

struct statuses {
	struct status *list; /* in the order of jobs, comms and ranks */
	int count, capacity;
};

/*
 * Asks all processes of this user, and root those of all. Waits a second at most for 256 of
 * them. With a job's name, those of other jobs are left out; a process that does not answer is
 * not, since nobody can tell its job. False, with one line on stderr, where nobody can be asked.
 */
bool statuses_ask(struct statuses *statuses, const char *job);
void statuses_finish(struct statuses *statuses);

/* A text of the status; "" where it has none. */
const char *status_text(const struct status *status, const char *name);
/* A whole number of 0 or more, of the status or of an object in it (NULL: of itself); 0 where it
   has none. */
int64_t status_number(const struct status *status, const char *object, const char *name);

#endif
