#include "results.h"

#include <stdlib.h>

int bench_results_add(struct bench_results *results, const struct bench_row *row)
{
	const struct bench_timing *timings[] = { &row->out_of_place, &row->in_place };
	struct bench_row *rows = realloc(results->rows, (results->count + 1) * sizeof(*rows));

	if (!rows)
		return RONDO_MEMORY;
	results->rows = rows;
	rows[results->count++] = *row;
	for (int i = 0; i < 2; i++) {
		if (!timings[i]->ran)
			continue;
		results->bad += timings[i]->wrong > 0;
		results->busbw += timings[i]->busbw;
		results->measurements++;
	}
	return 0;
}

double bench_results_busbw(const struct bench_results *results)
{
	return results->measurements ? results->busbw / results->measurements : 0;
}

void bench_results_finish(struct bench_results *results)
{
	free(results->rows);
}
