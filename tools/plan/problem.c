#include "problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/plugin.h"
#include "base/error.h"
#include "base/nearest.h"
#include "exec/algorithms.h"
#include "files.h"
#include "tuner/eligible.h"

#define COSTS_MAX (64 << 10)

/* ---- Plug-ins ------------------------------------------------------------------------------- */

int plan_plugins_load(const char *const *plugins)
{
	struct rondo_config alone = RONDO_CONFIG_INIT;
	struct rd_settings settings;
	int err = 0;

	if (!plugins[0])
		return 0;
	alone.rank = 0;
	alone.size = 1;
	err = rd_settings_read(&settings, &alone);
	for (int i = 0; plugins[i] && !err; i++) {
		err = rd_plugin_load(RD_PLUGIN_ALGORITHM, plugins[i], &settings);
		if (err)
			rd_fail(err, "--plugin %s: %s", plugins[i], rondo_last_error());
	}
	return err;
}

int plan_algorithm_called(const struct rd_algorithm **algorithm, const char *name)
{
	struct rd_nearest nearest = RD_NEAREST(name);
	char meant[RD_NEAREST_TEXT];

	*algorithm = rd_algorithm_called(name);
	if (*algorithm)
		return 0;
	for (int i = 0; rd_algorithms[i]; i++)
		rd_nearest_try(&nearest, rd_algorithms[i]->name);
	return rd_fail(RONDO_INVALID, "there is no algorithm '%s'%s", name,
		rd_nearest_text(&nearest, meant));
}

int plan_algorithm_serves(const struct rd_algorithm *algorithm, enum rd_collective collective)
{
	return algorithm->write[collective]
		       ? 0
		       : rd_fail(RONDO_INVALID, "%s has no %s", algorithm->name,
				 rd_collective_name(collective));
}

int plan_algorithm_find(
	const struct rd_algorithm **algorithm, const struct plan_problem *made, const char *name)
{
	const char *collective = rd_collective_name(made->problem.collective);
	int err = plan_algorithm_called(algorithm, name);

	if (!err)
		err = plan_algorithm_serves(*algorithm, made->problem.collective);
	if (err)
		return err;

	int can = rd_algorithm_can(*algorithm, &made->problem);

	if (can < 0)
		return can;
	return can ? 0
		   : rd_fail(RONDO_INVALID, "%s declines %s on %d rank%s of %d host%s", name,
			     collective, made->problem.size, RD_PLURAL(made->problem.size),
			     made->layout.group_count, RD_PLURAL(made->layout.group_count));
}

/* ---- Costs ---------------------------------------------------------------------------------- */

/* The lines of the first entry: those behind its key, in brackets, if it has one. */
static char *first_entry(char *text, int *line)
{
	char *end;

	while (*text == '\n' || *text == '[') {
		char *next = strchr(text, '\n');
		bool is_key = *text == '[';

		if (!next)
			return text;
		text = next + 1;
		(*line)++;
		if (is_key)
			break;
	}
	end = strstr(text, "\n[");
	if (end)
		end[1] = 0;
	return text;
}

static int parse_costs(struct rd_costs *costs, const char *path, char *text)
{
	char wrong[200];
	int before = 0, line;
	char *entry = first_entry(text, &before);

	if (rd_costs_read(costs, entry, &line, wrong, sizeof(wrong)))
		return 0;
	if (line > 0)
		return rd_fail(RONDO_INVALID, "%s:%d: %s", path, before + line, wrong);
	return rd_fail(RONDO_INVALID, "%s: %s", path, wrong);
}

static int read_costs(struct rd_costs *costs, const char *path)
{
	char *text;
	size_t size;
	int err = file_read(path, COSTS_MAX, &text, &size);

	if (!err)
		err = memchr(text, 0, size)
			      ? rd_fail(RONDO_INVALID, "%s: this is no file of costs", path)
			      : parse_costs(costs, path, text);
	free(text);
	return err;
}

static int make_costs(struct rd_costs *costs, const struct plan_options *options)
{
	int err = 0;

	rd_costs_default(costs);
	costs->cores = (uint32_t)(options->ranks + options->hosts - 1) / (uint32_t)options->hosts;
	if (options->costs)
		err = read_costs(costs, options->costs);
	if (options->cores > 0)
		costs->cores = (uint32_t)options->cores;
	return err;
}

/* ---- The problem ---------------------------------------------------------------------------- */

static void make_layout(struct plan_problem *made, const struct plan_options *options)
{
	made->layout = (struct rd_layout){ .size = options->ranks,
		.group_count = options->hosts,
		.order = made->order,
		.group = made->group };
	for (int rank = 0; rank < options->ranks; rank++) {
		made->order[rank] = rank;
		made->group[rank] = rank * options->hosts / options->ranks;
	}
}

void plan_problem_lay(struct plan_problem *made, const struct plan_options *options)
{
	make_layout(made, options);
	made->problem = (struct rd_problem){
		.collective = options->collective,
		.size = options->ranks,
		.layout = options->hosts > 1 ? &made->layout : NULL,
	};
	if (rd_collective_has_root(options->collective))
		made->problem.root = options->root;
	if (options->collective == RD_TRANSFER)
		made->problem.target = (options->root + 1) % options->ranks;
}

int plan_problem_make(struct plan_problem *made, const struct plan_options *options)
{
	int err = plan_plugins_load(options->plugins);

	if (err)
		return err;
	plan_problem_lay(made, options);
	return make_costs(&made->costs, options);
}

struct rd_cut plan_cut(
	const struct plan_options *options, const struct rd_algorithm *algorithm, size_t size)
{
	return (struct rd_cut){
		.block_size = options->collective == RD_BARRIER ? 0 : size,
		.type = RD_WHOLE,
		.piece_size = algorithm->direct_access && !options->source ? SIZE_MAX
									   : options->piece_size,
		.channels = 1,
	};
}
