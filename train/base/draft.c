#include "train/base/draft.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/base/fail.h"

static int fail_write(const char *path)
{
	return fail("%s: cannot write: %s", path, strerror(errno));
}

int draft_check(const char *path)
{
	struct draft draft;
	int err = draft_open(&draft, path);
	if (!err)
		draft_discard(&draft);
	return err;
}

int draft_open(struct draft *draft, const char *path)
{
	struct stat status;
	draft->path = path;
	/* The rename at the end would replace a device such as /dev/null. */
	if (!stat(path, &status) && !S_ISREG(status.st_mode))
		return fail("%s: cannot write: is not a regular file", path);
	int length = snprintf(draft->draft, sizeof(draft->draft), "%s.draft", path);
	if (length >= (int)sizeof(draft->draft))
		return fail("%s: the name is too long", path);
	draft->file = fopen(draft->draft, "we");
	return draft->file ? 0 : fail_write(path);
}

/* A rename is durable once its directory is synced. */
static void sync_directory(const char *path)
{
	char copy[PATH_MAX];
	snprintf(copy, sizeof(copy), "%s", path);
	int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	fsync(fd);
	close(fd);
}

int draft_finish(struct draft *draft, const char *earlier)
{
	errno = 0;
	bool written = !fflush(draft->file) && !fsync(fileno(draft->file)) && !ferror(draft->file);
	int reason = errno;
	written = !fclose(draft->file) && written;
	errno = reason ? reason : errno;
	if (written && earlier && rename(draft->path, earlier) && errno != ENOENT)
		written = false;
	if (written && !rename(draft->draft, draft->path)) {
		sync_directory(draft->path);
		return 0;
	}
	int err = fail_write(draft->path);
	unlink(draft->draft);
	return err;
}

void draft_discard(struct draft *draft)
{
	fclose(draft->file);
	unlink(draft->draft);
}
