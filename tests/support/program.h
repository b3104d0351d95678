/*
 * A program that a test runs: its outputs in files or pipes, and the processes it leaves.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct program {
	pid_t pid;
	int out, err; /* its outputs: files, unless the test puts a pipe there */
	int status; /* once finished: its exit status, or minus the signal */
};

/* A file in memory that processes may append to side by side. */
int program_file(void);
/* With files for both outputs. */
struct program program_files(void);

/* Starts the program at `path`; NULL comes last. arguments[0] is its name. */
void program_start_with(struct program *program, const char *path, char *const *arguments);
/* Starts it with these arguments, and its path as its name. */
void program_start(struct program *program, const char *path, ...);
void program_start_list(struct program *program, const char *path, va_list args);
/* Waits until it ends. */
void program_finish(struct program *program);
/* Starts it with these arguments, and waits until it ends. */
void program_run(struct program *program, const char *path, ...);

/* The first child of a process; 0: it has none yet. */
pid_t child_of(pid_t pid);
/* Sends the signal, again and again, until a process takes no more time to end. */
void program_press(struct program *program, int signal);

/* How many lines of the text are this one. */
int count_lines(const char *text, const char *line);
/* Asserts that a file holds the part. */
void assert_contains(int fd, const char *part);

/* Before the start: stdout or stderr (*end) becomes a pipe; returns the reading end. */
int pipe_from(int *end);
/* Before the start: a pipe whose reading end is fd 8 there; returns the writing end. */
int pipe_to_fd_8(void);
/* Reads on, into text[size], until the part is there. */
void read_until(int fd, char *text, size_t size, const char *part);
/* Reads one line, without its end. */
void read_line(int fd, char *line, size_t size);

/* Reads `count` lines, each the pid of a process: ends[] becomes ready when they end. */
void watch_processes(int fd, struct pollfd *ends, int count);
/* Whether all of them end; those that do not are killed. */
bool all_end(struct pollfd *ends, int count);

/* A tool as its user sees it: a test with the name of a tool runs that. */
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
