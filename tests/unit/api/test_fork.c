/* A rank's forked child: its calls on the parent's objects are refused, and harm no call there. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "free_port.h"
#include "world.h"
#include "transports/contract/leaks.h"

#define CALLS 50
#define COUNT 3000
/* A child that hangs must not outlive the test. */
#define CHILD_S 40

/* A child's report, in memory that it shares with its parent. */
struct child_report {
	char text[WORLD_TEXT];
};

static struct child_report *shared(void)
{
	void *memory = mmap(NULL, sizeof(struct child_report), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* In a child: 1, with a report, unless the call was refused correctly. */
static int refused(struct child_report *report, const char *what, int err)
{
	const char *reason = rondo_last_error();

	if (err == RONDO_INVALID && strstr(reason, "was made before fork()"))
		return 0;
	snprintf(report->text, sizeof(report->text), "%s: %s: %s", what, rondo_error_name(err),
		reason);
	return 1;
}

#define REFUSED(call) \
	do { \
		if (refused(report, #call, (call))) \
			return 1; \
	} while (0)

static int child_fails(struct child_report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int child_fails(struct child_report *report, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(report->text, sizeof(report->text), format, args);
	va_end(args);
	return 1;
}

/* Epolls and eventfds of this process. */
static int count_events(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int count = 0;

	while (dir && (entry = readdir(dir))) {
		char target[32] = "";

		if (readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1) > 0)
			count += strncmp(target, "anon_inode:[event", 17) == 0;
	}
	closedir(dir);
	return count;
}

static int events_before; /* in the process that forks the ranks */

/* The objects of a rank when it forks. */
struct estate {
	rondo_comm *comm, *second;
	rondo_stream *stream;
	int fds; /* before it made the second comm */
};

static float values[COUNT];

static int use_the_parents(const struct estate *estate, struct child_report *report)
{
	rondo_comm *comm = estate->comm, *part;
	float from[COUNT] = { 0 };
	size_t sizes[2];
	void *gathered;
	rondo_op op;

	for (int i = 0; i < CALLS; i++)
		REFUSED(rondo_all_reduce(comm, from, values, COUNT, RONDO_F32, RONDO_SUM, NULL));
	REFUSED(rondo_barrier(comm, NULL));
	REFUSED(rondo_send(comm, from, 1, RONDO_F32, 1 - rondo_comm_rank(comm), NULL));
	REFUSED(rondo_recv(comm, values, 1, RONDO_F32, 1 - rondo_comm_rank(comm), NULL));
	REFUSED(rondo_gather_bytes(comm, "", 1, NULL, sizes, 1 - rondo_comm_rank(comm)));
	REFUSED(rondo_all_gather_bytes(comm, "", 1, &gathered, sizes));
	REFUSED(rondo_barrier(comm, estate->stream));
	REFUSED(rondo_comm_split(comm, 0, 0, &part));
	REFUSED(rondo_comm_duplicate(comm, &part));
	REFUSED(rondo_op_create_premul(comm, &op, from, RONDO_F32));
	REFUSED(rondo_comm_error(comm));
	REFUSED(rondo_comm_revoke(comm, "a child's wish"));
	REFUSED(rondo_comm_finalize(comm));
	rondo_group_start();
	REFUSED(rondo_barrier(comm, NULL));
	REFUSED(rondo_group_end());
	return 0;
}

static void nothing(void *argument)
{
	(void)argument;
}

static int destroy_the_parents(const struct estate *estate, struct child_report *report)
{
	int fds;

	REFUSED(rondo_stream_call(estate->stream, nothing, NULL));
	REFUSED(rondo_stream_synchronize(estate->stream));
	REFUSED(rondo_stream_query(estate->stream));
	rondo_stream_destroy(estate->stream);
	if (rondo_comm_destroy(estate->second))
		return child_fails(report, "destroy: %s", rondo_last_error());
	fds = contract_open_files();
	if (fds > estate->fds) /* fewer: fork() closed connections of the first comm */
		return child_fails(
			report, "%d descriptors after destroy, %d before", fds, estate->fds);
	if (rondo_comm_destroy(estate->comm))
		return child_fails(report, "destroy: %s", rondo_last_error());
	return count_events() == events_before
		       ? 0
		       : child_fails(report, "%d epolls and eventfds, %d before", count_events(),
				 events_before);
}

/* A comm of one rank, with a stream and a group: a child may create these. */
static int make_own(struct child_report *report)
{
	struct rondo_config config = world_config(0, 1, free_port());
	rondo_comm *comm;
	rondo_stream *stream;
	int32_t value = 7;
	void *memory;
	int err;

	err = rondo_comm_create(&comm, &config);
	if (!err)
		err = rondo_stream_create(&stream);
	if (err)
		return child_fails(report, "create: %s", rondo_last_error());
	rondo_group_start();
	err = rondo_all_reduce(comm, &value, &value, 1, RONDO_I32, RONDO_SUM, stream);
	if (rondo_group_end() || err || rondo_stream_synchronize(stream) || value != 7)
		return child_fails(report, "its own call: %s", rondo_last_error());
	if (rondo_mem_alloc(&memory, 4096) || rondo_mem_free(memory))
		return child_fails(report, "its own memory: %s", rondo_last_error());
	rondo_stream_destroy(stream);
	return rondo_comm_destroy(comm)
		       ? child_fails(report, "its own comm: %s", rondo_last_error())
		       : 0;
}

static int child(const struct estate *estate, struct child_report *report)
{
	int err = make_own(report);

	if (!err)
		err = use_the_parents(estate, report);
	return err ? err : destroy_the_parents(estate, report);
}

/* All ranks sum, while a child of rank 0 makes its calls. */
static int add_up(struct rank_env *env)
{
	for (int i = 0; i < CALLS; i++) {
		for (int k = 0; k < COUNT; k++)
			values[k] = (float)(i + env->rank + k % 5);
		TRY(rondo_all_reduce(env->comm, values, values, COUNT, RONDO_F32, RONDO_SUM, NULL));
		for (int k = 0; k < COUNT; k++)
			if (values[k] != (float)(2 * i + 1 + 2 * (k % 5)))
				return world_report(env, "sum %d is wrong", i);
	}
	return 0;
}

static int end_of(struct rank_env *env, pid_t pid, const struct child_report *report)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return world_report(env, "cannot fork, or wait");
	if (status != 0)
		return world_report(env, "the child: status %x: %s", status, report->text);
	return 0;
}

static int fork_amid_calls(struct rank_env *env)
{
	struct estate estate = { .comm = env->comm, .fds = contract_open_files() };
	struct child_report *report = shared();
	pid_t pid = 0;
	int err;

	err = world_second_comm(env, &estate.second);
	if (err)
		return err;
	TRY(rondo_stream_create(&estate.stream));
	TRY(rondo_barrier(estate.comm, estate.stream));
	TRY(rondo_stream_synchronize(estate.stream));
	if (env->rank == 0)
		pid = fork();
	if (env->rank == 0 && pid == 0) {
		alarm(CHILD_S);
		_exit(child(&estate, report));
	}
	err = add_up(env);
	if (env->rank == 0 && !err)
		err = end_of(env, pid, report);
	/* The child's destroys have no effect here. */
	if (!err)
		err = add_up(env);
	if (err)
		return err;
	TRY(rondo_barrier(estate.comm, estate.stream));
	TRY(rondo_stream_synchronize(estate.stream));
	rondo_stream_destroy(estate.stream);
	TRY(rondo_barrier(estate.second, NULL));
	TRY(rondo_comm_destroy(estate.second));
	munmap(report, sizeof(*report));
	return 0;
}

static void run(const char *transport, int (*body)(struct rank_env *env))
{
	struct world world = { .size = 2, .transport = transport, .timeout_ms = 20000 };

	events_before = count_events();
	cr_assert_eq(world_run(&world, body, NULL, NULL), 0);
}

Test(fork, a_child_is_refused_its_parents_comm_and_harms_no_call_of_it, .timeout = 120)
{
	run("shm", fork_amid_calls);
	run("tcp", fork_amid_calls);
}

/* ---- Within a call --------------------------------------------------------------------------- */

static struct rank_env *calling;
static pid_t forked;

/* Forks within the call, which the child neither ends nor takes apart. */
static void fork_and_add(
	void *into, const void *a, const void *b, size_t count, rondo_type type, void *argument)
{
	int before;

	(void)type;
	(void)argument;
	for (size_t i = 0; i < count; i++)
		((int32_t *)into)[i] = ((const int32_t *)a)[i] + ((const int32_t *)b)[i];
	if (forked)
		return;
	forked = fork();
	if (forked)
		return;
	alarm(CHILD_S);
	before = count_events();
	rondo_comm_destroy(calling->comm);
	_exit(before > 0 && count_events() == before ? 0 : 1);
}

static int fork_within_a_call(struct rank_env *env)
{
	struct child_report report = { "" };
	int32_t sum = 1;
	rondo_op op;

	calling = env;
	TRY(rondo_op_create(env->comm, &op, fork_and_add, 0, NULL));
	TRY(rondo_all_reduce(env->comm, &sum, &sum, 1, RONDO_I32, op, NULL));
	if (forked && end_of(env, forked, &report))
		return 1;
	return sum == 2 ? 0 : world_report(env, "the sum is %d", sum);
}

Test(fork, a_child_takes_no_call_apart_that_its_parent_is_in, .timeout = 120)
{
	run("shm", fork_within_a_call);
	run("tcp", fork_within_a_call);
}

/* In rondo_comm_destroy(), which ends the message: the child's memory is as it was. */
static void fork_and_destroy(void *argument, int error)
{
	struct rank_env *env = argument;
	size_t before;

	(void)error;
	forked = fork();
	if (forked != 0)
		return;
	alarm(CHILD_S);
	before = mallinfo2().uordblks;
	_exit(rondo_comm_destroy(env->comm) || mallinfo2().uordblks < before);
}

static int fork_within_destroy(struct rank_env *env)
{
	struct child_report report = { "" };
	rondo_request *receive;
	char in;

	TRY(rondo_recv_tagged(env->comm, &in, 1, RONDO_ANY_SOURCE, 1, &receive));
	TRY(rondo_request_start(receive, fork_and_destroy, env));
	world_leave(env);
	rondo_request_destroy(receive);
	return end_of(env, forked, &report);
}

Test(fork, a_child_frees_nothing_of_a_comm_that_its_parent_destroys, .timeout = 60)
{
	world_try(2, "shm", fork_within_destroy);
	world_try(2, "tcp", fork_within_destroy);
}

static int end_the_parents_group(struct rank_env *env, struct child_report *report)
{
	REFUSED(rondo_group_end());
	if (rondo_group_end() != RONDO_INVALID)
		return child_fails(report, "a group is open");
	(void)env;
	return make_own(report);
}

static int own_beside_the_parents_group(struct rank_env *env, struct child_report *report)
{
	(void)env;
	return make_own(report);
}

static int fork_within_a_group(struct rank_env *env)
{
	struct child_report *report = shared();
	int32_t sum = 1;
	pid_t pids[2];

	rondo_group_start();
	TRY(rondo_all_reduce(env->comm, &sum, &sum, 1, RONDO_I32, RONDO_SUM, NULL));
	for (int i = 0; i < 2; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			alarm(CHILD_S);
			_exit(i ? end_the_parents_group(env, report)
				: own_beside_the_parents_group(env, report));
		}
		if (end_of(env, pids[i], report))
			return 1;
	}
	TRY(rondo_group_end());
	munmap(report, sizeof(*report));
	return sum == 2 ? 0 : world_report(env, "the group's sum is %d", sum);
}

Test(fork, a_group_that_was_open_stays_the_parents, .timeout = 120)
{
	run("shm", fork_within_a_group);
}
