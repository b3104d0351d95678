/* Timelines as text, as lines for spreadsheets, as JSON and as pictures. docs/rondo-plan.md has the
   columns. */
#ifndef PLAN_DOCUMENT_H
#define PLAN_DOCUMENT_H

#include <stdio.h>

#include "timeline.h"

/* rank: the one to write; -1: all. */
void plan_text_write(const struct plan_timeline *timeline, int rank, FILE *out);
void plan_tsv_write(const struct plan_timeline *timeline, int rank, FILE *out);
void plan_json_write(const struct plan_timeline *timeline, int rank, FILE *out);

/* picture.c. A picture as SVG: ranks down, time across, chunks by colour. */
void plan_picture_write(const struct plan_timeline *timeline, FILE *out);
/* The same on a page of HTML, which needs no other file: a step under the pointer is described, and
   its chunk's other steps stay bright. */
void plan_page_write(const struct plan_timeline *timeline, FILE *out);

/* "ring all_reduce, 4 ranks, 1 MiB a block in 8 pieces" */
void plan_call_text(const struct plan_problem *made, const struct rd_algorithm *algorithm,
	size_t block, uint64_t pieces, char *text, size_t size);
/* The same of a timeline's call. */
void plan_heading(const struct plan_timeline *timeline, char *text, size_t size);
/* "12.3 us" */
#define PLAN_TIME_SIZE 32
const char *plan_time_text(int64_t ns, char text[PLAN_TIME_SIZE]);

/* The kind of a step, as in print.h: "recv_reduce_last". Returns text. */
#define PLAN_KIND_SIZE 32
const char *plan_kind(const struct rd_step *step, char text[PLAN_KIND_SIZE]);

#endif
