#include "train/source.h"

#include <stdio.h>

#include "train/base/fail.h"
#include "train/data/sets.h"

static int draw(const struct set *set, const char *root, struct report *report)
{
	const struct set *fetched = set_fetched(set->kind);
	char remedy[64] = "--data FILE takes any text";
	if (fetched)
		snprintf(remedy, sizeof(remedy), "--fetch gets %s", fetched->title);
	report_line(report, "No data set in %s: drawing %zu + %zu %s (%s)", root, set->train_count,
		set->test_count, set->samples, remedy);
	return set_draw(set, root, set->train_count, set->test_count);
}

/* Finds the set, or draws it where that is allowed. */
static int find(struct data_source *source, const struct options *options, struct report *report,
	const struct data_kind *kind)
{
	const struct set *set = options->set, *drawn = set_drawn(set ? set->kind : kind);
	int err = set_find(source, options->data, set, kind);
	if (err || source->path[0])
		return err;
	if (set && set != drawn)
		return fail("%s: holds no %s (--fetch fetches it, --dataset %s does without)",
			options->data, set->title, drawn->name);
	if (!set)
		err = set_may_draw(drawn, options->data);
	if (!err)
		err = draw(drawn, options->data, report);
	if (!err)
		err = set_find(source, options->data, drawn, kind);
	if (!err && !source->path[0])
		err = fail("%s: the drawn set is gone again", options->data);
	return err;
}

int source_find(struct data_source *source, const struct options *options,
	const struct train_world *world, struct report *report, const struct data_kind *kind,
	size_t window)
{
	int err = 0;
	source->window = window;
	source->test_path = options->test_data;
	/* Rank 0 first: one drawing is enough. Ranks of other hosts then find it, or draw their
	   own. */
	if (!world->rank)
		err = find(source, options, report, kind);
	if (!err)
		err = world_barrier(world);
	if (!err && world->rank)
		err = find(source, options, report, kind);
	if (!err && source->test_path && source->kind != &data_text)
		err = fail("--test-data %s: is for a text, and %s is none", source->test_path,
			source->path);
	return err;
}
