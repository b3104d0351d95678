/* Case: closing leaves no descriptor and no mapping behind. */
#include <dirent.h>
#include <stdio.h>

#include "transports/contract/fixture.h"
#include "transports/contract/leaks.h"
#include "transports/contract/suite.h"
#include "transports/contract/traffic.h"

int contract_open_files(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int count = 0;

	require(directory != NULL, "/proc/self/fd: %m");
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

int contract_shared_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	int count = 0;

	require(maps != NULL, "/proc/self/maps: %m");
	while (fgets(line, sizeof(line), maps)) {
		char mode[5] = "";

		if (sscanf(line, "%*s %4s", mode) == 1)
			count += mode[3] == 's';
	}
	fclose(maps);
	return count;
}

void contract_nothing_is_left_behind(const char *transport)
{
	struct shape shape = shape_small;
	int files = 0, maps = 0;

	shape.channels = 2;
	for (int round = 0; round < 4; round++) {
		struct ends ends;

		/* After the first round, in which the library allocates what it keeps. */
		if (round == 1) {
			files = contract_open_files();
			maps = contract_shared_maps();
		}
		if (ends_open(&ends, transport, shape))
			run_bursts(&ends, 20);
		ends_close(&ends);
	}
	require(contract_open_files() == files, "files stay open");
	require(contract_shared_maps() == maps, "memory stays mapped");
}
