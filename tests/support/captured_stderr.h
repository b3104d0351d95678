/*
 * Captures the standard error of this process and its children.
 */
#ifndef CAPTURED_STDERR_H
#define CAPTURED_STDERR_H

/* Captures from here on; nothing is shown. */
void captured_stderr_begin(void);

/* Ends the capture. Returns its text, valid until the next call. */
const char *captured_stderr_end(void);

#endif
