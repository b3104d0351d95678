/*
 * What this process and its children say on standard error, for a test to read.
 */
#ifndef CAPTURED_STDERR_H
#define CAPTURED_STDERR_H

/* From here on it is kept, and not shown. */
void captured_stderr_begin(void);

/* Shows what follows again; what was kept, until the next call. */
const char *captured_stderr_end(void);

#endif
