#ifndef RD_DURATION_H
#define RD_DURATION_H

#include <stdint.h>

/* "30 s", "250 ms". */
#define RD_DURATION_SIZE 24
const char *rd_duration(char text[RD_DURATION_SIZE], int64_t ms);

#endif
