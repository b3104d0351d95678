/*
 * Texts that programs wrote, for tests to read.
 */
#ifndef TEXT_H
#define TEXT_H

/* How often the part stands in the text. */
int count_of(const char *text, const char *part);

/* The warnings in a log, but for those of slow calls: load may make any call slow. */
int warnings_of(const char *log);

/* All that a file holds, as a string until the end of the test's process. */
char *file_text(int fd);
char *file_text_at(const char *path);

/* Captures the standard error of this process and its children from here on; nothing is shown. */
void captured_stderr_begin(void);

/* Ends the capture. Returns its text, valid until the next call. */
const char *captured_stderr_end(void);

#endif
