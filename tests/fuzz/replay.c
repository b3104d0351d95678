/*
 * usage: replay_NAME CORPUS: adds the fuzzer's seeds to the folder, and runs the fuzzer once on
 * each file there, without libFuzzer.
 */
#include <dirent.h>
#include <limits.h>

#include "fuzz.h"

#define INPUT_MAX (1 << 20)

static int replay(const char *path)
{
	static uint8_t bytes[INPUT_MAX];
	FILE *file = fopen(path, "rb");

	if (!file) {
		perror(path);
		return 1;
	}
	size_t size = fread(bytes, 1, sizeof(bytes), file);

	fclose(file);
	/* Memory of exactly this size: a sanitizer sees a read beyond. */
	uint8_t *exact = malloc(size ? size : 1);

	FUZZ_CHECK(exact);
	memcpy(exact, bytes, size);
	/* A crash ends the process: the last line names its input. */
	printf("%s\n", path);
	fflush(stdout);
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
	return 0;
}

/* The number of files replayed; -1: one cannot be read. */
static int replay_folder(const char *path)
{
	DIR *folder = opendir(path);
	char file[PATH_MAX];
	struct dirent *entry;
	int count = 0;

	if (!folder) {
		perror(path);
		return -1;
	}
	while (count >= 0 && (entry = readdir(folder))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
		count = replay(file) ? -1 : count + 1;
	}
	closedir(folder);
	return count;
}

static void write_seeds(const char *folder)
{
	static uint8_t bytes[FUZZ_SEED_MAX];
	size_t size;

	for (int number = 0; fuzz_seed && (size = fuzz_seed(number, bytes)) > 0; number++) {
		char path[PATH_MAX];
		FILE *file;

		snprintf(path, sizeof(path), "%s/seed_%d", folder, number);
		file = fopen(path, "wb");
		FUZZ_CHECK(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
	}
}

int main(int argc, char **argv)
{
	int count;

	FUZZ_CHECK(argc == 2);
	write_seeds(argv[1]);
	count = replay_folder(argv[1]);
	if (count < 0)
		return 1;
	printf("%d inputs\n", count);
	if (fuzz_check_corpus)
		fuzz_check_corpus();
	/* A corpus that is not there proves nothing. */
	return count > 0 ? 0 : 1;
}
