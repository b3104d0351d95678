/* ctest label: threads */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "rondo.h"

#define ALL_BITS ~0u

/* Standard error becomes a socket that keeps messages apart: each read is one write. */
static int capture(void)
{
	int ends[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	cr_assert_geq(dup2(ends[1], STDERR_FILENO), 0);
	close(ends[1]);
	return ends[0];
}

/* The next write, without waiting; "" when there is none. */
static char *next_write(int end)
{
	static char text[4096];
	ssize_t size = recv(end, text, sizeof(text) - 1, MSG_DONTWAIT);

	text[size > 0 ? size : 0] = '\0';
	return text;
}

Test(log, a_line_says_host_process_thread_and_level)
{
	char host[65] = "", wanted[256];
	int end = capture();

	gethostname(host, sizeof(host) - 1);
	host[strcspn(host, ".")] = '\0';
	rd_log(RD_WARN, RD_NET, "%d links to %s", 3, "b");
	snprintf(wanted, sizeof(wanted), "%s:%d:%d RONDO WARN 3 links to b\n", host, getpid(),
		(int)syscall(SYS_gettid));
	cr_assert_str_eq(next_write(end), wanted);
	cr_assert_str_eq(next_write(end), "");
}

Test(log, a_line_has_the_host_s_name_that_the_user_gave)
{
	int end = capture();

	setenv("RONDO_HOST", "a.b\033c", 1);
	rd_log_to("");
	rd_log(RD_WARN, RD_NET, "x");
	cr_assert_eq(strncmp(next_write(end), "a.b?c:", 6), 0);
	unsetenv("RONDO_HOST");
	rd_log_to("");
	rd_log(RD_WARN, RD_NET, "x");
	cr_assert_null(strstr(next_write(end), "a.b"));
}

Test(log, a_line_names_the_rank_that_its_thread_speaks_for)
{
	int end = capture();

	rd_log_rank(12);
	rd_log(RD_WARN, RD_NET, "x");
	cr_assert(strstr(next_write(end), " [12] RONDO WARN x\n"));
	rd_log_rank(-1);
	rd_log(RD_WARN, RD_NET, "x");
	cr_assert_null(strchr(next_write(end), '['));
}

Test(log, only_warnings_are_shown_at_first)
{
	cr_assert(rd_log_on(RD_WARN, RD_COLL));
	cr_assert_not(rd_log_on(RD_INFO, RD_COLL));
}

Test(log, the_level_and_the_subsystem_decide)
{
	int end = capture();

	rd_log_set(RD_INFO, 1u << RD_RING);
	rd_log(RD_INFO, RD_NET, "not this subsystem");
	rd_log(RD_TRACE, RD_RING, "not this level");
	cr_assert_str_eq(next_write(end), "");
	rd_log(RD_INFO, RD_RING, "this");
	cr_assert(strstr(next_write(end), "RONDO INFO this\n"));
	rd_log_set(RD_TRACE, ALL_BITS);
	rd_log(RD_TRACE, RD_COLL, "this too");
	cr_assert(strstr(next_write(end), "RONDO TRACE this too\n"));
}

Test(log, warnings_are_shown_whatever_their_subsystem_but_not_at_none)
{
	rd_log_set(RD_WARN, 0);
	cr_assert(rd_log_on(RD_WARN, RD_NET));
	rd_log_set(RD_LOG_NONE, ALL_BITS);
	cr_assert_not(rd_log_on(RD_WARN, RD_NET));
}

Test(log, a_line_that_is_too_long_is_cut_and_stays_one_line)
{
	char text[5000];
	int end = capture();

	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	rd_log(RD_WARN, RD_NET, "%s", text);
	const char *line = next_write(end);
	cr_assert_eq(strlen(line), 1024);
	cr_assert_eq(strcspn(line, "\n"), 1023);
}

Test(log, errno_can_be_named_and_is_kept)
{
	int end = capture();

	errno = ENOENT;
	rd_log(RD_WARN, RD_NET, "%m");
	cr_assert_eq(errno, ENOENT);
	cr_assert(strstr(next_write(end), "No such file or directory\n"));
	close(STDERR_FILENO);
	errno = EAGAIN;
	rd_log(RD_WARN, RD_NET, "to nowhere");
	cr_assert_eq(errno, EAGAIN);
}

#define THREADS 4
#define LINES 50

static void *write_lines(void *argument)
{
	int rank = *(int *)argument;

	rd_log_rank(rank);
	for (int i = 0; i < LINES; i++)
		rd_log(RD_WARN, RD_NET, "%d.%d %.*s", rank, i, 200,
			"................................");
	return NULL;
}

Test(log, lines_of_several_threads_do_not_mix, .timeout = 20)
{
	pthread_t threads[THREADS];
	int ranks[THREADS], next[THREADS] = { 0 };
	int end = capture();

	for (int i = 0; i < THREADS; i++) {
		ranks[i] = i;
		cr_assert_eq(pthread_create(&threads[i], NULL, write_lines, &ranks[i]), 0);
	}
	for (int i = 0; i < THREADS * LINES; i++) {
		char text[2048];
		int rank, in_text, number;
		ssize_t size = recv(end, text, sizeof(text) - 1, 0);
		cr_assert_gt(size, 0);
		text[size] = '\0';
		const char *bracket = strchr(text, '[');
		cr_assert_not_null(bracket);
		cr_assert_eq(sscanf(bracket, "[%d] RONDO WARN %d.%d .", &rank, &in_text, &number),
			3, "%s", text);
		cr_assert_eq(in_text, rank);
		cr_assert_eq(number, next[rank]++);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

Test(log, texts_name_levels_in_either_case)
{
	enum rd_log_level level;

	cr_assert_eq(rd_log_read_level(&level, "trace"), 0);
	cr_assert_eq(level, RD_TRACE);
	cr_assert_eq(rd_log_read_level(&level, "NONE"), 0);
	cr_assert_eq(level, RD_LOG_NONE);
	cr_assert_eq(rd_log_read_level(&level, "INF"), RONDO_SETTING);
	cr_assert_eq(rd_log_read_level(&level, ""), RONDO_SETTING);
}

Test(log, texts_name_subsystems_to_log_or_to_leave_out)
{
	static const struct {
		const char *text;
		unsigned bits;
	} cases[] = {
		{ "ALL", (1u << RD_SUBSYSTEM_COUNT) - 1 },
		{ "RING,net", 1u << RD_RING | 1u << RD_NET },
		{ "^NET", ((1u << RD_SUBSYSTEM_COUNT) - 1) & ~(1u << RD_NET) },
		{ "^NET,^RING",
			((1u << RD_SUBSYSTEM_COUNT) - 1) & ~(1u << RD_NET | 1u << RD_RING) },
		{ "ALL,^COLL", ((1u << RD_SUBSYSTEM_COUNT) - 1) & ~(1u << RD_COLL) },
	};
	static const char *const refused[] = { "", "RIN", "RING,", ",RING", "^", "RING NET" };
	unsigned bits;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(rd_log_read_subsystems(&bits, cases[i].text), 0);
		cr_assert_eq(bits, cases[i].bits, "%s", cases[i].text);
	}
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		cr_assert_eq(
			rd_log_read_subsystems(&bits, refused[i]), RONDO_SETTING, "%s", refused[i]);
}

Test(log, a_fifo_that_nobody_reads_is_no_hang, .timeout = 20)
{
	char path[64];
	int end = capture();

	snprintf(path, sizeof(path), "/tmp/rondo-log-%d", getpid());
	cr_assert_eq(mkfifo(path, 0600), 0);
	rd_log_to(path);
	unlink(path);
	cr_expect(strstr(next_write(end), ": the log goes to standard error"));
	rd_log(RD_WARN, RD_NET, "a line");
	cr_expect(strstr(next_write(end), "a line"));
}

/* Such as /dev/stderr. */
Test(log, a_pipe_with_a_reader_is_a_file, .timeout = 20)
{
	char path[64], text[64];
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[1]);
	rd_log_to(path);
	rd_log(RD_WARN, RD_NET, "a line");
	cr_expect_gt(read(ends[0], text, sizeof(text)), 0);
	/* A reader that does not read holds nobody up. More lines than a pipe has room for. */
	for (int i = 0; i < 4096; i++)
		rd_log(RD_WARN, RD_NET, "line %d", i);
	/* One that has gone ends nobody. */
	close(ends[0]);
	rd_log(RD_WARN, RD_NET, "a line");
}
