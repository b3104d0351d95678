#include "api/plan_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "check/proof.h"
#include "exec/algorithms.h"

struct loaded {
	struct loaded *next;
	char *path;
	struct rd_plan_file *file;
};

static struct loaded *files; /* in the order in which they were added; kept for good */

/* ---- One file ------------------------------------------------------------------------------- */

static bool same_problem(const struct rd_plan_file *a, const struct rd_plan_file *b)
{
	return a->problem.collective == b->problem.collective && a->problem.size == b->problem.size;
}

static int check_name(const struct rd_plan_file *file, const char *path)
{
	enum rd_collective collective = file->problem.collective;

	for (int i = 0; rd_algorithms[i]; i++) {
		const struct rd_plan_file *other = rd_plan_file_of(rd_algorithms[i], collective);

		if (strcmp(rd_algorithms[i]->name, file->name) != 0 ||
			(rd_algorithm_is_file(rd_algorithms[i]) &&
				!(other && same_problem(file, other))))
			continue;
		return rd_fail(RONDO_INVALID, "%s: there is an algorithm called %s already%s%s",
			path, file->name, other ? ", for " : "",
			other ? rd_collective_name(collective) : "");
	}
	return 0;
}

static int prove(const struct rd_plan_file *file, const char *path)
{
	int err = rd_prove(&file->algorithm, &file->problem);

	return err ? rd_fail(err, "%s: %s", path, rondo_last_error()) : 0;
}

static void log_file(const struct rd_plan_file *file, const char *path)
{
	rd_log(RD_INFO, RD_PICK,
		"Plan : %s brings %s: %s on %d rank%s, blocks of %lld to %lld bytes", path,
		file->name, rd_collective_name(file->problem.collective), file->problem.size,
		RD_PLURAL(file->problem.size), (long long)file->least_bytes,
		(long long)file->most_bytes);
}

static int use(struct loaded *loaded)
{
	int err = check_name(loaded->file, loaded->path);

	if (!err)
		err = prove(loaded->file, loaded->path);
	if (!err)
		err = rd_proof_add(&loaded->file->algorithm);
	if (!err)
		log_file(loaded->file, loaded->path);
	return err;
}

static struct loaded **find(const char *path)
{
	struct loaded **at = &files;

	while (*at && strcmp((*at)->path, path) != 0)
		at = &(*at)->next;
	return at;
}

int rd_plan_files_add(const char *path, const struct rd_plan_file **file)
{
	struct loaded **at = find(path), *loaded = *at;
	int err;

	if (loaded) {
		*file = loaded->file;
		return 0;
	}
	*file = NULL;
	loaded = calloc(1, sizeof(*loaded));
	if (loaded)
		loaded->path = strdup(path);
	err = loaded && loaded->path ? rd_plan_file_load(&loaded->file, path)
				     : rd_fail(RONDO_MEMORY, "no memory for %s", path);
	if (!err)
		err = use(loaded);
	if (!err) {
		*at = loaded;
		*file = loaded->file;
		return 0;
	}
	if (loaded) {
		rd_plan_file_destroy(loaded->file);
		free(loaded->path);
	}
	free(loaded);
	return err;
}

/* ---- Several -------------------------------------------------------------------------------- */

static int is_plan(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0;
}

/* The same in every locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int add_folder(const char *folder)
{
	struct dirent **entries;
	const struct rd_plan_file *file;
	int count = scandir(folder, &entries, is_plan, by_name), err = 0;

	if (count < 0)
		return rd_fail_errno("%s", folder);
	if (count == 0)
		err = rd_fail(RONDO_INVALID, "%s: the folder has no file *.json", folder);
	for (int i = 0; i < count; i++) {
		char path[RD_PATHS_MAX + sizeof(entries[i]->d_name)];

		snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
		if (!err)
			err = rd_plan_files_add(path, &file);
		free(entries[i]);
	}
	free(entries);
	return err;
}

static bool is_folder(const char *path)
{
	struct stat about;

	return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

int rd_plan_files_load(const char *list)
{
	char paths[RD_PATHS_MAX], *rest = NULL;
	const struct rd_plan_file *file;
	int err = 0;

	snprintf(paths, sizeof(paths), "%s", list);
	for (char *path = strtok_r(paths, ",", &rest); path && !err;
		path = strtok_r(NULL, ",", &rest)) {
		path += strspn(path, " \t");
		err = is_folder(path) ? add_folder(path) : rd_plan_files_add(path, &file);
	}
	return err;
}

const struct rd_plan_file *rd_plan_files_at(int number)
{
	const struct loaded *at = files;

	for (; at && number > 0; number--)
		at = at->next;
	return at ? at->file : NULL;
}
