#include "export.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/json.h"
#include "calls.h"
#include "chakra.h"
#include "commands.h"
#include "files.h"
#include "msccl.h"

#define STEPS_A_LINE 4

static void write_step(const struct rd_file_step *step, FILE *out)
{
	const char *kinds = rd_file_call_numbers(step->call);

	fprintf(out, "[\"%s\"", rd_file_call_name(step->call));
	for (int i = 0; kinds[i]; i++)
		fprintf(out, ", %d", step->numbers[i]);
	fprintf(out, "]");
}

static void write_rank(const struct rd_plan_file *file, int rank, FILE *out)
{
	int first = file->firsts[rank], end = file->firsts[rank + 1];

	fprintf(out, "%s\n    [", rank > 0 ? "," : "");
	for (int i = first; i < end; i++) {
		fprintf(out, "%s",
			i == first                   ? "\n      "
			: (i - first) % STEPS_A_LINE ? ", "
						     : ",\n      ");
		write_step(&file->steps[i], out);
	}
	fprintf(out, end > first ? "\n    ]" : "]");
}

void plan_file_write(const struct rd_plan_file *file, FILE *out)
{
	const struct rd_problem *problem = &file->problem;

	fprintf(out,
		"{\n  \"format\": \"" RD_FILE_FORMAT "\",\n  \"name\": \"%s\",\n"
		"  \"collective\": \"%s\",\n  \"ranks\": %d,\n",
		file->name, rd_collective_name(problem->collective), problem->size);
	if (rd_collective_has_root(problem->collective))
		fprintf(out, "  \"root\": %d,\n", problem->root);
	if (problem->collective == RD_TRANSFER)
		fprintf(out, "  \"target\": %d,\n", problem->target);
	if (file->least_bytes > 0)
		fprintf(out, "  \"least_bytes\": %" PRId64 ",\n", file->least_bytes);
	if (file->most_bytes < INT64_MAX)
		fprintf(out, "  \"most_bytes\": %" PRId64 ",\n", file->most_bytes);
	if (file->algorithm.direct_access)
		fprintf(out, "  \"direct_access\": true,\n");
	fprintf(out, "  \"parts\": %d,\n  \"plans\": [", file->parts);
	for (int rank = 0; rank < problem->size; rank++)
		write_rank(file, rank, out);
	fprintf(out, "\n  ]\n}\n");
}

static int write_text(const struct rd_plan_file *file, bool as_msccl, char **text, size_t *size)
{
	FILE *out = open_memstream(text, size);
	int err = 0;

	if (!out)
		return rd_fail(RONDO_MEMORY, "no memory for the file");
	if (as_msccl)
		err = msccl_write(file, out);
	else
		plan_file_write(file, out);
	if (fclose(out) && !err)
		err = rd_fail(RONDO_MEMORY, "no memory for the file");
	if (!err && !as_msccl && *size > RD_JSON_SIZE_MAX)
		err = rd_fail(RONDO_UNSUPPORTED,
			"a plan file has at most %d bytes, and this has %zu", RD_JSON_SIZE_MAX,
			*size);
	return err;
}

/* An existing file stays as it is until the text is whole. */
int plan_file_save(const struct rd_plan_file *file, const char *name, bool as_msccl)
{
	char *text = NULL;
	size_t size = 0;
	int err = write_text(file, as_msccl, &text, &size);

	if (!err)
		err = file_save(name, text, size);
	free(text);
	return err;
}

int plan_export(const struct plan_problem *made, const struct plan_options *options)
{
	const struct rd_algorithm *algorithm;
	struct rd_plan_file *file = NULL;
	int err = plan_algorithm_find(&algorithm, made, options->algorithm);

	if (!err && options->format == PLAN_FORMAT_CHAKRA)
		return chakra_export(made, options, algorithm);
	if (!err)
		err = plan_calls_file(&file, algorithm, &made->problem);
	if (!err)
		err = plan_file_save(file, options->output, options->format == PLAN_FORMAT_MSCCL);
	rd_plan_file_destroy(file);
	return err;
}
