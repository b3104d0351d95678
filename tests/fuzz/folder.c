#include "folder.h"

#include <fcntl.h>

#include "fuzz.h"

static char folder[64];
static char files[FUZZ_FILES_MAX][PATH_MAX];
static int file_count;

__attribute__((destructor)) static void remove_all(void)
{
	for (int i = 0; i < file_count; i++)
		unlink(files[i]);
	if (folder[0])
		rmdir(folder);
}

const char *fuzz_folder(void)
{
	if (!folder[0]) {
		strcpy(folder, "/dev/shm/rondo-fuzz-XXXXXX");
		FUZZ_CHECK(mkdtemp(folder));
	}
	return folder;
}

const char *fuzz_folder_file(const char *name)
{
	FUZZ_CHECK(file_count < FUZZ_FILES_MAX);
	snprintf(files[file_count], PATH_MAX, "%s/%s", fuzz_folder(), name);
	return files[file_count++];
}

void fuzz_folder_write(const char *path, const uint8_t *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	FUZZ_CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	close(fd);
}
