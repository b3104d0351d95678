#include "commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "check/proof.h"
#include "export.h"
#include "files.h"
#include "msccl.h"

#define SOURCE_MAX (64 << 20)

#define OWN_FORMAT "\"rondo-plan-file "

/* JSON begins with a brace, behind blanks. */
static bool is_json(const char *text, size_t size)
{
	size_t at = 0;

	while (at < size && strchr(" \t\r\n", text[at]) && text[at])
		at++;
	return at < size && text[at] == '{';
}

static int convert_program(
	const char *path, const char *text, size_t size, struct rd_plan_file **file)
{
	struct msccl msccl;
	int err = is_json(text, size) ? mscclpp_parse(&msccl, path, text, size)
				      : msccl_parse(&msccl, path, text, size);

	if (!err)
		err = msccl_to_file(&msccl, file);
	msccl_finish(&msccl);
	return err;
}

static int convert(const char *path, const char *text, size_t size, struct rd_plan_file **file)
{
	int err;

	*file = NULL;
	if (is_json(text, size) && memmem(text, size, OWN_FORMAT, strlen(OWN_FORMAT)))
		err = rd_plan_file_read(file, path, text, size);
	else
		err = convert_program(path, text, size, file);
	if (!err && rd_prove(&(*file)->algorithm, &(*file)->problem))
		err = rd_fail(RONDO_INVALID, "%s: %s", path, rondo_last_error());
	return err;
}

int plan_import(const struct plan_options *options)
{
	struct rd_plan_file *file = NULL;
	char *text = NULL;
	size_t size = 0;
	int err = file_read(options->source, SOURCE_MAX, &text, &size);

	if (!err)
		err = convert(options->source, text, size, &file);
	if (!err)
		err = plan_file_save(file, options->output, false);
	rd_plan_file_destroy(file);
	free(text);
	return err;
}
