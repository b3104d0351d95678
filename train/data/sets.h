/* The known data sets: their places on disk, and their publishers. */
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
	const char *url; /* NULL: cannot be fetched */
	struct set_file files[4];
};

/* NULL: no set has this name. */
const struct set *set_named(const char *name);

/*
 * Searches the four files in root, root/TITLE and root/TITLE/raw (torchvision's layout). set NULL:
 * any set. Writes their folder to dir, or "" if there are none. Fails if one of these folders holds
 * only some of them.
 */
int set_find(char *dir, size_t dir_size, const char *root, const struct set *set);

/* Fails if root holds other files than sets and hidden ones: drawing there needs the user's
   order. */
int set_may_draw(const char *root);

/* Draws a set of these sizes, into root/drawn. */
#define SET_DRAWN_TRAIN 60000
#define SET_DRAWN_TEST 10000
int set_draw(const char *root);

/*
 * Fetches the files into root/TITLE/raw with curl or wget, from the publisher or from `mirror`.
 * Keeps a file only if it has the published hash.
 */
int set_fetch(const struct set *set, const char *root, const char *mirror);

#endif
