/*
 * A tool as its user sees it. A test with the name of a tool runs that.
 */
#ifndef TOOL_RUN_H
#define TOOL_RUN_H

struct run {
	int status;
	char *out, *err; /* its outputs, until the test's end */
};

/* Runs it with these arguments; NULL comes last. */
#define run(...) run_tool(RONDO_TOOL, __VA_ARGS__)
struct run run_tool(const char *path, ...);

/* Asserts that it returned 0 and wrote no error. */
void assert_went_well(const struct run *run);

#endif
