/*
 * The job's secret from a file, from a descriptor, and from an agent's message. The first byte
 * chooses the file's mode; the others are the secret.
 */
#include <sys/stat.h>

#include "fuzz.h"
#include "secure/secret.h"
#include "secure/tls.h"

static struct rd_settings settings_of(int rank)
{
	return (struct rd_settings){ .rank = rank,
		.size = 2,
		.secret_fd = -1,
		.secret_file = "",
		.job = "job",
		.has_key = true };
}

static bool is_long_enough(size_t size)
{
	return size >= RD_SECRET_LEAST && size <= RD_SECRET_MOST;
}

/* The file is this user's, and nobody else's. */
static int find_in_file(struct rd_settings *settings, int fd)
{
	static char path[32];

	*settings = settings_of(1);
	settings->secret_file = fuzz_path(path, fd);
	return rd_secret_find(settings);
}

static int find_in_descriptor(struct rd_settings *settings, int fd)
{
	*settings = settings_of(1);
	settings->has_key = false;
	settings->secret_fd = fd;
	return rd_secret_find(settings);
}

static void keep(const struct fuzz_input *input, const struct rd_settings *file)
{
	static struct rd_settings settings;
	char *bytes = fuzz_text(input->at, input->left);
	int fd, err = rd_secret_keep(&fd, bytes, input->left);

	FUZZ_CHECK((err == 0) == is_long_enough(input->left) && (err == 0) == (fd >= 0));
	if (!err) {
		FUZZ_CHECK(find_in_descriptor(&settings, fd) == 0);
		FUZZ_CHECK(!file->has_psk ||
			   memcmp(settings.psk, file->psk, sizeof(settings.psk)) == 0);
		close(fd);
	}
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct rd_settings file, descriptor;
	struct fuzz_input input = { data, size };
	mode_t mode = fuzz_byte(&input);
	bool fits = is_long_enough(input.left), has_tls = rd_tls_load() == 0;
	int fd = fuzz_file(input.at, input.left), err;

	FUZZ_CHECK(fchmod(fd, mode | 0400) == 0);
	err = find_in_file(&file, fd);
	FUZZ_CHECK((err == 0) == (fits && !(mode & 077) && has_tls));
	FUZZ_CHECK(file.has_psk == (err == 0));
	/* Nothing seals it. */
	FUZZ_CHECK(find_in_descriptor(&descriptor, fd) != 0);
	keep(&input, &file);
	close(fd);
	return 0;
}
