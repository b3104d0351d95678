/*
 * Threads that do what is due when no thread of the program does it. They are the process's; there
 * are as many as work that runs at once, and one that looks after the rest.
 */
#ifndef RD_BACKGROUND_H
#define RD_BACKGROUND_H

enum rd_background_state {
	RD_BACKGROUND_NOW, /* to be run */
	RD_BACKGROUND_LATER, /* to be looked at again, soon */
	RD_BACKGROUND_NONE, /* until the next rd_background_post() */
};

/* Something that has work at times. Its owner frees it, after rd_background_finish(). */
struct rd_background {
	/* Both in a worker's thread. look() only looks, under the lock of the workers; run() works
	   until there is nothing left. A post meanwhile may have another thread run it as well. */
	enum rd_background_state (*look)(struct rd_background *work);
	void (*run)(struct rd_background *work);
	/* The list of those that are looked at, whether it is in that, and how many run it: */
	struct rd_background *next;
	_Bool listed;
	int runs;
};

/* The workers stay until the last work is finished. */
void rd_background_init(struct rd_background *work,
	enum rd_background_state (*look)(struct rd_background *work),
	void (*run)(struct rd_background *work));
/* Waits for runs under way. Not for the work of a parent process, which a child just frees. */
void rd_background_finish(struct rd_background *work);

/* A worker looks at it at once, and continues to look until look() returns RD_BACKGROUND_NONE.
   Returns 0, or RONDO_SYSTEM: no thread is free for it, and none can be started. Take no lock that
   look() takes. */
int rd_background_post(struct rd_background *work);

#endif
