/* rondo-run --status among other users, and processes that lie: nobody learns or forges a thing. */
#include <criterion/criterion.h>
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

#include "program.h"
#include "run/status/ask.h"
#include "text.h"
#include "world.h"
#include "transports/contract/leaks.h"

#define LIMIT_MS 20000

TestSuite(run_status_neighbours, .timeout = 90);

static socklen_t address_of(struct sockaddr_un *at, pid_t pid, const char *name)
{
	int length;

	*at = (struct sockaddr_un){ .sun_family = AF_UNIX };
	length = snprintf(
		at->sun_path + 1, sizeof(at->sun_path) - 1, "rondo-status.%d.%s", (int)pid, name);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)length;
}

/* To the first socket of a rank's process, whose place the program gave. */
static int connect_to(pid_t pid)
{
	struct sockaddr_un at;
	socklen_t size = address_of(&at, pid, "0.0000000000000000");
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (struct sockaddr *)&at, size) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Connections that read nothing, and some that are closed at once, harm nobody. */
static int be_asked_much(struct rank_env *env)
{
	int fds[64], before, wrong = 0;
	char byte;

	TRY(env->create_error);
	TRY(rondo_barrier(env->comm, NULL));
	before = contract_open_files();
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
	/* The rank answers in turn: behind the thousand. */
	fds[0] = connect_to(getpid());
	if (fds[0] < 0 || read(fds[0], &byte, 1) != 1)
		wrong = world_report(env, "the last connection has no answer");
	close(fds[0]);
	for (int i = 0; contract_open_files() > before && i < LIMIT_MS; i++)
		poll(NULL, 0, 1);
	if (!wrong && contract_open_files() > before)
		wrong = world_report(env, "%d files, then %d", before, contract_open_files());
	return wrong;
}

Test(run_status_neighbours, is_no_burden_to_a_rank_that_many_ask)
{
	WORLD_TRY(be_asked_much, .size = 2);
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

Test(run_status_neighbours, tells_another_user_nothing)
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
Test(run_status_neighbours, believes_no_nonsense)
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
		{ "second", "{\"rank\":0,\"size\":2}\n{\"rank\":1}\n" },
		{ "cut", "{\"rank\":0,\"size\":2}\n{\"rank\":1,\"size\":2}" },
		{ "\x1b[2J", "\n" },
	};
	struct program run = program_files();
	int count = (int)(sizeof(liars) / sizeof(*liars)), status;
	char wanted[64], *text;
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
	program_run(&run, RONDO_TOOL, "--status", "--rdzv-id", "no-such-job", NULL);
	text = file_text(run.out);
	snprintf(wanted, sizeof(wanted), "{\"pid\":%d,\"answers\":false}", (int)child);
	cr_expect_eq(count_of(text, wanted), count, "%s", text);
	cr_expect_eq(run.status, 1);
	run = program_files();
	program_run(&run, RONDO_TOOL, "--prometheus", NULL);
	cr_expect_eq(run.status, 1);
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
Test(run_status_neighbours, asks_no_other_user)
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
