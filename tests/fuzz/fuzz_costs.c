/* Files of measured costs: as text, and as the file that RONDO_TUNE_FILE names. */
#include "base/log.h"
#include "fuzz.h"
#include "tuner/cost_file.h"

static void read_text(const char *text)
{
	struct rd_costs costs, again;
	char wrong[200], printed[4096];
	int line;

	if (!rd_costs_read(&costs, text, &line, wrong, sizeof(wrong)))
		return;
	FUZZ_CHECK(rd_costs_print(&costs, printed, sizeof(printed)) < (int)sizeof(printed));
	FUZZ_CHECK(rd_costs_read(&again, printed, &line, wrong, sizeof(wrong)));
	FUZZ_CHECK(memcmp(&costs, &again, sizeof(costs)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rd_costs costs;
	char path[32], *text = fuzz_text(data, size);
	int fd = fuzz_file(data, size);

	memset(&costs, 0, sizeof(costs));
	read_text(text);
	rd_cost_file_find(fuzz_path(path, fd), "host1, 2 ranks on 1 host", &costs);
	close(fd);
	free(text);
	return 0;
}
