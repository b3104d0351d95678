/* Plan files: one that is accepted is written, and read again as the same. Small ones are proved.
 */
#include "check/proof.h"
#include "fuzz.h"
#include "plan/export.h"

/* A proof's time grows with these. */
#define RANKS_PROVED 8
#define CHUNKS_PROVED 512

static char *written(const struct rd_plan_file *file, size_t *size)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, size);

	FUZZ_CHECK(out);
	plan_file_write(file, out);
	fclose(out);
	return text;
}

static void read_again(const struct rd_plan_file *file)
{
	struct rd_plan_file *again;
	size_t first_size, second_size;
	char *first = written(file, &first_size), *second;

	FUZZ_CHECK(rd_plan_file_read(&again, "again", first, first_size) == 0);
	second = written(again, &second_size);
	FUZZ_CHECK(first_size == second_size && memcmp(first, second, first_size) == 0);
	free(first);
	free(second);
	rd_plan_file_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rd_plan_file *file;

	if (rd_plan_file_read(&file, "fuzz", (const char *)data, size))
		return 0;
	read_again(file);
	if (file->problem.size <= RANKS_PROVED &&
		rd_blocks(&file->problem) * file->parts <= CHUNKS_PROVED)
		rd_prove(&file->algorithm, &file->problem);
	rd_plan_file_destroy(file);
	return 0;
}
