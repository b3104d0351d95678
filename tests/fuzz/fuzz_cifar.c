/* A file of CIFAR-10, plain or packed with gzip: its magic number decides. */
#include "folder.h"
#include "fuzz.h"
#include "train/data/cifar.h"
#include "train/data/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *file;
	static struct data_source source = { .kind = &data_cifar };
	static float inputs[2 * CIFAR_PIXELS];
	int32_t labels[2];
	struct data *set;

	if (!file) {
		file = fuzz_folder_file("test_batch.bin");
		strcpy(source.path, fuzz_folder());
	}
	fuzz_folder_write(file, data, size);
	if (data_open(&set, &source, DATA_TEST))
		return 0;
	FUZZ_CHECK(set->count > 0 && set->input_count == CIFAR_PIXELS);
	uint32_t picks[2] = { 0, (uint32_t)(set->count - 1) };

	data_gather(set, picks, 2, inputs, labels);
	for (int i = 0; i < 2; i++)
		FUZZ_CHECK(labels[i] >= 0 && labels[i] < set->classes);
	data_destroy(set);
	return 0;
}
