#include "train/data/sets.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train/data/data.h"
#include "train/data/draw.h"
#include "train/base/fail.h"
#include "train/base/hash.h"

/* The same set for all: --seed changes the training only. */
#define DRAW_SEED 28

extern char **environ;

static const struct set sets[] = {
	/* https://github.com/zalandoresearch/fashion-mnist, "Get the Data" */
	{ "fashion", "FashionMNIST", "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
		{ { "train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d" },
			{ "train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe" },
			{ "t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79" },
			{ "t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310" } } },
	/* http://yann.lecun.com/exdb/mnist/, and the mirror that torchvision uses */
	{ "digits", "MNIST", "https://ossci-datasets.s3.amazonaws.com/mnist",
		{ { "train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873" },
			{ "train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432" },
			{ "t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3" },
			{ "t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c" } } },
	{ "drawn", "drawn", NULL, { { NULL, NULL } } },
};
#define SET_COUNT ((int)(sizeof(sets) / sizeof(sets[0])))

const struct set *set_named(const char *name)
{
	for (int i = 0; i < SET_COUNT; i++) {
		if (!strcmp(sets[i].name, name))
			return &sets[i];
	}
	return NULL;
}

int set_find(char *dir, size_t dir_size, const char *root, const struct set *set)
{
	static const char *const endings[] = { "", "/raw" };
	bool found;
	snprintf(dir, dir_size, "%s", root);
	int err = data_find(&found, dir);
	for (int i = 0; i < SET_COUNT; i++) {
		for (int e = 0; e < 2; e++) {
			if (err || found)
				return err;
			if (set && set != &sets[i])
				continue;
			snprintf(dir, dir_size, "%s/%s%s", root, sets[i].title, endings[e]);
			err = data_find(&found, dir);
		}
	}
	if (!found)
		dir[0] = '\0';
	return err;
}

/* Whether it is hidden, or a set's directory, or a draft of one (draw.h). */
static bool is_of_sets(const char *name)
{
	for (int i = 0; i < SET_COUNT; i++) {
		if (!strcmp(name, sets[i].title))
			return true;
	}
	return name[0] == '.' || !strncmp(name, "drawn.", strlen("drawn."));
}

int set_may_draw(const char *root)
{
	DIR *directory = opendir(root);
	struct dirent *entry;
	int err = 0;
	if (!directory)
		return errno == ENOENT ? 0 : fail("%s: %s", root, strerror(errno));
	while (!err && (entry = readdir(directory))) {
		if (!is_of_sets(entry->d_name))
			err = fail(
				"%s: holds %s, but none of the 4 files of a data set, such as %s "
				"(--dataset drawn draws digits there)",
				root, entry->d_name, data_files[0]);
	}
	closedir(directory);
	return err;
}

static int make_directory(const char *path)
{
	if (mkdir(path, 0777) && errno != EEXIST)
		return fail("%s: %s", path, strerror(errno));
	return 0;
}

int set_draw(const char *root)
{
	char dir[PATH_MAX];
	int err = make_directory(root);
	if (err)
		return err;
	if (snprintf(dir, sizeof(dir), "%s/drawn", root) >= PATH_MAX)
		return fail("%s: the name is too long", root);
	return draw_set(dir, SET_DRAWN_TRAIN, SET_DRAWN_TEST, DRAW_SEED);
}

/* ---- Fetching ---- */

/* Runs a program and waits for it; 0 on success. ENOENT: it is not installed. */
static int run(char *const *arguments)
{
	pid_t pid;
	int status, err = posix_spawnp(&pid, arguments[0], NULL, NULL, arguments, environ);
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

static int fetch_file(const struct set_file *file, const char *dir, const char *url_base)
{
	char path[PATH_MAX], draft[PATH_MAX], url[PATH_MAX];
	if (snprintf(path, sizeof(path), "%s/%s", dir, file->name) >= PATH_MAX ||
		snprintf(draft, sizeof(draft), "%s/%s.draft", dir, file->name) >= PATH_MAX ||
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

int set_fetch(const struct set *set, const char *root, const char *mirror)
{
	char dir[PATH_MAX];
	int err = make_directory(root);
	snprintf(dir, sizeof(dir), "%s/%s", root, set->title);
	if (!err)
		err = make_directory(dir);
	snprintf(dir, sizeof(dir), "%s/%s/raw", root, set->title);
	if (!err)
		err = make_directory(dir);
	for (int i = 0; !err && i < 4; i++)
		err = fetch_file(&set->files[i], dir, mirror ? mirror : set->url);
	return err;
}
