/* Variables of the environment, and numbers in texts. */
#ifndef RD_ENVIRONMENT_H
#define RD_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The text of a variable in environ; NULL where it is not set, or empty. */
const char *rd_environment(const char *variable);

/* Reads a decimal number, with - for a negative one. Returns its end; NULL where there is none, or
   it is too large. */
const char *rd_read_number(int64_t *number, const char *text);

/* The text for a reason, which is one line: at most 40 bytes, and '?' for control characters. */
const char *rd_quotable(char quote[41], const char *text);

/* Replaces each control character, and each byte that is no UTF-8, by '?': a text that reaches
   terminals must not steer them, and JSON takes no others. Ranks
   compare texts that came with messages, which does this, with their own. */
void rd_disarm(char *text, size_t length);

#endif
