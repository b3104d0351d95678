/* rondo-run --status: the state of ranks that run, as JSON and as Prometheus's text. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "text.h"
#include "world.h"

#define TEXT_SIZE (8 << 20) /* other tests may have thousands of comms just now */
#define LIMIT_MS 20000

/* A name that Prometheus and JSON have to escape. */
#define ODD_JOB "a \"b\" \\c"

struct report {
	char text[TEXT_SIZE];
	int status; /* of the exit */
	struct rd_json json;
};

static char job[64];

static void name_job(void)
{
	snprintf(job, sizeof(job), "status-%ld", (long)getpid());
	setenv("TORCHELASTIC_RUN_ID", job, 1);
}

TestSuite(run_status, .init = name_job, .timeout = 90);

/* ---- The output of rondo-run---------------------------------------------------------------- */

/* Runs rondo-run with these words of the shell. */
static void run_it(struct report *report, const char *words)
{
	char command[512];
	size_t size = 0;
	FILE *pipe;

	snprintf(command, sizeof(command), "%s %s 2>&1", RONDO_TOOL, words);
	pipe = popen(command, "r");
	if (pipe)
		size = fread(report->text, 1, TEXT_SIZE - 1, pipe);
	report->text[size] = 0;
	report->status = pipe ? WEXITSTATUS(pclose(pipe)) : -1;
}

/* As JSON, in which nothing else may be: also not on stderr. */
static bool ask(struct report *report, const char *words)
{
	run_it(report, words);
	return rd_json_parse(&report->json, "status", report->text, strlen(report->text)) == 0;
}

static const struct rd_json_value *member(
	const struct report *report, const struct rd_json_value *object, const char *name)
{
	return object ? rd_json_member(&report->json, object, name) : NULL;
}

static int64_t number(
	const struct report *report, const struct rd_json_value *object, const char *name)
{
	const struct rd_json_value *value = member(report, object, name);
	int64_t number;

	return value && rd_json_whole(value, 0, INT32_MAX, &number) ? number : -1;
}

static const char *text(
	const struct report *report, const struct rd_json_value *object, const char *name)
{
	const struct rd_json_value *value = member(report, object, name);

	return value && value->kind == RD_JSON_STRING ? value->text : "";
}

/* The entry whose member has this value. */
static const struct rd_json_value *entry(const struct report *report, const char *name, int wanted)
{
	const struct rd_json_value *ranks = member(report, report->json.values, "ranks");
	int at = ranks ? (int)(ranks - report->json.values) + 1 : 0;

	for (int i = 0; ranks && i < ranks->count; i++) {
		const struct rd_json_value *value = &report->json.values[at];

		if (number(report, value, name) == wanted)
			return value;
		at = value->next;
	}
	return NULL;
}

/* Entries that are not well: other tests may have such ranks just now. */
static int count_ill(const struct report *report)
{
	return count_of(report->text, "\"answers\":false") + count_of(report->text, "\"error\"");
}

static const char *of_this_job(void)
{
	static char words[128];

	snprintf(words, sizeof(words), "--status --rdzv-id %s", job);
	return words;
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

static bool both_wait(const struct report *report)
{
	const struct rd_json_value *first = entry(report, "rank", 0);
	const struct rd_json_value *last = entry(report, "rank", 2);

	return entry(report, "rank", 1) &&
	       number(report, member(report, first, "wait"), "ms") > 0 &&
	       number(report, member(report, last, "wait"), "ms") > 0 &&
	       number(report, first, "calls") == 2 && number(report, last, "calls") == 2;
}

static int check_late(struct rank_env *env, const struct report *report)
{
	const struct rd_json_value *late = entry(report, "rank", 1);
	const struct rd_json_value *first = entry(report, "rank", 0);
	const struct rd_json_value *last_call = member(report, first, "last_call");
	const struct rd_json_value *wait = member(report, first, "wait");

	if (number(report, late, "calls") != 1 || number(report, late, "calls_done") != 1 ||
		number(report, late, "pid") != getpid() || member(report, late, "wait") ||
		number(report, late, "size") != 3 ||
		strcmp(text(report, late, "phase"), "open") != 0 ||
		strcmp(text(report, late, "job"), job) != 0)
		return world_report(env, "of rank 1: %.400s", report->text);
	if (number(report, first, "calls_done") != 1 || number(report, last_call, "number") != 2 ||
		strcmp(text(report, last_call, "collective"), "barrier") != 0 ||
		!strstr(text(report, last_call, "at"), "test_run_status+0x") ||
		!strstr(text(report, wait, "at"), "test_run_status+0x") ||
		strlen(text(report, first, "comm")) != 16 ||
		strcmp(text(report, first, "comm"), text(report, late, "comm")) != 0)
		return world_report(env, "of rank 0: %.400s", report->text);
	if (count_ill(report) ? report->status != 1 : report->status != 0)
		return world_report(env, "exit status %d: %.400s", report->status, report->text);
	return 0;
}

/* Rank 1 stays away from the second barrier until the status says that the others are in it. */
static int join_late(struct rank_env *env)
{
	static struct report report;
	int64_t end_ms = world_now_ms() + LIMIT_MS;
	int wrong = 0;

	TRY(env->create_error);
	TRY(rondo_barrier(env->comm, NULL));
	while (env->rank == 1 && !wrong) {
		if (!ask(&report, of_this_job()))
			wrong = world_report(env, "no JSON: %.400s", report.text);
		else if (both_wait(&report))
			break;
		else if (world_now_ms() > end_ms)
			wrong = world_report(env, "nobody waits: %.400s", report.text);
		rd_json_finish(&report.json);
	}
	if (env->rank == 1 && !wrong) {
		wrong = check_late(env, &report);
		rd_json_finish(&report.json);
	}
	TRY(rondo_barrier(env->comm, NULL));
	return wrong;
}

Test(run_status, shows_who_waits_and_who_has_not_joined)
{
	WORLD_TRY(join_late, .size = 3);
}

/* Whether this thread of a process is stopped: proc(5). */
static bool is_stopped(pid_t pid, const char *thread)
{
	char path[300], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", (int)pid, thread);
	file = fopen(path, "r");
	if (file && fscanf(file, "%*[^)]) %c", &state) != 1)
		state = 0;
	if (file)
		fclose(file);
	return state == 'T';
}

/* A signal reaches threads one by one: waits until all have stopped. */
static bool await_stop(pid_t pid)
{
	int64_t end_ms = world_now_ms() + LIMIT_MS;
	bool all;

	do {
		char path[64];
		DIR *threads;

		snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
		threads = opendir(path);
		all = threads != NULL;
		for (struct dirent *at; threads && (at = readdir(threads));)
			all = all && (at->d_name[0] == '.' || is_stopped(pid, at->d_name));
		if (threads)
			closedir(threads);
	} while (!all && world_now_ms() < end_ms && poll(NULL, 0, 1) == 0);
	return all;
}

/* Rank 0 asks while rank 1 is stopped. */
static int stop_one(struct rank_env *env)
{
	static struct report report;
	const struct rd_json_value *silent;
	int32_t own = (int32_t)getpid(), pids[2];
	bool whole;
	int wrong = 0;

	TRY(env->create_error);
	TRY(rondo_all_gather(env->comm, &own, pids, 1, RONDO_I32, NULL));
	if (env->rank == 0) {
		kill(pids[1], SIGSTOP);
		if (!await_stop(pids[1]))
			wrong = world_report(env, "rank 1 does not stop");
		whole = ask(&report, of_this_job());
		kill(pids[1], SIGCONT);
		silent = whole ? entry(&report, "pid", pids[1]) : NULL;
		if (!wrong && (!silent || !member(&report, silent, "answers") ||
				      member(&report, silent, "answers")->kind != RD_JSON_FALSE ||
				      !entry(&report, "rank", 0) || report.status != 1))
			wrong = world_report(env, "%d: %.400s", report.status, report.text);
		rd_json_finish(&report.json);
	}
	TRY(rondo_barrier(env->comm, NULL));
	return wrong;
}

Test(run_status, shows_a_process_that_is_stopped)
{
	WORLD_TRY(stop_one, .size = 2);
}

static int fail_all(struct rank_env *env)
{
	static struct report report;
	const struct rd_json_value *own;
	int64_t end_ms = world_now_ms() + LIMIT_MS;
	int wrong = 0;

	TRY(env->create_error);
	/* A rank may have the error here already. */
	rondo_barrier(env->comm, NULL);
	if (env->rank == 1)
		rondo_comm_revoke(env->comm, "the loss is \"NaN\"");
	while (rondo_comm_error(env->comm) == 0 && world_now_ms() < end_ms)
		poll(NULL, 0, 1);
	if (!ask(&report, of_this_job()) || report.status != 1)
		wrong = world_report(env, "%d: %.400s", report.status, report.text);
	own = wrong ? NULL : entry(&report, "pid", getpid());
	if (!wrong && (strcmp(text(&report, own, "phase"), "failed") != 0 ||
			      strcmp(text(&report, own, "error"), "RONDO_REVOKED") != 0 ||
			      !strstr(text(&report, own, "reason"), "the loss is \"NaN\"")))
		wrong = world_report(env, "%.400s", report.text);
	rd_json_finish(&report.json);
	return wrong;
}

Test(run_status, shows_why_a_comm_has_failed)
{
	WORLD_TRY(fail_all, .size = 3, .quiet = true);
}

/* Those of this process's sockets that listen, or all. A connection has the name of its listener,
   and may not be closed yet when its other end has read all. */
static int count_sockets(bool listening)
{
	char name[64], line[512];
	FILE *file = fopen("/proc/net/unix", "r");
	int count = 0;

	snprintf(name, sizeof(name), "@rondo-status.%d.", (int)getpid());
	while (file && fgets(line, sizeof(line), file))
		count += strstr(line, name) && (!listening || strstr(line, " 00010000 "));
	if (file)
		fclose(file);
	return count;
}

static int leave(struct rank_env *env)
{
	rondo_comm *second;
	int err = world_second_comm(env, &second);

	if (err)
		return err;
	if (!count_sockets(false))
		return world_report(env, "no socket");
	TRY(rondo_comm_destroy(second));
	TRY(world_leave(env));
	return count_sockets(false) ? world_report(env, "a socket is left") : 0;
}

Test(run_status, leaves_no_socket_behind)
{
	WORLD_TRY(leave, .size = 2);
}

/* ---- Many comms ------------------------------------------------------------------------------ */

#define COMMS 20

/* Entries of this process: one for each of its comms. */
static int check_comms(struct rank_env *env, int wanted)
{
	static struct report report;
	const struct rd_json_value *ranks, *value;
	const char *comms[COMMS];
	int count = 0, wrong = 0;

	if (!ask(&report, of_this_job()))
		wrong = world_report(env, "no JSON: %.400s", report.text);
	ranks = wrong ? NULL : member(&report, report.json.values, "ranks");
	value = ranks + 1;
	for (int i = 0; ranks && i < ranks->count && count < COMMS; i++) {
		if (number(&report, value, "pid") == getpid())
			comms[count++] = text(&report, value, "comm");
		value = &report.json.values[value->next];
	}
	for (int i = 0; i < count && !wrong; i++)
		for (int k = 0; k < i && !wrong; k++)
			if (strcmp(comms[i], comms[k]) == 0)
				wrong = world_report(env, "comm %s twice", comms[i]);
	rd_json_finish(&report.json);
	if (!wrong && (count != wanted || count_sockets(true) != 1))
		wrong = world_report(env, "%d comms, %d sockets", count, count_sockets(true));
	return wrong;
}

static int make_many(struct rank_env *env)
{
	rondo_comm *comms[COMMS] = { env->comm };

	TRY(env->create_error);
	for (int i = 1; i < COMMS; i++)
		TRY(rondo_comm_duplicate(comms[i / 2], &comms[i]));
	if (env->rank == 0 && check_comms(env, COMMS))
		return 1;
	/* The first one goes, too. */
	for (int i = 0; i < COMMS - 3; i++)
		TRY(rondo_comm_destroy(comms[i]));
	env->comm = NULL;
	if (env->rank == 0 && check_comms(env, 3))
		return 1;
	for (int i = COMMS - 3; i < COMMS; i++)
		TRY(rondo_comm_destroy(comms[i]));
	return count_sockets(false) ? world_report(env, "a socket is left") : 0;
}

Test(run_status, shows_each_comm_at_one_socket_of_the_job)
{
	WORLD_TRY(make_many, .size = 2);
}

/* ---- Prometheus ------------------------------------------------------------------------------ */

static bool is_name(char byte)
{
	return isalnum((unsigned char)byte) || byte == '_';
}

/* Reads one label, NAME="VALUE" with its escapes, and moves behind it. NULL: it is none. */
static const char *read_label(const char *at, char *value, size_t size)
{
	size_t length = 0;

	while (is_name(*at))
		at++;
	if (strncmp(at, "=\"", 2) != 0)
		return NULL;
	for (at += 2; *at && *at != '"' && *at != '\n' && length < size - 1; at++) {
		if (*at == '\\' && !strchr("\\\"n", *++at))
			return NULL;
		value[length++] = at[-1] == '\\' && *at == 'n' ? '\n' : *at;
	}
	value[length] = 0;
	return *at == '"' ? at + 1 : NULL;
}

/* Reads one line, NAME{LABELS} NUMBER, whose job has the odd name. */
static bool read_sample(const char *line, char name[64], double *number)
{
	char value[256];
	size_t length = 0;
	char *end;

	while (is_name(line[length]) && length < 63)
		length++;
	memcpy(name, line, length);
	name[length] = 0;
	if (length == 0 || line[length] != '{')
		return false;
	for (line += length; *line == '{' || *line == ',';) {
		bool of_job = strncmp(line + 1, "job=", 4) == 0;

		line = read_label(line + 1, value, sizeof(value));
		if (!line || (of_job && strcmp(value, ODD_JOB) != 0))
			return false;
	}
	if (strncmp(line, "} ", 2) != 0)
		return false;
	*number = strtod(line + 2, &end);
	return end > line + 2 && *end == '\n';
}

/* Reads the lines: comments name each metric before its samples. Takes those of this process. */
static int read_metrics(struct rank_env *env, const char *lines, double values[5])
{
	static const char *const names[] = { "rondo_rank_up", "rondo_comm_failed",
		"rondo_calls_total", "rondo_calls_done_total", "rondo_wait_seconds" };
	static const char *const types[] = { "gauge", "gauge", "counter", "counter", "gauge" };
	char name[64], wanted[128], own[32];
	int metric = -1;
	double number;

	snprintf(own, sizeof(own), "pid=\"%d\",job=", (int)getpid());
	for (const char *line = lines; *line; line = strchr(line, '\n') + 1) {
		if (strncmp(line, "# HELP ", 7) == 0) {
			metric++;
			snprintf(wanted, sizeof(wanted), "\n# TYPE %s %s\n", names[metric],
				types[metric]);
			if (metric == 5 ||
				strncmp(line + 7, names[metric], strlen(names[metric])) != 0 ||
				strncmp(strchr(line, '\n'), wanted, strlen(wanted)) != 0)
				return world_report(env, "metric %d: %.300s", metric, line);
			line = strchr(line, '\n') + 1;
			continue;
		}
		/* Those of other jobs have no odd name. */
		if (!strstr(line, own) || strstr(line, own) > strchr(line, '\n'))
			continue;
		if (!read_sample(line, name, &number) || strcmp(name, names[metric]) != 0)
			return world_report(env, "a sample: %.300s", line);
		values[metric] = number;
	}
	return metric == 4 ? 0 : world_report(env, "%d metrics", metric + 1);
}

static int print_metrics(struct rank_env *env)
{
	static struct report report;
	double values[5] = { -1, -1, -1, -1, -1 };
	int wrong;

	TRY(env->create_error);
	TRY(rondo_barrier(env->comm, NULL));
	if (env->rank == 0)
		run_it(&report, "--prometheus");
	wrong = env->rank == 0 ? read_metrics(env, report.text, values) : 0;
	if (env->rank == 0 && !wrong &&
		(values[0] != 1 || values[1] != 0 || values[2] != 1 || values[3] != 1 ||
			values[4] != 0))
		wrong = world_report(env, "%g %g %g %g %g", values[0], values[1], values[2],
			values[3], values[4]);
	TRY(rondo_barrier(env->comm, NULL));
	return wrong;
}

Test(run_status, prints_the_text_of_prometheus)
{
	struct world world = { .size = 2 };

	setenv("TORCHELASTIC_RUN_ID", ODD_JOB, 1);
	cr_assert_eq(world_run(&world, print_metrics, NULL, NULL), 0);
}

/* ---- Arguments ------------------------------------------------------------------------------- */

Test(run_status, has_nothing_to_show_of_a_job_that_is_not_there)
{
	static struct report report;

	run_it(&report, "--status --rdzv-id no-such-job");
	cr_expect_eq(report.status, 1);
	/* Ranks of other tests that do not answer may be of any job. */
	if (!strstr(report.text, "\"answers\":false"))
		cr_expect(strstr(report.text, "rondo-run: this user has no rank of job "
					      "\"no-such-job\" on this host\n"),
			"%s", report.text);
}

Test(run_status, refuses_what_it_would_ignore)
{
	static struct report report;

	run_it(&report, "--status true");
	cr_expect_eq(report.status, 2);
	cr_expect(strstr(report.text, "--status goes without a program"), "%s", report.text);
	run_it(&report, "--prometheus --hosts a,b");
	cr_expect_eq(report.status, 2);
	cr_expect(strstr(report.text, "run it on each of them"), "%s", report.text);
	run_it(&report, "--status >/dev/full");
	cr_expect_eq(report.status, 1);
}
