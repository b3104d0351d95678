/* rondo-run --status: the state of ranks that run, as JSON and as Prometheus's text. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "run/status/ask.h"
#include "text.h"
#include "world.h"

#define TEXT_SIZE 65536
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

	return number(report, member(report, first, "wait"), "ms") > 0 &&
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
	struct world world = { .size = 3 };

	cr_assert_eq(world_run(&world, join_late, NULL, NULL), 0);
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
		waitid(P_PID, (id_t)pids[1], &(siginfo_t){ 0 }, WSTOPPED | WNOWAIT);
		whole = ask(&report, of_this_job());
		kill(pids[1], SIGCONT);
		silent = whole ? entry(&report, "pid", pids[1]) : NULL;
		if (!silent || !member(&report, silent, "answers") ||
			member(&report, silent, "answers")->kind != RD_JSON_FALSE ||
			!entry(&report, "rank", 0) || report.status != 1)
			wrong = world_report(env, "%d: %.400s", report.status, report.text);
		rd_json_finish(&report.json);
	}
	TRY(rondo_barrier(env->comm, NULL));
	return wrong;
}

Test(run_status, shows_a_process_that_is_stopped)
{
	struct world world = { .size = 2 };

	cr_assert_eq(world_run(&world, stop_one, NULL, NULL), 0);
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
	struct world world = { .size = 3, .quiet = true };

	cr_assert_eq(world_run(&world, fail_all, NULL, NULL), 0);
}

/* Whether a socket of this process is there. */
static bool has_socket(void)
{
	char name[64], line[512];
	FILE *file = fopen("/proc/net/unix", "r");
	bool found = false;

	snprintf(name, sizeof(name), "@rondo-status.%d.", (int)getpid());
	while (file && fgets(line, sizeof(line), file))
		found = found || strstr(line, name);
	if (file)
		fclose(file);
	return found;
}

static int leave(struct rank_env *env)
{
	rondo_comm *second;
	int err = world_second_comm(env, &second);

	if (err)
		return err;
	if (!has_socket())
		return world_report(env, "no socket");
	TRY(rondo_comm_destroy(second));
	TRY(rondo_comm_destroy(env->comm));
	env->comm = NULL;
	return has_socket() ? world_report(env, "a socket is left") : 0;
}

Test(run_status, leaves_no_socket_behind)
{
	struct world world = { .size = 2 };

	cr_assert_eq(world_run(&world, leave, NULL, NULL), 0);
}

/* ---- Neighbours ------------------------------------------------------------------------------ */

static socklen_t address_of(struct sockaddr_un *at, pid_t pid, const char *name)
{
	int length;

	*at = (struct sockaddr_un){ .sun_family = AF_UNIX };
	length = snprintf(
		at->sun_path + 1, sizeof(at->sun_path) - 1, "rondo-status.%d.%s", (int)pid, name);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)length;
}

/* To the first socket of a rank's process. */
static int connect_to(pid_t pid)
{
	struct sockaddr_un at;
	socklen_t size = address_of(&at, pid, "0");
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (struct sockaddr *)&at, size) == 0)
		return fd;
	close(fd);
	return -1;
}

static int count_files(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int count = 0;

	while (directory && readdir(directory))
		count++;
	if (directory)
		closedir(directory);
	return count;
}

/* Connections that read nothing, and some that are closed at once, harm nobody. */
static int be_asked_much(struct rank_env *env)
{
	int fds[64], before, wrong = 0;
	char byte;

	TRY(env->create_error);
	TRY(rondo_barrier(env->comm, NULL));
	before = count_files();
	for (int i = 0; i < 64; i++)
		fds[i] = connect_to(getpid());
	for (int i = 0; i < 1000; i++)
		close(connect_to(getpid()));
	wrong = world_sum_one(env);
	for (int i = 0; i < 64 && !wrong; i++)
		if (fds[i] < 0 || read(fds[i], &byte, 1) != 1 || byte != '{')
			wrong = world_report(env, "connection %d has no answer", i);
	for (int i = 0; i < 64; i++)
		close(fds[i]);
	/* The last of the thousand may still wait for their turn. */
	for (int i = 0; count_files() > before && i < LIMIT_MS; i++)
		poll(NULL, 0, 1);
	if (!wrong && count_files() > before)
		wrong = world_report(env, "%d files, then %d", before, count_files());
	return wrong;
}

Test(run_status, is_no_burden_to_a_rank_that_many_ask)
{
	struct world world = { .size = 2 };

	cr_assert_eq(world_run(&world, be_asked_much, NULL, NULL), 0);
}

/* As a child of the rank: 0 where the rank tells it nothing, and root something. */
static int ask_as_nobody(pid_t rank)
{
	char byte;
	int fd = connect_to(rank);

	if (read(fd, &byte, 1) != 1)
		return 1;
	close(fd);
	if (setgid(65534) || setuid(65534))
		return 2;
	fd = connect_to(rank);
	return fd >= 0 && read(fd, &byte, 1) == 1 ? 3 : 0;
}

static int be_asked_by_another(struct rank_env *env)
{
	int status = 0;
	pid_t child;

	TRY(env->create_error);
	child = fork();
	if (child == 0)
		_exit(ask_as_nobody(getppid()));
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		return world_report(env, "the child: %d", WEXITSTATUS(status));
	return 0;
}

Test(run_status, tells_another_user_nothing)
{
	struct world world = { .size = 2 };

	if (geteuid() != 0)
		cr_skip("root alone becomes another user");
	cr_assert_eq(world_run(&world, be_asked_by_another, NULL, NULL), 0);
}

/* A socket that looks like a rank's. */
static int listen_as(const char *name)
{
	struct sockaddr_un at;
	socklen_t size = address_of(&at, getpid(), name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert(fd >= 0 && bind(fd, (struct sockaddr *)&at, size) == 0 && listen(fd, 8) == 0);
	return fd;
}

struct liar {
	const char *name;
	const char *text; /* NULL: no end of it; "": it does not answer */
};

static void *lie(void *argument)
{
	const struct liar *liar = argument;
	char junk[4096];
	int fd, listener = listen_as(liar->name);

	memset(junk, '[', sizeof(junk));
	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		if (!liar->text)
			while (send(fd, junk, sizeof(junk), MSG_NOSIGNAL) > 0)
				;
		else if (*liar->text)
			send(fd, liar->text, strlen(liar->text), MSG_NOSIGNAL);
		if (!liar->text || *liar->text)
			close(fd);
	}
	return NULL;
}

/* Anything but a status counts as no answer. */
Test(run_status, believes_no_nonsense)
{
	static const struct liar liars[] = {
		{ "endless", NULL },
		{ "silent", "" },
		{ "words", "hello\n" },
		{ "part", "{\"rank\":0,\"size\":1" },
		{ "lines", "{\"rank\":0,\n\"size\":1}\n" },
		{ "behind", "{\"rank\":0,\"size\":1} {}\n" },
		{ "no-rank", "{\"size\":1}\n" },
		{ "rank", "{\"rank\":-1,\"size\":1}\n" },
		{ "array", "[0,1]\n" },
		{ "\x1b[2J", "\n" },
	};
	struct report report;
	int count = (int)(sizeof(liars) / sizeof(*liars)), status;
	char wanted[64];
	int ready[2];
	pid_t child;

	cr_assert_eq(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		pthread_t threads[16];

		for (int i = 0; i < count; i++)
			pthread_create(&threads[i], NULL, lie, (void *)&liars[i]);
		/* Their sockets are there once they can be reached. */
		for (int i = 0; i < count; i++) {
			struct sockaddr_un at;
			socklen_t size = address_of(&at, getpid(), liars[i].name);
			int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

			while (connect(fd, (struct sockaddr *)&at, size))
				sched_yield();
			close(fd);
		}
		if (write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	cr_assert(read(ready[0], wanted, 1) == 1);
	cr_assert(ask(&report, of_this_job()), "%s", report.text);
	snprintf(wanted, sizeof(wanted), "{\"pid\":%d,\"answers\":false}", (int)child);
	cr_expect_eq(count_of(report.text, wanted), count, "%s", report.text);
	cr_expect_eq(report.status, 1);
	rd_json_finish(&report.json);
	run_it(&report, "--prometheus");
	cr_expect_eq(report.status, 1);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
}

static bool lists(pid_t pid)
{
	struct statuses statuses;
	bool found = false;

	cr_assert(statuses_ask(&statuses, NULL));
	for (int i = 0; i < statuses.count; i++)
		found = found || statuses.list[i].pid == pid;
	statuses_finish(&statuses);
	return found;
}

/* Another user could claim anything of ranks. */
Test(run_status, asks_no_other_user)
{
	static const struct liar forged = { "forged", "{\"rank\":0,\"size\":1}\n" };
	pthread_t thread;

	if (geteuid() != 0)
		cr_skip("root alone becomes another user");
	cr_assert_eq(pthread_create(&thread, NULL, lie, (void *)&forged), 0);
	while (!lists(getpid()))
		sched_yield();
	/* This thread alone; listen() noted root. */
	cr_assert_eq(syscall(SYS_setresuid, 65534, 65534, 0), 0);
	cr_expect(!lists(getpid()));
	cr_assert_eq(syscall(SYS_setresuid, 0, 0, 0), 0);
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
	struct report report;

	run_it(&report, "--status --rdzv-id no-such-job 2>&1 >/dev/null");
	cr_expect_eq(report.status, 1);
	if (*report.text)
		cr_expect_str_eq(report.text,
			"rondo-run: this user has no rank of job \"no-such-job\" on this host\n");
}

Test(run_status, refuses_what_it_would_ignore)
{
	struct report report;

	run_it(&report, "--status true");
	cr_expect_eq(report.status, 2);
	cr_expect(strstr(report.text, "--status goes without a program"), "%s", report.text);
	run_it(&report, "--prometheus --hosts a,b");
	cr_expect_eq(report.status, 2);
	cr_expect(strstr(report.text, "run it on each of them"), "%s", report.text);
	run_it(&report, "--status >/dev/full");
	cr_expect_eq(report.status, 1);
}
