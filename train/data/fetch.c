#include "train/data/fetch.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train/base/fail.h"
#include "train/base/hash.h"
#include "train/data/folder.h"

extern char **environ;

/* Runs a program and waits for it; 0 on success. ENOENT: it is not installed. */
static int run(char *const *arguments)
{
	pid_t pid;
	int status, err;

	/* With SIGCHLD ignored, the kernel would discard the status. */
	signal(SIGCHLD, SIG_DFL);
	err = posix_spawnp(&pid, arguments[0], NULL, NULL, arguments, environ);
	if (err)
		return err;
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return errno;
	}
	return status ? EIO : 0;
}

static int download(const char *url, const char *path)
{
	char *curl[] = { "curl", "--fail", "--silent", "--show-error", "--location",
		"--connect-timeout", "20", "--max-time", "600", "--output", (char *)path,
		(char *)url, NULL };
	char *wget[] = { "wget", "--no-verbose", "--timeout=20", "--tries=2", "-O", (char *)path,
		(char *)url, NULL };
	int err = run(curl);
	if (err == ENOENT)
		err = run(wget);
	if (err == ENOENT)
		return fail("neither curl nor wget is installed: one of them is needed to fetch");
	return err ? fail("%s: cannot be fetched", url) : 0;
}

static int check_hash(const char *path, const char *url, const char *md5)
{
	char found[33];
	int err = hash_md5_file(found, path);
	if (!err && strcmp(found, md5))
		err = fail("%s: is not the published file: its MD5 is %s, not %s", url, found, md5);
	return err;
}

/* Fetches url_base/NAME to dir/NAME. */
static int fetch_file(const struct set_download *file, const char *dir, const char *url_base)
{
	char path[PATH_MAX], draft[PATH_MAX], url[PATH_MAX];
	if (snprintf(path, sizeof(path), "%s/%s", dir, file->name) >= PATH_MAX ||
		snprintf(draft, sizeof(draft), "%s/%s.draft.%d", dir, file->name, (int)getpid()) >=
			PATH_MAX ||
		snprintf(url, sizeof(url), "%s/%s", url_base, file->name) >= PATH_MAX)
		return fail("%s: the name is too long", dir);
	if (!access(path, F_OK) && !check_hash(path, path, file->md5))
		return 0;
	int err = download(url, draft);
	if (!err)
		err = check_hash(draft, url, file->md5);
	if (!err && rename(draft, path))
		err = fail("%s: %s", path, strerror(errno));
	if (err)
		unlink(draft);
	return err;
}

static int fetch_files(const struct set *set, const char *root, const char *url_base)
{
	char dir[PATH_MAX];
	snprintf(dir, sizeof(dir), "%s/%s", root, set->title);
	int err = folder_make(dir);
	snprintf(dir, sizeof(dir), "%s/%s/raw", root, set->title);
	if (!err)
		err = folder_make(dir);
	for (int i = 0; !err && i < SET_DOWNLOADS_MAX && set->downloads[i].name; i++)
		err = fetch_file(&set->downloads[i], dir, url_base);
	return err;
}

static int unpack(const char *dir, const char *name)
{
	char path[PATH_MAX];
	char *tar[] = { "tar", "-xzf", path, "-C", (char *)dir, "--no-same-owner", NULL };
	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return fail("%s: the name is too long", dir);
	int err = run(tar);
	if (err == ENOENT)
		return fail("tar is not installed: it is needed to unpack %s", name);
	return err ? fail("%s: tar cannot unpack it", path) : 0;
}

/* The archive's folder has the set's title. */
static int fetch_archive(const struct set *set, const char *root, const char *url_base)
{
	char draft[PATH_MAX], whole[PATH_MAX];
	int err = folder_begin(draft, root, set->title);
	if (err)
		return err;
	err = fetch_file(&set->downloads[0], draft, url_base);
	if (!err)
		err = unpack(draft, set->downloads[0].name);
	if (!err && snprintf(whole, sizeof(whole), "%s/%s", draft, set->title) >= PATH_MAX)
		err = fail("%s: the name is too long", draft);
	if (!err)
		err = folder_publish(whole, root, set->title, set->kind);
	folder_remove(draft);
	return err;
}

int fetch_set(const struct set *set, const char *root, const char *mirror)
{
	const char *url_base = mirror ? mirror : set->url;
	const char *ending = strstr(set->downloads[0].name, ".tar.gz");
	char dir[PATH_MAX];
	bool found = false;
	if (snprintf(dir, sizeof(dir), "%s/%s", root, set->title) >= PATH_MAX)
		return fail("%s: the name is too long", root);
	int err = folder_make(root);
	if (!err && !ending)
		return fetch_files(set, root, url_base);
	if (!err)
		err = data_find(&found, dir, set->kind);
	return err || found ? err : fetch_archive(set, root, url_base);
}
