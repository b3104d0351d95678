#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/nearest.h"
#include "plan/plan_file.h"

/* A proof of so many is quick, whatever the steps. */
#define FEW_CHUNKS 1024
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789_"

struct reading {
	const char *name;
	struct rd_json json;
	struct rd_plan_file *file;
	int rank, step; /* where it is; -1: not in a rank, not in a step */
};

static int refuse(struct reading *reading, const struct rd_json_value *value, const char *format,
	...) __attribute__((format(printf, 3, 4)));

static int refuse(
	struct reading *reading, const struct rd_json_value *value, const char *format, ...)
{
	char what[200], where[64] = "";
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (reading->step >= 0)
		snprintf(where, sizeof(where), "rank %d, step %d: ", reading->rank, reading->step);
	else if (reading->rank >= 0)
		snprintf(where, sizeof(where), "rank %d: ", reading->rank);
	return rd_fail(RONDO_INVALID, "%s:%d: %s%s", reading->name, value->line, where, what);
}

/* ---- Members -------------------------------------------------------------------------------- */

static const char *const members[] = { "$schema", "format", "name", "collective", "ranks", "root",
	"target", "parts", "direct_access", "least_bytes", "most_bytes", "plans", NULL };

static int check_member(struct reading *reading, const struct rd_json_value *document,
	const struct rd_json_value *key)
{
	struct rd_nearest nearest = RD_NEAREST(key->text);
	char meant[RD_NEAREST_TEXT];

	for (int i = 0; members[i]; i++) {
		rd_nearest_try(&nearest, members[i]);
		if (strcmp(members[i], key->text) != 0)
			continue;
		if (rd_json_member(&reading->json, document, key->text) != key + 1)
			return refuse(reading, key, "\"%s\" is here twice", key->text);
		return 0;
	}
	return refuse(reading, key, "a plan file has no \"%.40s\"%s", key->text,
		rd_nearest_text(&nearest, meant));
}

static int check_members(struct reading *reading, const struct rd_json_value *document)
{
	const struct rd_json_value *key = document + 1;
	int err = 0;

	if (document->kind != RD_JSON_OBJECT)
		return refuse(reading, document, "a plan file is an object, not %s",
			rd_json_kind_text(document->kind));
	for (int i = 0; i < document->count && !err; i++) {
		err = check_member(reading, document, key);
		key = &reading->json.values[key[1].next];
	}
	return err;
}

/* A whole number; `standard` where there is none, which is then no fault from `least` on. */
static int read_whole(struct reading *reading, const char *name, int64_t least, int64_t most,
	int64_t standard, int64_t *number)
{
	const struct rd_json_value *value =
		rd_json_member(&reading->json, reading->json.values, name);

	*number = standard;
	if (value && rd_json_whole(value, least, most, number))
		return 0;
	if (!value && standard >= least)
		return 0;
	return refuse(reading, value ? value : reading->json.values,
		"\"%s\" is a whole number from %lld to %lld%s", name, (long long)least,
		(long long)most, value ? "" : ", and is missing");
}

static int read_int(
	struct reading *reading, const char *name, int least, int most, int standard, int *number)
{
	int64_t wide;
	int err = read_whole(reading, name, least, most, standard, &wide);

	*number = err ? 0 : (int)wide;
	return err;
}

/* NULL, with a reason, where there is no text of this name. */
static const struct rd_json_value *read_text(struct reading *reading, const char *name)
{
	const struct rd_json_value *value =
		rd_json_member(&reading->json, reading->json.values, name);

	if (value && value->kind == RD_JSON_STRING)
		return value;
	refuse(reading, value ? value : reading->json.values, "\"%s\" is a string%s", name,
		value ? "" : ", and is missing");
	return NULL;
}

static int read_format(struct reading *reading)
{
	const struct rd_json_value *value = read_text(reading, "format");

	if (!value)
		return RONDO_INVALID;
	if (strcmp(value->text, RD_FILE_FORMAT) != 0)
		return refuse(reading, value, "\"format\" is \"" RD_FILE_FORMAT "\", not \"%.40s\"",
			value->text);
	return 0;
}

static int read_name(struct reading *reading)
{
	const struct rd_json_value *value = read_text(reading, "name");
	size_t length = value ? strlen(value->text) : 0;

	if (!value)
		return RONDO_INVALID;
	if (length < 1 || length >= RD_FILE_NAME_SIZE ||
		strspn(value->text, NAME_LETTERS) != length)
		return refuse(reading, value,
			"\"name\" has 1 to %d small letters, digits and _, unlike \"%.40s\"",
			RD_FILE_NAME_SIZE - 1, value->text);
	memcpy(reading->file->name, value->text, length);
	return 0;
}

static int read_collective(struct reading *reading)
{
	const struct rd_json_value *value = read_text(reading, "collective");
	struct rd_nearest nearest = RD_NEAREST(value ? value->text : "");
	char meant[RD_NEAREST_TEXT];

	if (!value)
		return RONDO_INVALID;
	for (int i = 0; i < RD_COLLECTIVE_COUNT; i++) {
		const char *name = rd_collective_name((enum rd_collective)i);

		reading->file->problem.collective = (enum rd_collective)i;
		if (strcmp(value->text, name) == 0)
			return 0;
		rd_nearest_try(&nearest, name);
	}
	return refuse(reading, value, "\"%.40s\" is no collective%s", value->text,
		rd_nearest_text(&nearest, meant));
}

static int read_problem(struct reading *reading)
{
	struct rd_problem *problem = &reading->file->problem;
	int err = read_collective(reading), most_root, most_target, most_parts;

	if (!err)
		err = read_int(reading, "ranks", 1, RD_FILE_RANKS_MAX, 0, &problem->size);
	if (err)
		return err;
	most_root = rd_collective_has_root(problem->collective) ? problem->size - 1 : 0;
	most_target = problem->collective == RD_TRANSFER ? problem->size - 1 : 0;
	most_parts = RD_FILE_CHUNKS_MAX / (rd_blocks(problem) * problem->size);
	if (most_parts < 1)
		return refuse(reading, reading->json.values, "%s of %d ranks has too many blocks",
			rd_collective_name(problem->collective), problem->size);
	err = read_int(reading, "root", 0, most_root, 0, &problem->root);
	if (!err)
		err = read_int(reading, "target", 0, most_target, 0, &problem->target);
	if (!err)
		err = read_int(reading, "parts", 1, most_parts, 1, &reading->file->parts);
	return err;
}

static int read_range(struct reading *reading)
{
	struct rd_plan_file *file = reading->file;
	int err = read_whole(reading, "least_bytes", 0, INT64_MAX, 0, &file->least_bytes);

	return err ? err
		   : read_whole(reading, "most_bytes", file->least_bytes, INT64_MAX, INT64_MAX,
			     &file->most_bytes);
}

static int read_direct_access(struct reading *reading, bool *direct_access)
{
	const struct rd_json_value *value =
		rd_json_member(&reading->json, reading->json.values, "direct_access");

	*direct_access = value && value->kind == RD_JSON_TRUE;
	if (value && value->kind != RD_JSON_TRUE && value->kind != RD_JSON_FALSE)
		return refuse(reading, value, "\"direct_access\" is true or false");
	return 0;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static int find_call(
	struct reading *reading, const struct rd_json_value *value, enum rd_file_call *call)
{
	struct rd_nearest nearest = RD_NEAREST(value->text);
	char meant[RD_NEAREST_TEXT];

	for (int i = 0; i < RD_FILE_CALL_COUNT; i++) {
		const char *name = rd_file_call_name((enum rd_file_call)i);

		*call = (enum rd_file_call)i;
		if (strcmp(value->text, name) == 0)
			return 0;
		rd_nearest_try(&nearest, name);
	}
	return refuse(reading, value, "there is no step \"%.40s\"%s", value->text,
		rd_nearest_text(&nearest, meant));
}

static int read_number(struct reading *reading, const struct rd_json_value *value,
	const struct rd_file_step *step, char kind, int *number)
{
	const struct rd_plan_file *file = reading->file;
	bool is_chunk = strchr("cC", kind);
	int most = (is_chunk ? rd_blocks(&file->problem) * file->parts : file->problem.size) - 1;
	int least = kind == 'A' ? -1 : 0;
	int64_t wide;

	if (!rd_json_whole(value, least, most, &wide))
		return refuse(reading, value, "%s wants a %s from %d to %d",
			rd_file_call_name(step->call), is_chunk ? "chunk" : "rank", least, most);
	*number = (int)wide;
	if (strchr("pP", kind) && *number == reading->rank)
		return refuse(reading, value, "%s wants another rank than its own",
			rd_file_call_name(step->call));
	return 0;
}

static int read_step(struct reading *reading, const struct rd_json_value *value, bool direct_access)
{
	struct rd_file_step step = { 0 };
	const char *kinds;
	int err;

	if (value->kind != RD_JSON_ARRAY || value->count < 1 || value[1].kind != RD_JSON_STRING)
		return refuse(reading, value, "a step is an array that begins with a string");
	err = find_call(reading, value + 1, &step.call);
	if (err)
		return err;
	kinds = rd_file_call_numbers(step.call);
	if ((size_t)value->count != 1 + strlen(kinds))
		return refuse(reading, value, "%s wants %zu numbers, not %d",
			rd_file_call_name(step.call), strlen(kinds), value->count - 1);
	if (strchr("PACR", kinds[0]) && !direct_access)
		return refuse(reading, value, "%s wants \"direct_access\": true",
			rd_file_call_name(step.call));
	/* A value that is no number is refused, so each takes one place. */
	for (int i = 0; kinds[i] && !err; i++)
		err = read_number(reading, value + 2 + i, &step, kinds[i], &step.numbers[i]);
	if (!err && rd_plan_file_add(reading->file, step))
		err = refuse(reading, value, "%s", rondo_last_error());
	return err;
}

static int read_rank(struct reading *reading, const struct rd_json_value *steps, bool direct_access)
{
	const struct rd_json_value *step = steps + 1;
	int err = 0;

	if (steps->kind != RD_JSON_ARRAY)
		return refuse(reading, steps, "its plan is an array of steps, not %s",
			rd_json_kind_text(steps->kind));
	for (int i = 0; i < steps->count && !err; i++) {
		reading->step = i;
		err = read_step(reading, step, direct_access);
		step = &reading->json.values[step->next];
	}
	reading->step = -1;
	rd_plan_file_end_rank(reading->file);
	return err;
}

static int read_plans(struct reading *reading, bool direct_access)
{
	const struct rd_json_value *document = reading->json.values;
	const struct rd_json_value *plans = rd_json_member(&reading->json, document, "plans");
	int ranks = reading->file->problem.size, err = 0;

	if (!plans || plans->kind != RD_JSON_ARRAY || plans->count != ranks)
		return refuse(reading, plans ? plans : document,
			"\"plans\" is an array with a plan for each of the %d ranks", ranks);
	const struct rd_json_value *plan = plans + 1;

	for (reading->rank = 0; reading->rank < ranks && !err; reading->rank++) {
		err = read_rank(reading, plan, direct_access);
		plan = &reading->json.values[plan->next];
	}
	return err;
}

/* A step moves a chunk, or two. At most half of the blocks are a rank's own, which need none. So a
   file of more chunks leaves some out. */
static int check_parts(struct reading *reading)
{
	const struct rd_plan_file *file = reading->file;
	const struct rd_json_value *parts =
		rd_json_member(&reading->json, reading->json.values, "parts");
	int64_t chunks = (int64_t)rd_blocks(&file->problem) * file->parts;

	if (!parts || chunks <= FEW_CHUNKS + 4 * (int64_t)file->step_count)
		return 0;
	return refuse(reading, parts,
		"%d parts are too many: the %d steps of all ranks leave some out", file->parts,
		file->step_count);
}

/* ---- The whole ------------------------------------------------------------------------------ */

static int read_document(struct reading *reading)
{
	bool direct_access;
	int err = check_members(reading, reading->json.values);

	if (!err)
		err = read_format(reading);
	if (!err)
		err = read_name(reading);
	if (!err)
		err = read_problem(reading);
	if (!err)
		err = read_range(reading);
	if (!err)
		err = read_direct_access(reading, &direct_access);
	if (!err)
		err = rd_plan_file_begin(reading->file);
	if (!err)
		err = read_plans(reading, direct_access);
	reading->rank = -1;
	if (!err)
		err = check_parts(reading);
	if (!err)
		rd_plan_file_seal(reading->file, direct_access);
	return err;
}

int rd_plan_file_read(struct rd_plan_file **file, const char *name, const char *text, size_t size)
{
	struct reading reading = { .name = name, .rank = -1, .step = -1 };
	int err = rd_json_parse(&reading.json, name, text, size);

	*file = NULL;
	if (err)
		return err;
	reading.file = calloc(1, sizeof(*reading.file));
	err = reading.file ? read_document(&reading)
			   : rd_fail(RONDO_MEMORY, "no memory to read %s", name);
	rd_json_finish(&reading.json);
	if (err) {
		rd_plan_file_destroy(reading.file);
		return err;
	}
	reading.file->hash = rd_hash(RD_HASH_INIT, text, size);
	*file = reading.file;
	return 0;
}

int rd_plan_file_load(struct rd_plan_file **file, const char *path)
{
	char *text;
	ssize_t size = rd_read_whole(&text, path, RD_JSON_SIZE_MAX);
	int err;

	*file = NULL;
	err = size < 0 ? rd_fail_errno("%s", path)
		       : rd_plan_file_read(file, path, text, (size_t)size);
	free(text);
	return err;
}
