/*
 * What this process and its children say on standard error, for a test to read.
 */
#ifndef SAID_H
#define SAID_H

/* From here on it is kept, and not shown. */
void said_begin(void);

/* Shows what follows again; what was kept, until the next call. */
const char *said_end(void);

/* How often the part stands in the text. */
int said_times(const char *text, const char *part);

#endif
