/* rondo-run: log files, tee with prefixes, and ranks that are not shown. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program.h"
#include "run/logs.h"
#include "text.h"

/* The ranks are shells: their environment, output and exit status show the launcher's work. */
#define SH(script) "sh", "-c", script
#define SPEAK SH("echo out $RANK; echo err $RANK >&2")

static char folder[64]; /* of this test's logs */

static void make_folder(void)
{
	snprintf(folder, sizeof(folder), "/tmp/rondo-logs-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	unsetenv("NO_COLOR");
	setenv("TERM", "xterm", 1);
	setenv("OMP_NUM_THREADS", "1", 1);
}

static void remove_folder(void)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(run_logs, .init = make_folder, .fini = remove_folder, .timeout = 30);

/* The text of a file below the folder; NULL: there is none. The caller frees it. */
static char *log_text(const char *name)
{
	char path[192];
	char *text;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	text = file_text(fd);
	close(fd);
	return text;
}

/* NULL: there must be none. */
static void assert_log(const char *name, const char *wanted)
{
	char *text = log_text(name);

	if (wanted)
		cr_assert_str_eq(text ? text : "(no file)", wanted, "%s", name);
	else
		cr_assert_null(text, "%s holds %s", name, text);
}

static void assert_empty(int fd)
{
	char *text = file_text(fd);

	cr_assert_str_eq(text, "");
}

Test(run_logs, redirected_outputs_go_to_files_alone)
{
	struct program run = program_files();

	program_run(&run, RONDO_TOOL, "--nproc-per-node", "2", "--log-dir", folder, "--rdzv-id",
		"job", "--redirects", "3", SPEAK, NULL);
	cr_assert_eq(run.status, 0);
	assert_empty(run.out);
	assert_empty(run.err);
	assert_log("job/attempt_0/0/stdout.log", "out 0\n");
	assert_log("job/attempt_0/0/stderr.log", "err 0\n");
	assert_log("job/attempt_0/1/stdout.log", "out 1\n");
	assert_log("job/attempt_0/1/stderr.log", "err 1\n");
}

Test(run_logs, a_list_redirects_outputs_of_its_ranks)
{
	struct program run = program_files();
	char *text;

	program_run(&run, RONDO_TOOL, "--nproc-per-node", "3", "--log-dir", folder, "--rdzv-id",
		"job", "-r", "0:1,1:2", SPEAK, NULL);
	cr_assert_eq(run.status, 0);
	assert_log("job/attempt_0/0/stdout.log", "out 0\n");
	assert_log("job/attempt_0/0/stderr.log", NULL);
	assert_log("job/attempt_0/1/stdout.log", NULL);
	assert_log("job/attempt_0/1/stderr.log", "err 1\n");
	assert_log("job/attempt_0/2/stdout.log", NULL);
	text = file_text(run.out);
	cr_assert_eq(count_lines(text, "out 0"), 0);
	cr_assert_eq(count_lines(text, "out 1"), 1);
	cr_assert_eq(count_lines(text, "out 2"), 1);
	text = file_text(run.err);
	cr_assert_eq(count_lines(text, "err 0"), 1);
	cr_assert_eq(count_lines(text, "err 1"), 0);
}

Test(run_logs, a_single_rank_is_redirected_too)
{
	struct program run = program_files();

	program_run(
		&run, RONDO_TOOL, "--log-dir", folder, "--rdzv-id", "job", "-r", "1", SPEAK, NULL);
	assert_empty(run.out);
	assert_contains(run.err, "err 0\n");
	assert_log("job/attempt_0/0/stdout.log", "out 0\n");
	assert_log("job/attempt_0/0/stderr.log", NULL);
}

Test(run_logs, tee_writes_files_and_shows_lines_with_torchruns_prefix)
{
	struct program run = program_files();
	char *text;

	/* For an output that is in both, tee counts. */
	program_run(&run, RONDO_TOOL, "--nproc-per-node", "2", "--log-dir", folder, "--rdzv-id",
		"job", "--role", "trainer", "-t", "3", "-r", "3",
		SH("echo out $RANK; printf end; echo err $RANK >&2"), NULL);
	cr_assert_eq(run.status, 0);
	text = file_text(run.out);
	cr_assert_eq(count_lines(text, "[trainer0]:out 0"), 1, "%s", text);
	cr_assert_eq(count_lines(text, "[trainer1]:out 1"), 1, "%s", text);
	cr_assert_eq(count_lines(text, "[trainer1]:end"), 1, "%s", text);
	assert_contains(run.err, "[trainer1]:err 1\n");
	assert_log("job/attempt_0/1/stdout.log", "out 1\nend");
	assert_log("job/attempt_0/1/stderr.log", "err 1\n");
}

Test(run_logs, requested_tags_stand_in_place_of_torchruns)
{
	struct program run = program_files();

	program_run(&run, RONDO_TOOL, "--log-dir", folder, "--rdzv-id", "job", "--tee", "1",
		"--tag", SPEAK, NULL);
	assert_contains(run.out, "[0] out 0\n");
	assert_contains(run.err, "[0] err 0\n");
	assert_log("job/attempt_0/0/stdout.log", "out 0\n");
}

/* Runs with stdout at a terminal, until `wanted` comes. */
static void expect_on_terminal(const char *wanted)
{
	struct program run = program_files();
	int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	char text[4096] = "";

	cr_assert_geq(terminal, 0);
	cr_assert_eq(grantpt(terminal), 0);
	cr_assert_eq(unlockpt(terminal), 0);
	run.out = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
	cr_assert_geq(run.out, 0);
	program_run(&run, RONDO_TOOL, "--nproc-per-node", "2", "--log-dir", folder, "--rdzv-id",
		"job", "-t", "0:1", SPEAK, NULL);
	read_until(terminal, text, sizeof(text), wanted);
	cr_assert_eq(run.status, 0);
	close(run.out);
	close(terminal);
}

Test(run_logs, prefixes_have_colours_on_a_terminal)
{
	expect_on_terminal("\033[36m[default0]:\033[0mout 0\r\n");
	/* The file has no colours, and the rank's own line ends. */
	assert_log("job/attempt_0/0/stdout.log", "out 0\n");
}

Test(run_logs, no_color_turns_colours_off)
{
	setenv("NO_COLOR", "1", 1);
	expect_on_terminal("[default0]:out 0\r\n");
	setenv("NO_COLOR", "", 1);
	setenv("TERM", "dumb", 1);
	expect_on_terminal("[default0]:out 0\r\n");
}

Test(run_logs, ranks_outside_the_filter_are_not_shown)
{
	struct program run = program_files();
	char *text;

	program_run(&run, RONDO_TOOL, "--nproc-per-node", "3", "--local-ranks-filter", "0,2",
		"--log-dir", folder, "--rdzv-id", "job", "-t", "1:1", SPEAK, NULL);
	cr_assert_eq(run.status, 0);
	text = file_text(run.out);
	cr_assert_eq(count_of(text, "out"), 2, "%s", text);
	cr_assert_null(strstr(text, "out 1"));
	text = file_text(run.err);
	cr_assert_eq(count_of(text, "err"), 2, "%s", text);
	assert_log("job/attempt_0/1/stdout.log", "out 1\n");
}

Test(run_logs, a_failed_rank_that_is_not_shown_has_its_last_lines_in_the_report)
{
	struct program run = program_files();

	program_run(&run, RONDO_TOOL, "--nproc-per-node", "2", "--local-ranks-filter", "0",
		SH("[ $RANK = 0 ] && exit; echo last words >&2; exit 3"), NULL);
	cr_assert_eq(run.status, 3);
	assert_contains(run.err, "rondo-run:   | last words\n");
}

Test(run_logs, the_report_names_the_log_and_quotes_its_end)
{
	struct program run = program_files();
	char line[256];

	program_run(&run, RONDO_TOOL, "--log-dir", folder, "--rdzv-id", "job", "-r", "2",
		SH("echo last words >&2; printf '{\"message\": \"E: no\"}' "
		   ">$TORCHELASTIC_ERROR_FILE; exit 3"),
		NULL);
	cr_assert_eq(run.status, 3);
	snprintf(line, sizeof(line),
		"rondo-run:   error: E: no\nrondo-run:   log: %s/job/attempt_0/0/stderr.log\n"
		"rondo-run:   the end of its stderr:\nrondo-run:   | last words\n",
		folder);
	assert_contains(run.err, line);
	assert_log("job/attempt_0/0/error.json", "{\"message\": \"E: no\"}");
}

Test(run_logs, each_attempt_has_a_folder)
{
	struct program run = program_files();

	program_run(&run, RONDO_TOOL, "--nproc-per-node", "2", "--max-restarts", "1", "--log-dir",
		folder, "--rdzv-id", "job", "-r", "3",
		SH("echo $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ]"), NULL);
	cr_assert_eq(run.status, 0);
	assert_log("job/attempt_0/0/stdout.log", "0\n");
	assert_log("job/attempt_0/1/stdout.log", "0\n");
	assert_log("job/attempt_1/0/stdout.log", "1\n");
	assert_log("job/attempt_1/1/stderr.log", "");
}

Test(run_logs, without_a_folder_logs_go_to_a_fresh_one_under_tmpdir)
{
	struct program run = program_files();
	char *text, *path;
	char name[192];

	setenv("TMPDIR", folder, 1);
	program_run(&run, RONDO_TOOL, "--rdzv-id", "job", "-r", "1", SPEAK, NULL);
	cr_assert_eq(run.status, 0);
	text = file_text(run.err);
	path = strstr(text, "rondo-run: logs are in ");
	cr_assert_not_null(path, "%s", text);
	path += strlen("rondo-run: logs are in ") + strlen(folder) + 1;
	snprintf(name, sizeof(name), "%.*s/job/attempt_0/0/stdout.log", (int)strcspn(path, "\n"),
		path);
	assert_log(name, "out 0\n");
}

Test(run_logs, logs_of_an_earlier_run_stay)
{
	for (int i = 0; i < 3; i++) {
		struct program run = program_files();

		program_run(&run, RONDO_TOOL, "--log-dir", folder, "--rdzv-id", "job", "-r", "1",
			SH("echo out"), NULL);
		cr_assert_eq(run.status, 0);
		if (i == 2)
			assert_contains(run.err, "/job.2, for job was there\n");
	}
	assert_log("job/attempt_0/0/stdout.log", "out\n");
	assert_log("job.1/attempt_0/0/stdout.log", "out\n");
	assert_log("job.2/attempt_0/0/stdout.log", "out\n");
}

/* A run id may come from another node. */
Test(run_logs, a_run_id_does_not_lead_out_of_the_folder)
{
	static const char *const ids[] = { "../../x", "..", "", "a/b" };
	static const char *const names[] = { "_._.._x", "_.", "none", "a_b" };
	char deep[96], name[160];

	snprintf(deep, sizeof(deep), "%s/deep/deeper", folder);
	for (int i = 0; i < 4; i++) {
		struct options options = { .log_dir = deep, .redirects.all = STREAM_OUT };
		struct world world = { .local_size = 1 };
		struct console console = { 0 };
		struct rank_logs rank;
		struct logs logs;

		snprintf(world.run_id, sizeof(world.run_id), "%s", ids[i]);
		cr_assert(logs_init(&logs, &options));
		cr_assert(logs_start_attempt(&logs, &world, &console));
		cr_assert(logs_open(&logs, 0, 1, &rank));
		rank_logs_close(&rank);
		snprintf(name, sizeof(name), "deep/deeper/%s/attempt_0/0/stdout.log", names[i]);
		assert_log(name, "");
	}
}

Test(run_logs, a_rank_that_changes_its_folder_finds_its_error_file)
{
	struct program run = program_files();

	cr_assert_eq(chdir(folder), 0);
	program_run(&run, RONDO_TOOL, "--log-dir", "logs", "--rdzv-id", "job",
		SH("cd /; echo error >$TORCHELASTIC_ERROR_FILE"), NULL);
	assert_log("logs/job/attempt_0/0/error.json", "error\n");
}

/* ---- Folders and files that cannot be written ------------------------------------------------ */

static void expect_refusal(const char *log_dir, const char *wanted)
{
	struct program run = program_files();
	char *text;

	program_run(&run, RONDO_TOOL, "--log-dir", log_dir, "-r", "3", SH("echo ran >&2"), NULL);
	cr_assert_eq(run.status, 1);
	text = file_text(run.err);
	cr_assert_str_eq(text, wanted);
	assert_empty(run.out);
}

Test(run_logs, a_folder_without_permission_is_one_line)
{
	char wanted[256], path[96];

	/* Root obeys permissions, too. */
	prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0);
	cr_assert_eq(chmod(folder, 0500), 0);
	snprintf(wanted, sizeof(wanted), "rondo-run: cannot write logs to %s: Permission denied\n",
		folder);
	expect_refusal(folder, wanted);
	snprintf(path, sizeof(path), "%s/new", folder);
	snprintf(wanted, sizeof(wanted),
		"rondo-run: cannot make the folder of logs %s: Permission denied\n", path);
	expect_refusal(path, wanted);
}

Test(run_logs, a_file_in_the_way_is_one_line)
{
	char wanted[256], path[96];

	snprintf(path, sizeof(path), "%s/file", folder);
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	snprintf(wanted, sizeof(wanted), "rondo-run: cannot write logs to %s: Not a directory\n",
		path);
	expect_refusal(path, wanted);
	strcat(path, "/below");
	snprintf(wanted, sizeof(wanted),
		"rondo-run: cannot make the folder of logs %s: Not a directory\n", path);
	expect_refusal(path, wanted);
}

Test(run_logs, a_teed_file_that_cannot_be_written_takes_nothing_from_the_console)
{
	struct rlimit small = { 1000, 1000 };
	struct program run = program_files();
	int out = pipe_from(&run.out), err = pipe_from(&run.err);
	char text[40000] = "", errors[1000] = "", wanted[256];

	/* A limit of the file's size stands for a full disk. */
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	program_start(&run, RONDO_TOOL, "--nproc-per-node", "2", "--log-dir", folder, "--rdzv-id",
		"job", "-t", "1:1", SH("[ $RANK = 0 ] || seq 2000"), NULL);
	read_until(out, text, sizeof(text), "[default1]:2000\n");
	snprintf(wanted, sizeof(wanted),
		"rondo-run: cannot write %s/job/attempt_0/1/stdout.log: File too large: it misses "
		"lines of rank 1 from here on\n",
		folder);
	read_until(err, errors, sizeof(errors), wanted);
	program_finish(&run);
	cr_assert_eq(run.status, 0);
	for (const char *line = text; *line; line = strchr(line, '\n') + 1)
		cr_assert_eq(strncmp(line, "[default1]:", 11), 0);
}

#define WRITTEN 1000000

Test(run_logs, a_reader_that_leaves_takes_nothing_from_a_teed_file)
{
	struct program run = program_files();
	int out = pipe_from(&run.out), go;
	char line[64], path[96], *text;

	snprintf(path, sizeof(path), "%s/go", folder);
	cr_assert_eq(mkfifo(path, 0600), 0);
	setenv("GO", path, 1);
	program_start(&run, RONDO_TOOL, "--nproc-per-node", "2", "--log-dir", folder, "--rdzv-id",
		"job", "-t", "1",
		SH("[ $RANK = 0 ] && exit; echo first; read go <$GO; yes | head -c 1000000"), NULL);
	read_line(out, line, sizeof(line));
	cr_assert_str_eq(line, "[default1]:first");
	close(run.out);
	close(out);
	go = open(path, O_WRONLY | O_CLOEXEC);
	cr_assert_eq(write(go, "\n", 1), 1);
	close(go);
	program_finish(&run);
	cr_assert_eq(run.status, 0);
	text = log_text("job/attempt_0/1/stdout.log");
	cr_assert_not_null(text);
	cr_assert_eq(strlen(text), strlen("first\n") + WRITTEN, "%zu bytes", strlen(text));
}

Test(run_logs, nothing_stays_of_error_files_when_the_launcher_is_killed)
{
	struct program run = program_files();
	int out = pipe_from(&run.out);
	struct pollfd ends[2];

	setenv("TMPDIR", folder, 1);
	program_start(&run, RONDO_TOOL, "--nproc-per-node", "2",
		SH("echo error >$TORCHELASTIC_ERROR_FILE && echo $$; exec sleep 1000"), NULL);
	watch_processes(out, ends, 2);
	kill(run.pid, SIGKILL);
	cr_assert(all_end(ends, 2));
	program_finish(&run);
	cr_assert_eq(rmdir(folder), 0, "a file is left");
	cr_assert_eq(mkdir(folder, 0700), 0);
}
