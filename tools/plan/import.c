#include "import.h"

#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "check/proof.h"
#include "export.h"
#include "msccl.h"

#define SOURCE_MAX (64 << 20)

static int read_source(const char *path, char **text, size_t *size)
{
	FILE *file = rd_fopen(path, O_RDONLY);
	int err = 0;

	*text = file ? malloc(SOURCE_MAX) : NULL;
	if (!file)
		return rd_fail_errno("cannot read %s", path);
	if (!*text)
		err = rd_fail(RONDO_MEMORY, "no memory to read %s", path);
	else
		*size = fread(*text, 1, SOURCE_MAX, file);
	if (!err && ferror(file))
		err = rd_fail_errno("cannot read %s", path);
	if (!err && *size == SOURCE_MAX)
		err = rd_fail(RONDO_INVALID, "%s: this is %d bytes or more", path, SOURCE_MAX);
	fclose(file);
	return err;
}

/* JSON begins with a brace, behind blanks. */
static bool is_json(const char *text, size_t size)
{
	size_t at = 0;

	while (at < size && strchr(" \t\r\n", text[at]) && text[at])
		at++;
	return at < size && text[at] == '{';
}

static int convert(const char *path, const char *text, size_t size, struct rd_plan_file **file)
{
	struct msccl msccl;
	int err = is_json(text, size) ? mscclpp_parse(&msccl, path, text, size)
				      : msccl_parse(&msccl, path, text, size);

	*file = NULL;
	if (!err)
		err = msccl_to_file(&msccl, file);
	msccl_finish(&msccl);
	if (!err && rd_prove(&(*file)->algorithm, &(*file)->problem))
		err = rd_fail(RONDO_INVALID, "%s: %s", path, rondo_last_error());
	return err;
}

int plan_import(const struct plan_options *options)
{
	struct rd_plan_file *file = NULL;
	char *text = NULL;
	size_t size = 0;
	int err = read_source(options->source, &text, &size);

	if (!err)
		err = convert(options->source, text, size, &file);
	if (!err)
		err = plan_file_save(file, options->output, false);
	rd_plan_file_destroy(file);
	free(text);
	return err;
}
