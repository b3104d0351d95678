/* A creation that need not block: a thread makes the comm, and any thread may cancel it. */
#ifndef RD_CREATION_H
#define RD_CREATION_H

#include "base/settings.h"
#include "rondo.h"

/* The way of making a comm. */
struct rd_creation_work {
	int rank; /* in the new comm */
	/* Called once, in the creation's thread, with the arguments; returns 0 or an error. Its
	   waits end when the creation is cancelled (base/cancellation.h). */
	int (*make)(rondo_comm **comm, void *arguments);
	void *arguments; /* freed once make() has returned */
};

/* Takes over the arguments, unless it fails. Returns 0 or an error. */
int rd_creation_begin(rondo_creation **creation, const struct rd_creation_work *work);

/* Where no device is set, it becomes the calling thread's current one, if there is one. */
void rd_creation_choose_device(struct rd_settings *settings);

#endif
