/* The data sets we know: where they lie, and where they come from. */
#ifndef TRAIN_SETS_H
#define TRAIN_SETS_H

#include <stdbool.h>
#include <stddef.h>

struct set_file {
	const char *name;
	const char *md5; /* as published */
};

struct set {
	const char *name; /* of --dataset */
	const char *title; /* also the folder's name */
	const char *url; /* NULL: not to be fetched */
	struct set_file files[4];
};

/* NULL when there is none of that name. */
const struct set *set_named(const char *name);

/*
 * Looks for the four files in root, root/TITLE and root/TITLE/raw (as torchvision lays them out).
 * set NULL: any set. Writes where they are into dir; nothing ("") where none of them is anywhere.
 * Fails where a directory on the way holds some of them alone.
 */
int set_find(char *dir, size_t dir_size, const char *root, const struct set *set);

/* Fails where root holds something else than sets, hidden files aside: it is not ours to draw into
 * unasked. */
int set_may_draw(const char *root);

/* Draws a set of these sizes, into root/drawn. */
#define SET_DRAWN_TRAIN 60000
#define SET_DRAWN_TEST 10000
int set_draw(const char *root);

/*
 * Fetches the files into root/TITLE/raw with curl or wget, from the address where they are
 * published, or from `mirror`. A file is kept only when its hash is the published one.
 */
int set_fetch(const struct set *set, const char *root, const char *mirror);

#endif
