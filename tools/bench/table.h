/* The table on standard output, with the lines and columns of nccl-tests. Only rank 0 prints. */
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include "measure.h"

/* The lines before the table. `devices` is text of whole lines, one a rank. */
void bench_table_head(FILE *out, const struct bench_options *options, const char *devices);
void bench_table_row(FILE *out, const struct bench_options *options, const struct bench_row *row);
/* bad: measurements with a wrong value. */
void bench_table_foot(FILE *out, int bad, double average_busbw);

/* A number in `width` columns, with the decimals that fit: up to three below 10 in a wide column,
   else two. */
void bench_table_number(char *text, size_t text_size, int width, double value);

#endif
