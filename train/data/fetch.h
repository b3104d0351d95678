/* Fetches data sets from their publishers. */
#ifndef TRAIN_FETCH_H
#define TRAIN_FETCH_H

#include "train/data/sets.h"

/*
 * Fetches a set with curl or wget, from the publisher or from `mirror`: its files into
 * root/TITLE/raw, or its archive, which tar unpacks to root/TITLE. Keeps a file only if it has the
 * published hash. Files that are there already are not fetched again.
 */
int fetch_set(const struct set *set, const char *root, const char *mirror);

#endif
