/* Programs of MSCCL: plans that are made of one are proved, and written as a program again. */
#include "check/proof.h"
#include "fuzz.h"
#include "plan/msccl.h"

/* A proof's time grows with these. */
#define RANKS_PROVED 8
#define CHUNKS_PROVED 512

static void write_again(const struct rd_plan_file *file)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	FUZZ_CHECK(out && msccl_write(file, out) == 0);
	fclose(out);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct msccl msccl;
	struct rd_plan_file *file = NULL;

	if (!msccl_parse(&msccl, "fuzz", (const char *)data, size))
		msccl_to_file(&msccl, &file);
	if (file && file->problem.size <= RANKS_PROVED &&
		rd_blocks(&file->problem) * file->parts <= CHUNKS_PROVED) {
		rd_prove(&file->algorithm, &file->problem);
		write_again(file);
	}
	rd_plan_file_destroy(file);
	msccl_finish(&msccl);
	return 0;
}
