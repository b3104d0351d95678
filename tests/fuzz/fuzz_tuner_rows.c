/* CSVs of NCCL's tuner plug-in: accepted rows are printed, and read again as the same. */
#include "fuzz.h"
#include "tuner/tuner_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rd_tuner_rows rows, again;
	char *text = fuzz_text(data, size), wrong[200];
	char first[RD_TUNER_TEXT_SIZE], second[RD_TUNER_TEXT_SIZE];
	int line;

	if (rd_tuner_rows_read(&rows, text, NULL, 8, 64, &line, wrong, sizeof(wrong))) {
		FUZZ_CHECK(rd_tuner_rows_print(&rows, first, sizeof(first)) < RD_TUNER_TEXT_SIZE);
		FUZZ_CHECK(rd_tuner_rows_read(
			&again, first, NULL, 8, 64, &line, wrong, sizeof(wrong)));
		rd_tuner_rows_print(&again, second, sizeof(second));
		FUZZ_CHECK(strcmp(first, second) == 0);
	}
	free(text);
	return 0;
}
