/* The environment: settings, and the variables of launchers. An input has lines NAME=VALUE. */
#include "base/launch/launch.h"
#include "base/settings.h"
#include "fuzz.h"

#define VARIABLES_MAX 64

extern char **environ;

/* Splits the text at its line ends. */
static void read_lines(char *text, char *lines[VARIABLES_MAX + 1])
{
	int count = 0;

	for (char *line = strtok(text, "\n"); line && count < VARIABLES_MAX;
		line = strtok(NULL, "\n"))
		if (strchr(line, '='))
			lines[count++] = line;
	lines[count] = NULL;
}

static void check_settings(const struct rd_settings *settings, int err)
{
	FUZZ_CHECK(settings->channels >= 1 && settings->channels <= 8);
	FUZZ_CHECK(settings->piece_size >= 64 && settings->piece_size <= 16 << 20);
	FUZZ_CHECK(settings->slots >= 2 && settings->slots <= 64);
	FUZZ_CHECK(strnlen(settings->address, RD_STRING_MAX) < RD_STRING_MAX);
	FUZZ_CHECK(strnlen(settings->job, RD_STRING_MAX) < RD_STRING_MAX);
	if (err)
		return;
	FUZZ_CHECK(settings->size >= 1 && settings->size <= RD_SIZE_MAX);
	FUZZ_CHECK(settings->rank >= 0 && settings->rank < settings->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct rd_settings settings;
	struct rd_launch launch;
	char *lines[VARIABLES_MAX + 1], *text = fuzz_text(data, size), **before = environ;

	read_lines(text, lines);
	environ = lines;
	rd_launch_read(&launch, "auto");
	check_settings(&settings, rd_settings_read(&settings, NULL));
	environ = before;
	free(text);
	return 0;
}
