/* The known data sets: their places on disk, and how to draw those that are drawn. */
#ifndef TRAIN_SETS_H
#define TRAIN_SETS_H

#include <stddef.h>
#include <stdint.h>

#include "train/data/data.h"

#define SET_DOWNLOADS_MAX 4

struct set_download {
	const char *name;
	const char *md5; /* as published */
};

struct set {
	const char *name; /* of --dataset */
	const char *title; /* also the folder's name; NULL: --data names a file of the user's */
	const struct data_kind *kind;
	const char *url; /* NULL: cannot be fetched */
	/* Files to fetch: those of the kind, or one .tar.gz whose folder `title` holds them. */
	struct set_download downloads[SET_DOWNLOADS_MAX];
	/* Writes the set's files into dir; NULL: is not drawn. The counts are samples; of text,
	   bytes. */
	int (*draw)(const char *dir, size_t train_count, size_t test_count, uint64_t seed);
	size_t train_count, test_count; /* of a drawn set */
	const char *samples; /* the drawn samples, for a line of the report */
};

/* NULL: no set has this name. */
const struct set *set_named(const char *name);
/* The name of each set, from index 0 on; NULL behind the last. */
const char *set_name(int index);
/* The set that is drawn, and the first that can be fetched (NULL: none), of a kind. */
const struct set *set_drawn(const struct data_kind *kind);
const struct set *set_fetched(const struct data_kind *kind);

/*
 * Searches the files of `set`, or if that is NULL, of any set of a kind. They lie in root,
 * root/TITLE or root/TITLE/raw (torchvision's layout). For text, root may be the file itself.
 * Writes kind and path to *source; the path is "" if there are none. Fails if one of these folders
 * holds only some of the files.
 */
int set_find(struct data_source *source, const char *root, const struct set *set,
	const struct data_kind *kind);

/* Fails if root holds other files than sets and hidden ones: drawing `set` there needs the user's
   order. Fails also if nothing is there, and the name is that of a file. */
int set_may_draw(const struct set *set, const char *root);

/*
 * Draws the set, with these numbers of samples, into root/TITLE. The folder appears at once, whole;
 * if another process was faster, its set stays.
 */
int set_draw(const struct set *set, const char *root, size_t train_count, size_t test_count);

#endif
