#include "api/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/plan_files.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/hash.h"
#include "base/log.h"
#include "plan/plan.h"
#include "base/trial.h"

#define TRIAL_MS 5000
#define NAME_MAX_LENGTH 15
#define OTHER_VERSIONS 32 /* that are looked for, for a message with the plug-in's version */

/* ---- One plug-in ---------------------------------------------------------------------------- */

struct plugin {
	struct plugin *next;
	enum rd_plugin_kind kind;
	char path[RD_PATHS_MAX];
	bool used; /* false: it was tried and refused */
	uint64_t hash; /* of its file */
	void *handle;
	const struct rd_plugin_description *description;
	const struct rd_settings *settings; /* while it is loaded */
};

static const struct rd_plugin_description *find_description(
	void *handle, const struct rd_plugin_traits *kind, unsigned version)
{
	char symbol[64];

	snprintf(symbol, sizeof(symbol), "rondo_%s_v%u", kind->noun, version);
	return dlsym(handle, symbol);
}

/* The reason why the plug-in has no description of this version. */
static int explain_no_description(const struct plugin *plugin)
{
	const struct rd_plugin_traits *kind = &rd_plugin_traits[plugin->kind],
				      *other = &rd_plugin_traits[!plugin->kind];

	for (unsigned version = 0; version < OTHER_VERSIONS; version++)
		if (find_description(plugin->handle, kind, version))
			return rd_fail(RONDO_UNSUPPORTED,
				"it speaks version %u of the %s interface, this Rondo version %u: "
				"build it with this Rondo's %s",
				version, kind->noun, kind->abi, kind->header);
	if (find_description(plugin->handle, other, other->abi))
		return rd_fail(RONDO_INVALID, "it is a plug-in of %ss, not of %ss", other->noun,
			kind->noun);
	return rd_fail(RONDO_INVALID, "it has no symbol rondo_%s_v%u: end one of its files in %s()",
		kind->noun, kind->abi, kind->macro);
}

/* dlerror() begins with the path, which the caller's message has anyway. */
static int explain_not_opened(const char *path)
{
	const char *why = dlerror();
	size_t length = strlen(path);

	if (strncmp(why, path, length) == 0 && strncmp(why + length, ": ", 2) == 0)
		why += length + 2;
	if (!strchr(path, '/') && access(path, F_OK) == 0)
		return rd_fail(RONDO_SYSTEM,
			"%s (a name without / is looked for among the "
			"system's libraries; the file that is here is ./%s)",
			why, path);
	return rd_fail(RONDO_SYSTEM, "%s", why);
}

/* dlopen() would wait until someone opens a FIFO to write. */
static bool is_special(const char *path)
{
	struct stat about;

	return strchr(path, '/') && stat(path, &about) == 0 && !S_ISREG(about.st_mode);
}

static int open_plugin(struct plugin *plugin)
{
	const struct rd_plugin_traits *kind = &rd_plugin_traits[plugin->kind];

	if (is_special(plugin->path))
		return rd_fail(RONDO_INVALID, "it is no regular file");
	rd_trial_stage("what it runs on being loaded");
	plugin->handle = dlopen(plugin->path, RTLD_NOW | RTLD_LOCAL);
	if (!plugin->handle)
		return explain_not_opened(plugin->path);
	plugin->description = find_description(plugin->handle, kind, kind->abi);
	if (!plugin->description)
		return explain_no_description(plugin);
	if (plugin->description->abi != kind->abi || plugin->description->layout != kind->layout)
		return rd_fail(RONDO_UNSUPPORTED,
			"it was built with another %s of version %u: build it with this Rondo's",
			kind->header, kind->abi);
	return 0;
}

static bool is_name(const char *name)
{
	size_t length = name ? strlen(name) : 0;

	return length > 0 && length <= NAME_MAX_LENGTH &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

static int check_name(const struct plugin *plugin, int number)
{
	const struct rd_plugin_traits *kind = &rd_plugin_traits[plugin->kind];
	const void *const *brought = plugin->description->brought;
	const char *name = kind->name_of(brought[number]);
	bool taken = false;

	if (!is_name(name))
		return rd_fail(RONDO_INVALID,
			"the name of a%s %s has 1 to %d small letters, digits and _: not \"%.40s\"",
			plugin->kind == RD_PLUGIN_ALGORITHM ? "n" : "", kind->noun, NAME_MAX_LENGTH,
			name ? name : "");
	for (int i = 0; i < number; i++)
		taken |= strcmp(kind->name_of(brought[i]), name) == 0;
	if (taken || kind->taken(name))
		return rd_fail(RONDO_INVALID, "there is a%s %s called %s already",
			plugin->kind == RD_PLUGIN_ALGORITHM ? "n" : "", kind->noun, name);
	return 0;
}

static int check_brought(const struct plugin *plugin)
{
	const void *const *brought = plugin->description->brought;

	if (!brought[0])
		return rd_fail(RONDO_INVALID, "it brings nothing");
	for (int i = 0; brought[i]; i++) {
		int err = check_name(plugin, i);

		if (!err)
			err = rd_plugin_traits[plugin->kind].check(brought[i]);
		if (err)
			return err;
	}
	return 0;
}

static int probe(const struct plugin *plugin)
{
	const struct rd_transport *const *it;

	if (plugin->kind != RD_PLUGIN_TRANSPORT)
		return 0;
	for (it = (const void *)plugin->description->brought; *it; it++) {
		rd_trial_stage("probe() of %s", (*it)->name);

		int err = (*it)->probe ? (*it)->probe(plugin->settings) : 0;

		if (err)
			return rd_fail(err, "transport %s: %s", (*it)->name, rondo_last_error());
	}
	return 0;
}

/* Writes this rank's plan of one collective. The checker proves it later (check/proof.h). */
static void write_one(const struct rd_algorithm *algorithm, const struct rd_problem *problem)
{
	struct rd_plan *plan;

	rd_trial_stage("write[] of %s, %s on %d rank%s", algorithm->name,
		rd_collective_name(problem->collective), problem->size, RD_PLURAL(problem->size));
	if (algorithm->may_run && !algorithm->may_run(problem))
		return;
	if (!rd_plan_create(&plan, algorithm, problem))
		rd_plan_destroy(plan);
}

static void write_plans(const struct plugin *plugin)
{
	const struct rd_algorithm *const *it = (const void *)plugin->description->brought;
	struct rd_problem problem = { .rank = plugin->settings->rank,
		.size = plugin->settings->size };

	for (; plugin->kind == RD_PLUGIN_ALGORITHM && *it; it++)
		for (int c = 0; c < RD_COLLECTIVE_COUNT; c++) {
			problem.collective = (enum rd_collective)c;
			problem.target = c == RD_TRANSFER ? problem.size - 1 : 0;
			if ((*it)->write[c])
				write_one(*it, &problem);
		}
}

/* Runs all code of the plug-in that may crash or hang, in a process of its own. */
static int try_plugin(void *argument)
{
	struct plugin *plugin = argument;
	int err = open_plugin(plugin);

	if (err)
		return err;
	rd_trial_stage("the data that it brought");
	err = check_brought(plugin);
	if (err)
		return err;
	*plugin->description->calls = rd_plugin_traits[plugin->kind].calls;
	write_plans(plugin);
	return probe(plugin);
}

/* Hashes the file that the symbol came from: dlopen() may have searched for it. */
static uint64_t hash_file(const struct plugin *plugin)
{
	uint64_t hash = RD_HASH_INIT;
	char bytes[4096];
	Dl_info from;
	FILE *file;
	size_t got;

	if (!dladdr(plugin->description, &from))
		return hash;
	file = fopen(from.dli_fname, "re");
	if (!file)
		return hash;
	while ((got = fread(bytes, 1, sizeof(bytes), file)) > 0)
		hash = rd_hash(hash, bytes, got);
	fclose(file);
	return hash;
}

static int add_brought(struct plugin *plugin)
{
	const struct rd_plugin_traits *kind = &rd_plugin_traits[plugin->kind];
	const void *const *brought = plugin->description->brought;

	*plugin->description->calls = kind->calls;
	for (; *brought; brought++) {
		int err = kind->add(*brought);

		if (err)
			return err;
		rd_log(RD_INFO, plugin->kind == RD_PLUGIN_TRANSPORT ? RD_NET : RD_PICK,
			"Plugin : %s brings %s %s", plugin->path, kind->noun,
			kind->name_of(*brought));
	}
	plugin->hash = hash_file(plugin);
	plugin->used = true;
	return 0;
}

static int load(struct plugin *plugin)
{
	int err = rd_trial(try_plugin, plugin, TRIAL_MS);

	if (!err)
		err = open_plugin(plugin);
	return err ? err : add_brought(plugin);
}

/* ---- All of them ---------------------------------------------------------------------------- */

static struct plugin *plugins; /* in the order in which they were loaded; kept for good */
/* Guards plugins, and the tables. It is none of base/fork_lock.h: a trial forks below it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned forks; /* as in base/fork.h: a child takes no notice of its parent's threads */

/* Another thread of the parent may have held the lock, and been loading the last plug-in: the child
   loads it again. */
static void forget_parents(void)
{
	struct plugin **at = &plugins;

	if (!rd_is_inherited(forks))
		return;
	pthread_mutex_init(&lock, NULL);
	while (*at && !(*at)->settings)
		at = &(*at)->next;
	*at = NULL;
	forks = rd_process.forks;
}

/* Without memory for the handler of fork(), a child may find the lock held. */
static void lock_plugins(void)
{
	rd_forks_watch();
	forget_parents();
	pthread_mutex_lock(&lock);
}

static struct plugin **find_plugin(enum rd_plugin_kind kind, const char *path)
{
	struct plugin **at = &plugins;

	while (*at && ((*at)->kind != kind || strcmp((*at)->path, path) != 0))
		at = &(*at)->next;
	return at;
}

/* *fresh: this process has not tried it before. */
static int load_once(
	enum rd_plugin_kind kind, const char *path, const struct rd_settings *settings, bool *fresh)
{
	struct plugin **at = find_plugin(kind, path), *plugin;

	*fresh = !*at;
	if (!*fresh)
		return (*at)->used ? 0 : rd_fail(RONDO_INVALID, "it was refused before");
	plugin = calloc(1, sizeof(*plugin));
	if (!plugin)
		return rd_fail(RONDO_MEMORY, "no memory for a plug-in");
	plugin->kind = kind;
	snprintf(plugin->path, sizeof(plugin->path), "%s", path);
	plugin->settings = settings;
	*at = plugin;

	int err = load(plugin);

	plugin->settings = NULL;
	return err;
}

int rd_plugin_load(enum rd_plugin_kind kind, const char *path, const struct rd_settings *settings)
{
	bool fresh;

	lock_plugins();
	int err = load_once(kind, path, settings, &fresh);

	pthread_mutex_unlock(&lock);
	return err;
}

static void load_list(
	enum rd_plugin_kind kind, const char *list, const struct rd_settings *settings)
{
	char paths[RD_PATHS_MAX], *rest = NULL;
	bool fresh;

	snprintf(paths, sizeof(paths), "%s", list);
	for (char *path = strtok_r(paths, ",", &rest); path; path = strtok_r(NULL, ",", &rest))
		if (load_once(kind, path, settings, &fresh) && fresh)
			rd_log(RD_WARN, RD_BOOTSTRAP, "%s: %s is not used: %s",
				rd_plugin_traits[kind].variable, path, rondo_last_error());
}

/* "star,chain 0a1b2c3d": names, as many as fit, and a hash of the files. */
struct names {
	char *text; /* [RD_STRING_MAX] */
	size_t length;
	uint64_t hash;
};

#define NAMES_MAX (RD_STRING_MAX - 10) /* before the hash */

static void add_name(struct names *names, const char *name)
{
	snprintf(names->text + names->length, NAMES_MAX - names->length, "%s%s",
		names->length ? "," : "", name);
	names->length = strlen(names->text);
}

static void list_plugins(struct names *names)
{
	for (const struct plugin *plugin = plugins; plugin; plugin = plugin->next) {
		if (plugin->kind != RD_PLUGIN_ALGORITHM || !plugin->used)
			continue;
		names->hash = rd_hash(names->hash, &plugin->hash, sizeof(plugin->hash));
		for (const void *const *it = plugin->description->brought; *it; it++)
			add_name(names, rd_plugin_traits[RD_PLUGIN_ALGORITHM].name_of(*it));
	}
}

static void list_files(struct names *names)
{
	const struct rd_plan_file *file;

	for (int i = 0; (file = rd_plan_files_at(i)); i++) {
		names->hash = rd_hash(names->hash, &file->hash, sizeof(file->hash));
		add_name(names, file->name);
	}
}

static void list_algorithms(char text[RD_STRING_MAX])
{
	struct names names = { text, 0, RD_HASH_INIT };

	text[0] = '\0';
	list_plugins(&names);
	list_files(&names);
	if (names.length)
		snprintf(text + names.length, 10, " %08x",
			(unsigned)(names.hash ^ names.hash >> 32));
}

int rd_plugins_load(struct rd_settings *settings)
{
	int err;

	if (!settings->transport_plugin[0] && !settings->algo_plugin[0])
		rd_log(RD_INFO, RD_BOOTSTRAP, "Plugin : none (%s and %s are not set)",
			rd_plugin_traits[RD_PLUGIN_TRANSPORT].variable,
			rd_plugin_traits[RD_PLUGIN_ALGORITHM].variable);
	lock_plugins();
	load_list(RD_PLUGIN_TRANSPORT, settings->transport_plugin, settings);
	load_list(RD_PLUGIN_ALGORITHM, settings->algo_plugin, settings);
	err = rd_plan_files_load(settings->plan_files);
	list_algorithms(settings->plugins);
	pthread_mutex_unlock(&lock);
	if (!err || err == RONDO_MEMORY)
		return err;
	return rd_fail(RONDO_SETTING, "RONDO_PLAN: %s", rondo_last_error());
}

static const void *brought_by(enum rd_plugin_kind kind, const char *path)
{
	lock_plugins();
	const struct plugin *plugin = *find_plugin(kind, path);

	pthread_mutex_unlock(&lock);
	return plugin && plugin->used ? plugin->description->brought : NULL;
}

const struct rd_transport *const *rd_plugin_transports(const char *path)
{
	return brought_by(RD_PLUGIN_TRANSPORT, path);
}

const struct rd_algorithm *const *rd_plugin_algorithms(const char *path)
{
	return brought_by(RD_PLUGIN_ALGORITHM, path);
}
