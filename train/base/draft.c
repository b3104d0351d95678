#include "train/base/draft.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/base/fail.h"

#define LINKS_MAX 40 /* as the kernel follows */
#define NAMES_MAX 100 /* runs that write one file at once; without locks, killed ones too */

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

/* ---- Names ---- */

/* From the name of a link to its content; a relative one begins at the folder of the link. */
static int follow(char path[PATH_MAX], const char *link)
{
	char folder[PATH_MAX], whole[PATH_MAX];
	memcpy(folder, path, PATH_MAX);
	const char *dir = *link == '/' ? "" : dirname(folder);
	int length = snprintf(whole, PATH_MAX, "%s%s%s", dir, *dir ? "/" : "", link);
	if (length >= PATH_MAX)
		return fail("%s: the name of the file behind it is too long", path);
	memcpy(path, whole, PATH_MAX);
	return 0;
}

int draft_target(char target[PATH_MAX], const char *path)
{
	char link[PATH_MAX];
	ssize_t length;
	if (snprintf(target, PATH_MAX, "%s", path) >= PATH_MAX)
		return fail("%s: the name is too long", path);
	for (int links = 0; (length = readlink(target, link, sizeof(link) - 1)) >= 0; links++) {
		if (links == LINKS_MAX) {
			errno = ELOOP;
			return fail_write(path);
		}
		link[length] = '\0';
		int err = follow(target, link);
		if (err)
			return err;
	}
	return 0;
}

/* Another writer may have given the file its final name since it was opened. */
static bool is_at(int fd, const char *name)
{
	struct stat mine, there;
	return !fstat(fd, &mine) && !lstat(name, &there) && S_ISREG(there.st_mode) &&
	       mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

/*
 * Opens and locks a draft that no other run writes; -1 and errno. One that is new is used without a
 * lock, too: not every file system has them.
 */
static int take(const char *name)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	bool fresh = fd >= 0;
	if (!fresh && errno == EEXIST)
		fd = open(name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -1;
	bool ours = !flock(fd, LOCK_EX | LOCK_NB) || (fresh && errno != EWOULDBLOCK);
	if (ours && is_at(fd, name) && !ftruncate(fd, 0))
		return fd;
	close(fd);
	errno = EEXIST;
	return -1;
}

static int create(struct draft *draft)
{
	int fd = -1;
	for (int i = 0; fd < 0 && i < NAMES_MAX; i++) {
		int length = snprintf(draft->draft, PATH_MAX, "%s.draft.%d", draft->target, i);
		if (length >= PATH_MAX)
			return fail("%s: the name is too long", draft->path);
		fd = take(draft->draft);
	}
	if (fd < 0 && errno == EEXIST)
		return fail("%s: cannot write: all drafts up to %s are taken: remove those of "
			    "killed runs",
			draft->path, draft->draft);
	if (fd < 0)
		return fail_write(draft->path);
	draft->file = fdopen(fd, "w");
	if (draft->file)
		return 0;
	int err = fail_write(draft->path);
	unlink(draft->draft);
	close(fd);
	return err;
}

int draft_open(struct draft *draft, const char *path)
{
	struct stat status;
	draft->path = path;
	/* The rename at the end would replace a device such as /dev/null. */
	if (!stat(path, &status) && !S_ISREG(status.st_mode))
		return fail("%s: cannot write: is not a regular file", path);
	int err = draft_target(draft->target, path);
	return err ? err : create(draft);
}

/* ---- The end ---- */

/* Some file systems have no fsync(): they say so by these. */
static bool sync_file(FILE *file)
{
	return !fsync(fileno(file)) || errno == EINVAL || errno == ENOSYS;
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
	bool written = !fflush(draft->file) && sync_file(draft->file) && !ferror(draft->file);
	/* Keeps the lock: until the rename nobody else may take the draft. */
	int reason = written ? 0 : errno, lock = fcntl(fileno(draft->file), F_DUPFD_CLOEXEC, 0);
	written = !fclose(draft->file) && lock >= 0 && written;
	errno = reason ? reason : errno;
	if (written && earlier && rename(draft->target, earlier) && errno != ENOENT)
		written = false;
	written = written && !rename(draft->draft, draft->target);
	int err = written ? 0 : fail_write(draft->path);
	if (written)
		sync_directory(draft->target);
	else
		unlink(draft->draft);
	if (lock >= 0)
		close(lock);
	return err;
}

void draft_discard(struct draft *draft)
{
	unlink(draft->draft);
	fclose(draft->file);
}
