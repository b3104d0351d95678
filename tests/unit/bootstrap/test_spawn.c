#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pidfd.h"
#include "rondo.h"
#include "secure/tls.h"
#include "world.h"

#define SIZE 4

/* A rank's environment, which it writes to memory shared with the test. */
struct spawned_env {
	int rank, local_rank, size, local_size, port, master_port, rendezvous_fd, connected;
	char address[64];
	_Atomic int runs;
};

static struct spawned_env *map_shared(void)
{
	void *memory = mmap(NULL, (SIZE + 1) * sizeof(struct spawned_env), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(memory, MAP_FAILED);
	return memory;
}

static int number(const char *name)
{
	const char *text = getenv(name);

	return text ? atoi(text) : -1;
}

static bool can_connect(const char *address, int port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool connected;

	inet_pton(AF_INET, address, &at.sin_addr);
	connected = connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0;
	close(fd);
	return connected;
}

static int write_env(void *argument)
{
	struct spawned_env *env = (struct spawned_env *)argument + number("RANK");

	env->rank = number("RANK");
	env->local_rank = number("LOCAL_RANK");
	env->size = number("WORLD_SIZE");
	env->local_size = number("LOCAL_WORLD_SIZE");
	env->port = number("RONDO_PORT");
	env->master_port = number("MASTER_PORT");
	env->rendezvous_fd = number("RONDO_RENDEZVOUS_FD");
	snprintf(env->address, sizeof(env->address), "%s", getenv("MASTER_ADDR"));
	env->connected = can_connect(env->address, env->port);
	atomic_fetch_add(&env->runs, 1);
	return 0;
}

Test(spawn, every_rank_finds_its_place_in_its_environment, .timeout = 30)
{
	struct spawned_env *env = map_shared();

	/* As from an outer launcher: these ranks must not get it. */
	setenv("RONDO_RENDEZVOUS_FD", "77", 1);
	setenv("RONDO_PORT", "7", 1);
	cr_assert_eq(rondo_spawn(SIZE, write_env, env), 0);
	for (int i = 0; i < SIZE; i++) {
		cr_assert_eq(env[i].runs, 1);
		cr_assert_eq(env[i].rank, i);
		cr_assert_eq(env[i].local_rank, i);
		cr_assert_eq(env[i].size, SIZE);
		cr_assert_eq(env[i].local_size, SIZE);
		cr_assert_str_eq(env[i].address, "127.0.0.1");
		cr_assert_eq(env[i].port, env[0].port);
		cr_assert_gt(env[i].master_port, 0);
		cr_assert_eq(env[i].master_port, env[0].master_port);
		cr_assert_not(can_connect("127.0.0.1", env[i].master_port));
		cr_assert(i == 0 || env[i].rendezvous_fd == -1, "rank %d has the outer socket", i);
	}
	cr_assert_str_eq(getenv("RONDO_RENDEZVOUS_FD"), "77", "the parent's own has changed");
	cr_assert_null(getenv("RANK"));
}

static int meet(void *argument)
{
	rondo_comm *comm;

	return rondo_comm_create(&comm, argument) || rondo_comm_destroy(comm);
}

Test(spawn, ranks_meet_where_there_is_no_IPv4, .timeout = 60)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 1, .v6_only = true });
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(!hosts_enter(hosts, 0) || rondo_spawn(2, meet, NULL));
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
}

static int last_connects(void *argument)
{
	struct spawned_env *env = argument;

	/* Rank 0 never uses the socket. */
	if (number("RANK") == SIZE - 1)
		return write_env(argument);
	env[number("RANK")].rendezvous_fd = number("RONDO_RENDEZVOUS_FD");
	return 0;
}

Test(spawn, rank_0_inherits_a_socket_that_listens_already, .timeout = 30)
{
	struct spawned_env *env = map_shared();

	cr_assert_eq(rondo_spawn(1, write_env, env), 0);
	cr_assert_geq(env[0].rendezvous_fd, 3);
	cr_assert(env[0].connected);
	cr_assert_eq(rondo_spawn(SIZE, last_connects, env), 0);
	for (int i = 1; i < SIZE; i++)
		cr_assert_eq(env[i].rendezvous_fd, -1, "rank %d has the socket too", i);
}

static bool sum_is_right(rondo_comm *comm)
{
	int32_t one = 1, sum = 0;

	return rondo_all_reduce(comm, &one, &sum, 1, RONDO_I32, RONDO_SUM, NULL) == 0 &&
	       sum == SIZE;
}

/* Two at once, then a third when both are destroyed. */
static int meet_three_times(void *argument)
{
	rondo_comm *first, *second, *third;
	bool right;

	(void)argument;
	if (rondo_comm_create(&first, NULL) || rondo_comm_create(&second, NULL))
		return 1;
	right = sum_is_right(second) && sum_is_right(first);
	if (rondo_comm_destroy(first) || rondo_comm_destroy(second) || !right)
		return 2;
	if (rondo_comm_create(&third, NULL) || !sum_is_right(third))
		return 3;
	return rondo_comm_destroy(third) ? 4 : 0;
}

Test(spawn, several_comms_meet_at_the_one_rendezvous, .timeout = 60)
{
	for (int i = 0; i < 10; i++)
		cr_assert_eq(rondo_spawn(SIZE, meet_three_times, NULL), 0);
}

Test(spawn, ranks_meet_where_a_name_has_control_characters, .timeout = 60)
{
	setenv("RONDO_HOST", "a\nb\033[1m", 1);
	setenv("TORCHELASTIC_RUN_ID", "a\njob\x7f", 1);
	cr_assert_eq(rondo_spawn(SIZE, meet_three_times, NULL), 0);
}

static int meet_at_a_port(void *argument)
{
	struct rondo_config config = RONDO_CONFIG_INIT;
	rondo_comm *comm;

	config.port = *(int *)argument;
	if (rondo_comm_create(&comm, &config))
		return 1;
	return rondo_comm_destroy(comm) ? 2 : 0;
}

Test(spawn, a_comm_with_a_port_of_its_own_meets_there, .timeout = 60)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port;

	cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &size), 0);
	close(fd);
	port = ntohs(at.sin_port);
	cr_assert_eq(rondo_spawn(2, meet_at_a_port, &port), 0);
}

static int in_a_child(int (*run)(void *), void *argument)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		_exit(run(argument));
	return waitpid(child, &status, 0) == child ? status : -1;
}

/* As a program does that has nothing but the rank's environment. */
static int be_refused(void *wanted)
{
	rondo_comm *comm;

	return rondo_comm_create(&comm, NULL) == RONDO_SETTING && strstr(rondo_last_error(), wanted)
		       ? 0
		       : 1;
}

/* As below a shell. */
static int be_refused_in_a_child(void *wanted)
{
	return in_a_child(be_refused, wanted);
}

static int start_programs(void *argument)
{
	char wanted[96];
	rondo_comm *comm;

	(void)argument;
	snprintf(wanted, sizeof(wanted), "started inside rank %d of a running job, process %d,",
		number("RANK"), (int)getpid());
	if (rondo_comm_create(&comm, NULL))
		return 1;
	if (in_a_child(be_refused, wanted) || in_a_child(be_refused_in_a_child, wanted))
		return 2;
	if (!sum_is_right(comm) || rondo_comm_destroy(comm))
		return 3;
	/* Its place is free now. */
	return in_a_child(meet_three_times, NULL) ? 4 : 0;
}

Test(spawn, a_program_that_a_rank_starts_is_not_the_rank, .timeout = 60)
{
	cr_assert_eq(rondo_spawn(SIZE, start_programs, NULL), 0);
}

/* 0: the process has OpenSSL already, or cannot have it. */
static int find_openssl(void *argument)
{
	(void)argument;
	return dlopen("libssl.so.3", RTLD_LAZY | RTLD_NOLOAD) ||
			       dlopen("libssl.so.1.1", RTLD_LAZY | RTLD_NOLOAD) || rd_tls_load()
		       ? 0
		       : 1;
}

/* Memory that all ranks share counts once. */
Test(spawn, ranks_find_openssl_loaded, .timeout = 30)
{
	cr_assert_eq(rondo_spawn(SIZE, find_openssl, NULL), 0);
}

static int fail_in_2(void *argument)
{
	return number("RANK") == 2 ? *(int *)argument : 0;
}

Test(spawn, a_failed_rank_gives_its_exit_status, .timeout = 30)
{
	int status = 42;

	cr_assert_eq(rondo_spawn(SIZE, fail_in_2, &status), 42);
}

static int kill_itself_in_1(void *argument)
{
	(void)argument;
	return number("RANK") == 1 ? raise(SIGKILL) : 0;
}

static int run_true(void *argument)
{
	(void)argument;
	execlp("true", "true", NULL);
	return 99;
}

/* As cron's wrappers and daemons hand it down. The program finds it as it was. */
Test(spawn, the_ranks_statuses_are_kept_where_sigchld_is_ignored, .timeout = 30)
{
	struct sigaction found, ignore = { .sa_handler = SIG_IGN, .sa_flags = SA_NOCLDWAIT };
	int status = 42;

	cr_assert_eq(sigaction(SIGCHLD, &ignore, NULL), 0);
	cr_expect_eq(rondo_spawn(SIZE, run_true, NULL), 0, "%s", rondo_last_error());
	cr_expect_eq(rondo_spawn(SIZE, fail_in_2, &status), 42);
	cr_expect_eq(rondo_spawn(SIZE, kill_itself_in_1, NULL), 128 + SIGKILL);
	cr_assert_eq(sigaction(SIGCHLD, NULL, &found), 0);
	cr_expect(found.sa_handler == SIG_IGN && found.sa_flags & SA_NOCLDWAIT);
}

static int pause_unless_rank_1(void *argument)
{
	(void)argument;
	if (number("RANK") == 1)
		return 3;
	for (;;)
		pause();
}

Test(spawn, a_failed_rank_ends_the_others_and_leaves_nobody, .timeout = 30)
{
	cr_assert_eq(rondo_spawn(SIZE, pause_unless_rank_1, NULL), 3);
	cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1);
	cr_assert_eq(errno, ECHILD);
}

static int ignore_sigterm(void *argument)
{
	signal(SIGTERM, SIG_IGN);
	return pause_unless_rank_1(argument);
}

Test(spawn, a_rank_that_ignores_sigterm_is_killed, .timeout = 30)
{
	cr_assert_eq(rondo_spawn(2, ignore_sigterm, NULL), 3);
}

/* Rank 0 fails, and afterwards rank 1 is killed. */
static int die_after_rank_0(void *argument)
{
	int *fds = argument;
	pid_t pid = getpid();
	struct pollfd end = { .events = POLLIN };

	if (number("RANK") == 0)
		return write(fds[1], &pid, sizeof(pid)) == sizeof(pid) ? 1 : 99;
	if (read(fds[0], &pid, sizeof(pid)) != sizeof(pid))
		return 98;
	end.fd = rd_pidfd_open(pid);
	/* ESRCH: it has been reaped already. */
	if (end.fd >= 0)
		poll(&end, 1, -1);
	raise(SIGKILL);
	return 97;
}

Test(spawn, a_rank_that_was_killed_outranks_one_that_failed_of_it, .timeout = 30)
{
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	cr_assert_eq(rondo_spawn(2, die_after_rank_0, fds), 128 + SIGKILL);
}

static int print_rank(void *argument)
{
	fprintf(argument, "%d", number("RANK"));
	return 0;
}

Test(spawn, buffered_output_is_written_once, .timeout = 30)
{
	FILE *file = tmpfile();
	char text[64] = "";

	cr_assert_not_null(file);
	setvbuf(file, NULL, _IOFBF, 4096);
	fputs("start ", file);
	cr_assert_eq(rondo_spawn(2, print_rank, file), 0);
	rewind(file);
	cr_assert_not_null(fgets(text, sizeof(text), file));
	cr_assert(strcmp(text, "start 01") == 0 || strcmp(text, "start 10") == 0, "got '%s'", text);
	fclose(file);
}

static int send_pid_and_pause(void *argument)
{
	pid_t pid = getpid();

	if (write(*(int *)argument, &pid, sizeof(pid)) != sizeof(pid))
		return 1;
	for (;;)
		pause();
}

Test(spawn, the_death_of_the_parent_ends_the_ranks, .timeout = 30)
{
	struct pollfd ends[2];
	int fds[2], ended = 0;
	pid_t parent;

	cr_assert_eq(pipe(fds), 0);
	parent = fork();
	if (parent == 0)
		_exit(rondo_spawn(2, send_pid_and_pause, &fds[1]));
	close(fds[1]);
	for (int i = 0; i < 2; i++) {
		pid_t pid;

		cr_assert_eq(read(fds[0], &pid, sizeof(pid)), sizeof(pid));
		ends[i] = (struct pollfd){ .fd = rd_pidfd_open(pid), .events = POLLIN };
		cr_assert_geq(ends[i].fd, 0);
	}
	kill(parent, SIGKILL);
	cr_assert_eq(waitpid(parent, NULL, 0), parent);
	for (int i = 0; i < 2; i++) {
		ended += poll(&ends[i], 1, 10000);
		syscall(SYS_pidfd_send_signal, ends[i].fd, SIGKILL, NULL, 0);
	}
	cr_assert_eq(ended, 2, "a rank outlives its parent");
}

Test(spawn, invalid_arguments_are_refused_with_a_reason)
{
	cr_assert_eq(rondo_spawn(0, write_env, NULL), RONDO_INVALID);
	cr_assert_str_eq(rondo_last_error(), "rondo_spawn: size 0 is not in 1..65536");
	cr_assert_eq(rondo_spawn(2, NULL, NULL), RONDO_INVALID);
	cr_assert_str_eq(rondo_last_error(), "rondo_spawn: run is NULL");
}

Test(spawn, ranks_that_cannot_all_be_watched_are_an_error, .timeout = 30)
{
	struct rlimit limit = { .rlim_cur = 16, .rlim_max = 16 };

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_assert_eq(rondo_spawn(32, pause_unless_rank_1, NULL), RONDO_SYSTEM);
	cr_assert_neq(
		strstr(rondo_last_error(), "Too many open files"), NULL, "%s", rondo_last_error());
	cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "a rank still runs");
}
