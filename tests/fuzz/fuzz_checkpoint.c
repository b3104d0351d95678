/* Checkpoints: files of safetensors. One that is read is written, and read again as the same. */
#include "folder.h"
#include "fuzz.h"
#include "train/checkpoint/checkpoint.h"

static void check_tensors(const struct stored *stored)
{
	for (int i = 0; i < stored->tensor_count; i++) {
		const struct stored_tensor *tensor = &stored->tensors[i];
		size_t count = 1;

		FUZZ_CHECK(strnlen(tensor->name, STORED_NAME) < STORED_NAME);
		FUZZ_CHECK(tensor->dims >= 0 && tensor->dims <= TENSOR_DIMS);
		for (int d = 0; d < tensor->dims; d++)
			count *= (size_t)tensor->shape[d];
		FUZZ_CHECK(count == tensor->count);
		/* Both ends are readable: a sanitizer checks the bounds. */
		if (count > 0)
			(void)*(volatile float *)&tensor->values[count - 1];
	}
}

static void write_again(const struct stored *stored)
{
	struct stored again;
	FILE *file = tmpfile();

	FUZZ_CHECK(file && safetensors_write("fuzz", file, stored) == 0);
	rewind(file);
	FUZZ_CHECK(safetensors_read("again", file, &again) == 0);
	FUZZ_CHECK(again.tensor_count == stored->tensor_count);
	for (int i = 0; i < again.tensor_count; i++)
		FUZZ_CHECK(memcmp(again.tensors[i].values, stored->tensors[i].values,
				   again.tensors[i].count * sizeof(float)) == 0);
	stored_finish(&again);
	fclose(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *path;
	char damage[CHECKPOINT_REASON];
	struct stored stored;
	int64_t number;

	if (!path)
		path = fuzz_folder_file("checkpoint");
	fuzz_folder_write(path, data, size);
	if (checkpoint_load(path, &stored, damage))
		return 0;
	check_tensors(&stored);
	if (checkpoint_number(path, &stored, CHECKPOINT_STEP_KEY, 0, 1000, &number) == 0)
		FUZZ_CHECK(number >= 0 && number <= 1000);
	write_again(&stored);
	stored_finish(&stored);
	return 0;
}
