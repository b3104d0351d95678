#include "train/data/folder.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/base/fail.h"

int folder_make(const char *path)
{
	if (mkdir(path, 0777) && errno != EEXIST)
		return fail("%s: %s", path, strerror(errno));
	return 0;
}

int folder_begin(char draft[PATH_MAX], const char *root, const char *title)
{
	if (snprintf(draft, PATH_MAX, "%s/%s.XXXXXX", root, title) >= PATH_MAX)
		return fail("%s: the name is too long", root);
	if (mkdtemp(draft) && !chmod(draft, 0755))
		return 0;
	int err = fail("%s: %s", draft, strerror(errno));
	rmdir(draft);
	return err;
}

int folder_publish(
	const char *whole, const char *root, const char *title, const struct data_kind *kind)
{
	char path[PATH_MAX];
	bool found;
	if (snprintf(path, sizeof(path), "%s/%s", root, title) >= (int)sizeof(path))
		return fail("%s: the name is too long", root);
	/* rename() replaces empty directories only: a complete set stays. */
	if (!rename(whole, path))
		return 0;
	int why = errno;
	if (!data_find(&found, path, kind) && found)
		return 0;
	return fail("%s: cannot put the set there: %s (remove it if it holds part of one)", path,
		strerror(why));
}

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *where)
{
	(void)about, (void)type, (void)where;
	remove(path);
	return 0;
}

void folder_remove(const char *path)
{
	nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}
