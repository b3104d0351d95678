/*
 * A file that is whole or not there: it is written beside FILE under a name of its own, as
 * FILE.draft.N, and takes its name at the end. Until then a file of that name keeps its contents.
 * A draft is locked. That of a killed run is free again, and the next writer takes it.
 * Where FILE is a symbolic link, all that holds for the file behind it, and the link stays.
 * Functions fail with one line that names FILE.
 */
#ifndef TRAIN_DRAFT_H
#define TRAIN_DRAFT_H

#include <limits.h>
#include <stdio.h>

struct draft {
	const char *path; /* the caller's */
	char target[PATH_MAX]; /* the file behind it */
	char draft[PATH_MAX];
	FILE *file;
};

/* Fails if the file could not be written; leaves nothing. */
int draft_check(const char *path);
/* The file that a draft of `path` will replace, or create. */
int draft_target(char target[PATH_MAX], const char *path);
int draft_open(struct draft *draft, const char *path);
/*
 * Gives the file its name, unless a write failed, and waits until the disk has it. A file that had
 * the name is then called `earlier`, or is gone where that is NULL. Closes the draft in any case.
 */
int draft_finish(struct draft *draft, const char *earlier);
/* Closes and removes it. */
void draft_discard(struct draft *draft);

#endif
