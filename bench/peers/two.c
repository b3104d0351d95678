#include "two.h"

#include <stdio.h>
#include <sys/mman.h>

#include "ranks.h"

struct two {
	void *memory;
	struct peers_library (*live)(int rank, void *memory);
	int argc;
	char **argv;
};

static int measure(int rank, void *argument)
{
	struct two *two = argument;
	struct peers_library library = two->live(rank, two->memory);
	int status = peers_measure(&library, two->argc, two->argv);

	fflush(stdout);
	return status;
}

int peers_two_run(const char *program, size_t size,
	struct peers_library (*live)(int rank, void *memory), int argc, char **argv)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct two two = { memory, live, argc, argv };

	return memory == MAP_FAILED ? 1 : peers_ranks_run(program, 2, measure, NULL, &two);
}
