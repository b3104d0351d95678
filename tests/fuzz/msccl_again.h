/* Programs of MSCCL and MSCCL++: plans that are made of one are proved, and written again. */
#ifndef FUZZ_MSCCL_AGAIN_H
#define FUZZ_MSCCL_AGAIN_H

#include "check/proof.h"
#include "fuzz.h"
#include "plan/msccl.h"

/* A proof's time grows with these. */
#define RANKS_PROVED 8
#define CHUNKS_PROVED 512

static inline void fuzz_msccl_write(const struct rd_plan_file *file)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	FUZZ_CHECK(out && msccl_write(file, out) == 0);
	fclose(out);
	free(text);
}

static inline void fuzz_msccl_again(
	int (*parse)(struct msccl *msccl, const char *name, const char *text, size_t size),
	const uint8_t *data, size_t size)
{
	struct msccl msccl;
	struct rd_plan_file *file = NULL;

	if (!parse(&msccl, "fuzz", (const char *)data, size))
		msccl_to_file(&msccl, &file);
	if (file && file->problem.size <= RANKS_PROVED &&
		rd_blocks(&file->problem) * file->parts <= CHUNKS_PROVED) {
		rd_prove(&file->algorithm, &file->problem);
		fuzz_msccl_write(file);
	}
	rd_plan_file_destroy(file);
	msccl_finish(&msccl);
}

#endif
