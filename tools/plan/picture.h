/* A picture of a timeline, as SVG or on a page: ranks down, time across, chunks by colour. */
#ifndef PLAN_PICTURE_H
#define PLAN_PICTURE_H

#include <stdio.h>

#include "timeline.h"

void plan_picture_write(const struct plan_timeline *timeline, FILE *out);
/* The same on a page of HTML, which needs no other file: a step under the pointer is described, and
   its chunk's other steps stay bright. */
void plan_page_write(const struct plan_timeline *timeline, FILE *out);

#endif
