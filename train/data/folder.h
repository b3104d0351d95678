/* Folders of data sets: written as a draft beside their place, and put there at once. */
#ifndef TRAIN_FOLDER_H
#define TRAIN_FOLDER_H

#include <limits.h>

#include "train/data/data.h"

/* Makes the folder, unless it is there. Its parent must be there. */
int folder_make(const char *path);
/* Makes an empty draft, root/TITLE.XXXXXX. folder_remove() follows. On failure nothing is
   there. */
int folder_begin(char draft[PATH_MAX], const char *root, const char *title);
/* Moves the folder `whole` to root/TITLE. A set of that kind that is there already stays. */
int folder_publish(
	const char *whole, const char *root, const char *title, const struct data_kind *kind);
/* Removes a folder and all in it, if it is there. */
void folder_remove(const char *path);

#endif
