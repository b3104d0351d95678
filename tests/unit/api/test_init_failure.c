/* Comms that cannot be made: nobody listens, a rank never comes, one rank has a wrong setting. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filter.h"
#include "free_port.h"
#include "world.h"

static int listen_at(const struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (!bind(fd, (const struct sockaddr *)address, sizeof(*address)) && !listen(fd, 8))
		return fd;
	close(fd);
	return -1;
}

Test(failure, an_address_where_no_one_listens_is_named_within_the_bound, .timeout = 30)
{
	struct rondo_config config = world_config(1, 2, 1);
	rondo_comm *comm;

	config.init_timeout_ms = 300;
	cr_assert_eq(rondo_comm_create(&comm, &config), RONDO_UNREACHABLE);
	cr_assert_null(comm);
	cr_assert(strstr(rondo_last_error(), "127.0.0.1:1"), "%s", rondo_last_error());
	cr_assert(strstr(rondo_last_error(), "rank 1"), "%s", rondo_last_error());
}

Test(failure, a_rank_that_never_comes_is_named, .timeout = 30)
{
	struct rondo_config config = world_config(0, 2, free_port());
	rondo_comm *comm;

	config.init_timeout_ms = 300;
	cr_assert_eq(rondo_comm_create(&comm, &config), RONDO_TIMEOUT);
	cr_assert(strstr(rondo_last_error(), "rank 1"), "%s", rondo_last_error());
}

/* A connection there would fail again and again, until the bound of 30 s. */
Test(failure, a_link_local_address_without_its_interface_is_refused_at_once, .timeout = 20)
{
	struct rondo_config config = world_config(1, 2, 1);
	rondo_comm *comm;

	config.address = "fe80::1";
	cr_assert_eq(rondo_comm_create(&comm, &config), RONDO_SETTING);
	cr_assert(strstr(rondo_last_error(), "address is \"fe80::1\", a link-local address: name "
					     "its interface as well, as fe80::1%eth0"),
		"%s", rondo_last_error());
}

/* ---- Errors of connect() --------------------------------------------------------------------- */

static int fail_to_connect(unsigned error)
{
	struct rondo_config config = world_config(1, 2, 1);
	rondo_comm *comm;
	char words[128];

	snprintf(words, sizeof(words), "rank 1: cannot connect to rank 0 at 127.0.0.1:1: %s",
		strerror((int)error));
	if (!forbid(SYS_connect, error))
		return 2;
	return rondo_comm_create(&comm, &config) != RONDO_UNREACHABLE ||
	       !strstr(rondo_last_error(), words);
}

/* The bound of the meeting is 30 s. */
Test(failure, an_error_that_no_further_attempt_changes_is_returned_at_once, .timeout = 20)
{
	static const unsigned errors[] = { EINVAL, EAFNOSUPPORT, EPROTONOSUPPORT, EPERM, EACCES };

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		pid_t pid = fork();
		int status;

		if (pid == 0)
			_exit(fail_to_connect(errors[i]));
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
			cr_skip_test("no filters of system calls here");
		cr_expect_eq(status, 0, "%s: %x", strerror((int)errors[i]), status);
	}
}

/* TCP has no route to a broadcast address; to another host, one may come while it boots. */
Test(failure, a_route_that_is_missing_is_waited_for, .timeout = 20)
{
	struct rondo_config config = world_config(1, 2, 1);
	rondo_comm *comm;

	config.address = "255.255.255.255";
	config.init_timeout_ms = 300;
	cr_assert_eq(rondo_comm_create(&comm, &config), RONDO_UNREACHABLE);
	cr_expect(strstr(rondo_last_error(), "rank 1: cannot reach rank 0 at 255.255.255.255:1 "
					     "(Network is unreachable, tried for 300 ms)"),
		"%s", rondo_last_error());
}

/* ---- Few descriptors ------------------------------------------------------------------------- */

#define FILES_MOST 100

/* 0: they do not suffice, and the error says so; 1: they do; 2: the error has another reason. */
static int create_with_files(int rank, int count)
{
	struct rondo_config config = world_config(rank, 2, rank ? 1 : free_port());
	int free_fd = dup(STDERR_FILENO), error;
	struct rlimit limit;
	rondo_comm *comm;

	config.init_timeout_ms = 300;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = (rlim_t)(free_fd + count);
	close(free_fd);
	if (free_fd < 0 || setrlimit(RLIMIT_NOFILE, &limit))
		return 3;
	error = rondo_comm_create(&comm, &config);
	if (error == (rank ? RONDO_UNREACHABLE : RONDO_TIMEOUT))
		return 1;
	if (error == RONDO_SYSTEM && strstr(rondo_last_error(), strerror(EMFILE)))
		return 0;
	fprintf(stderr, "rank %d with %d descriptors: %s: %s\n", rank, count,
		rondo_error_name(error), rondo_last_error());
	return 2;
}

/* Wherever the first one lacks. */
Test(failure, a_lack_of_descriptors_is_the_reason_in_the_error, .timeout = 60)
{
	for (int rank = 0; rank < 2; rank++) {
		int result = 0, count = 0, status;

		for (; result == 0 && count < FILES_MOST; count++) {
			pid_t pid = fork();

			if (pid == 0)
				_exit(create_with_files(rank, count));
			cr_assert_eq(waitpid(pid, &status, 0), pid);
			result = WIFEXITED(status) ? WEXITSTATUS(status) : 4;
		}
		cr_expect_eq(result, 1, "rank %d with %d descriptors", rank, count - 1);
	}
}

/* ---- Failures of one rank before it meets the others ---------------------------------------- */

/* A setting of the victim's that is wrong, and words of the error. */
struct mistake {
	int victim;
	const char *variable, *value, *words;
	bool valid; /* as far as the settings are read: then the library takes over the socket */
	bool launched; /* the listening socket is there from the beginning */
};

/* All make another comm, and get the victim's error. */
static int set_wrongly(struct rank_env *env)
{
	const struct mistake *mistake = env->argument;
	bool first = env->rank == 0;
	int port = first ? free_port() : 0;
	struct rondo_config config;
	rondo_comm *comm = NULL;
	char name[64];

	TRY(rondo_broadcast(env->comm, &port, &port, 1, RONDO_I32, 0, NULL));
	config = world_config(env->rank, env->size, port);
	if (first && mistake->launched)
		config.rendezvous_fd = listen_at(&(struct sockaddr_in){ .sin_family = AF_INET,
			.sin_port = htons((uint16_t)port),
			.sin_addr.s_addr = htonl(INADDR_LOOPBACK) });
	TRY(rondo_barrier(env->comm, NULL));
	if (env->rank == mistake->victim)
		setenv(mistake->variable, mistake->value, 1);

	int err = rondo_comm_create(&comm, &config);

	snprintf(name, sizeof(name), "rank %d of %d could not take part: ", mistake->victim,
		env->size);
	if (err != RONDO_SETTING || comm || !strstr(rondo_last_error(), mistake->words))
		return world_report(env, "%d: %s", err, err ? rondo_last_error() : "no error");
	if (config.rendezvous_fd >= 0 && (fcntl(config.rendezvous_fd, F_GETFD) >= 0) !=
						 (mistake->victim == 0 && !mistake->valid))
		return world_report(env, "the listening socket is closed, or it is not");
	if (env->rank != mistake->victim && !strstr(rondo_last_error(), name))
		return world_report(env, "no name: %s", rondo_last_error());
	return 0;
}

Test(failure, a_wrong_setting_on_one_rank_is_the_error_of_all, .timeout = 120)
{
	static const struct mistake mistakes[] = {
		{ .variable = "RONDO_CHANNELS", .value = "99", .words = "from 1 to 8" },
		{ .variable = "RONDO_NONSENSE", .value = "1", .words = "RONDO_NONSENSE is no" },
		{ .variable = "RONDO_ALGO", .value = "missing", .words = "is no algorithm" },
		{ .variable = "RONDO_TRANSPORT",
			.value = "pigeon",
			.words = "is no transport",
			.valid = true },
	};

	/* The timeout is 30 s. */
	struct world world = { .size = 4, .limit_ms = 20000 };

	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		for (int victim = 0; victim < 4; victim += victim + 1) {
			struct mistake mistake = mistakes[i];

			mistake.victim = victim;
			cr_assert_eq(world_run(&world, set_wrongly, &mistake, NULL), 0);
			mistake.launched = true;
			cr_assert_eq(world_run(&world, set_wrongly, &mistake, NULL), 0);
		}
	}
}
