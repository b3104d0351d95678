/*
 * Choices that a file fixes: rows of the CSV of NCCL's tuner plug-in, as RONDO_TUNE_FILE names one.
 *
 *   collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks[,numPipeOps[,regBuff]]
 *
 * The first row that fits a call holds. Rank 0 reads the file and sends the rows to all.
 */
#ifndef RD_TUNER_ROWS_H
#define RD_TUNER_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"

#define RD_TUNER_ROWS_MAX 32
#define RD_TUNER_ROW_SIZE 120 /* of a row's text */
#define RD_TUNER_TEXT_SIZE 1800 /* of all rows' text, as they are sent */

struct rd_tuner_row {
	enum rd_collective collective;
	uint64_t least, most; /* bytes of a call: of all its blocks, where each rank has one */
	const struct rd_algorithm *algorithm;
	int channels, hosts, ranks; /* -1: any */
};

/* Those that comms of a job may use. All zeros: none. */
struct rd_tuner_rows {
	int count;
	struct rd_tuner_row rows[RD_TUNER_ROWS_MAX];
};

/* Returns whether a text is such a CSV, and not a file of costs. */
bool rd_tuner_is_csv(const char *text);

/*
 * Reads the rows that may fit a comm of these hosts and ranks, or of some of them. A row that Rondo
 * cannot apply is left out, with a warning that names path and line; path NULL: without. False, and
 * no rows, where the text is malformed: `wrong` holds the reason, and *line the line, from 1.
 */
bool rd_tuner_rows_read(struct rd_tuner_rows *rows, const char *text, const char *path, int hosts,
	int ranks, int *line, char *wrong, size_t wrong_size);

/* Prints them as text that rd_tuner_rows_read() reads as the same. Returns as snprintf. */
int rd_tuner_rows_print(const struct rd_tuner_rows *rows, char *text, size_t size);

/* The index of the first row that fits; -1: none. */
int rd_tuner_rows_find(const struct rd_tuner_rows *rows, enum rd_collective collective,
	uint64_t block_size, int hosts, int ranks);

#endif
