#include "world.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/pidfd.h"
#include "text.h"
#include "secure/secret.h"
#include "secure/tls.h"
#include "free_port.h"

/*
 * Ranks with a comm wait here until all ranks have tried to create theirs: a body may fail its comm
 * at once, and then a rank that still creates its own would get no comm. A rank without a comm does
 * not wait.
 */
struct gate {
	pthread_mutex_t lock;
	pthread_cond_t change;
	int come;
};

#define GATE_S 20 /* a rank that is killed never comes */

static void gate_init(struct gate *gate)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t cond;

	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&gate->lock, &mutex);
	pthread_condattr_init(&cond);
	pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&gate->change, &cond);
}

static void gate_pass(struct gate *gate, int come, bool waits)
{
	struct timespec end;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += GATE_S;
	pthread_mutex_lock(&gate->lock);
	gate->come++;
	pthread_cond_broadcast(&gate->change);
	while (waits && !err && gate->come < come)
		err = pthread_cond_timedwait(&gate->change, &gate->lock, &end);
	pthread_mutex_unlock(&gate->lock);
}

void world_meet(struct rank_env *env, int ranks)
{
	env->came += ranks;
	gate_pass(env->gate, env->came, true);
}

/* The state of one rank, shared with the parent. */
struct life {
	struct rank_env env;
	struct rank_outcome outcome;
	int (*body)(struct rank_env *env);
	int port, listen_fd;
};

struct shared {
	struct gate gate;
	struct life lives[WORLD_MAX];
};

int world_report(struct rank_env *env, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(env->text, WORLD_TEXT, format, args);
	va_end(args);
	return 1;
}

int world_expect(struct rank_env *env, const char *call, int err, int wanted, const char *words)
{
	if (err == wanted && strstr(rondo_last_error(), words))
		return 0;
	return world_report(env, "%s: %s: %s; wanted %s: ...%s...", call, rondo_error_name(err),
		rondo_last_error(), rondo_error_name(wanted), words);
}

static struct rondo_config config_of(const struct life *life)
{
	const struct world *world = life->env.world;
	struct rondo_config config = world_config(life->env.rank, world->size, life->port);
	bool mixed = world->transport && strcmp(world->transport, "mixed") == 0;

	if (life->env.rank == 0)
		config.rendezvous_fd = life->listen_fd;
	if (world->hosts) {
		config.address = hosts_address(world->hosts, world->host_of[0], 0);
		config.port = HOSTS_PORT;
		config.rendezvous_fd = -1;
	}
	config.transport = mixed ? NULL : world->transport;
	config.host = mixed ? (life->env.rank < (world->size + 1) / 2 ? "a" : "b") : NULL;
	if (world->interfaces)
		config.interface = world->interfaces[life->env.rank];
	config.timeout_ms = world->timeout_ms;
	config.channels = world->channels;
	config.piece_size = world->piece_size;
	config.algo = world->algo;
	return config;
}

/* A forked rank leaves by _exit(), so this checks for leaks before. LeakSanitizer takes a forked
   process for its parent, reports that this one "was not suspended", and skips its stack: memory
   that only the stack holds counts as leaked. Its report is shown if there are leaks. */
#if defined(__SANITIZE_ADDRESS__)
#define LEAKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAKS 1
#endif
#endif
#if LEAKS
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif

static bool leaks(void)
{
#if LEAKS
	int report = memfd_create("leaks", MFD_CLOEXEC);
	char text[4096];
	off_t at = 0;
	ssize_t got;
	bool found;

	__sanitizer_set_report_fd((void *)(intptr_t)report);
	found = __lsan_do_recoverable_leak_check() != 0;
	__sanitizer_set_report_fd((void *)(intptr_t)STDERR_FILENO);
	for (; found && (got = pread(report, text, sizeof(text), at)) > 0; at += got)
		fwrite(text, 1, (size_t)got, stderr);
	close(report);
	return found;
#else
	return false;
#endif
}

/* Rank 0 stays for the others, whose calls may still need its coordinator. */
static int leave_together(rondo_comm *comm)
{
	int err = comm && !rondo_comm_error(comm) ? rondo_comm_finalize(comm) : 0;

	/* The program may have finalized it. */
	rondo_comm_destroy(comm);
	return err == RONDO_INVALID ? 0 : err;
}

static int live(struct life *life)
{
	struct rank_env *env = &life->env;
	struct rondo_config config = config_of(life);

	env->create_error = rondo_comm_create(&env->comm, &config);
	env->came = env->size;
	gate_pass(env->gate, env->came, env->create_error == 0);
	if (!env->create_error && env->world->call_timeout_ms)
		rondo_comm_set_timeout(env->comm, env->world->call_timeout_ms);

	int status = life->body(env);
	int err = leave_together(env->comm);

	if (err && status == 0)
		status = world_report(
			env, "destroy: %s: %s", rondo_error_name(err), rondo_last_error());
	return status;
}

static int live_alone(struct life *life)
{
	const struct world *world = life->env.world;

	if (world->hosts && !hosts_enter(world->hosts, world->host_of[life->env.rank]))
		return world_report(&life->env, "cannot move to its host");

	int status = live(life);

	if (status == 0 && leaks())
		status = world_report(&life->env, "memory leaks");
	return status;
}

rondo_creation *world_create(const struct rondo_config *config)
{
	rondo_creation *creation;
	int err = rondo_comm_create_begin(&creation, config);

	cr_assert_eq(err, 0, "%s", rondo_last_error());
	return creation;
}

int64_t world_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static int wait_for_child(pid_t pid, int64_t deadline)
{
	struct pollfd fd = { .fd = rd_pidfd_open(pid), .events = POLLIN };
	int64_t left = deadline - world_now_ms();
	int status, ready;

	do
		ready = poll(&fd, 1, left > 0 ? (int)left : 0);
	while (ready < 0 && errno == EINTR);
	close(fd.fd);
	if (ready == 0)
		kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	if (ready == 0)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void run_processes(struct life *lives, int size, int64_t deadline)
{
	pid_t pids[WORLD_MAX];

	fflush(NULL);
	for (int i = 0; i < size; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			int status;

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			status = live_alone(&lives[i]);
			fflush(stdout);
			_exit(status);
		}
	}
	close(lives[0].listen_fd);
	for (int i = 0; i < size; i++)
		lives[i].outcome.status = wait_for_child(pids[i], deadline);
}

static void *live_in_thread(void *argument)
{
	struct life *life = argument;

	life->outcome.status = live(life);
	return NULL;
}

static void run_threads(struct life *lives, int size)
{
	pthread_t threads[WORLD_MAX];

	for (int i = 0; i < size; i++)
		pthread_create(&threads[i], NULL, live_in_thread, &lives[i]);
	for (int i = 0; i < size; i++)
		pthread_join(threads[i], NULL);
	/* Criterion does not look at how the process ends. */
	if (lives[0].outcome.status == 0 && leaks())
		lives[0].outcome.status = world_report(&lives[0].env, "memory leaks");
}

/* Gives the world's ranks a secret, in the environment of this process: its descriptor; -1: none.
   Loaded here, OpenSSL is there in all ranks that are forked. */
static int give_secret(const struct world *world)
{
	int fd = -1;
	char text[16];

	if (world->has_no_secret || rd_tls_load())
		return -1;
	cr_assert_eq(rd_secret_make(&fd), 0, "%s", rondo_last_error());
	snprintf(text, sizeof(text), "%d", fd);
	setenv("RONDO_SECRET_FD", text, 1);
	return fd;
}

int world_run(const struct world *world, int (*body)(struct rank_env *env), void *argument,
	struct rank_outcome outcomes[WORLD_MAX])
{
	struct shared *shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct life *lives = shared->lives;
	int64_t deadline = world_now_ms() + (world->limit_ms ? world->limit_ms : 60000);
	int port = 0, fd = listen_somewhere(&port), failed = 0, secret = give_secret(world);

	gate_init(&shared->gate);
	for (int i = 0; i < world->size; i++) {
		struct life *life = &lives[i];

		life->env = (struct rank_env){ .world = world,
			.gate = &shared->gate,
			.rank = i,
			.size = world->size,
			.argument = argument,
			.text = life->outcome.text,
			.number = &life->outcome.number };
		life->body = body;
		life->port = port;
		life->listen_fd = fd;
	}
	if (world->threads)
		run_threads(lives, world->size);
	else
		run_processes(lives, world->size, deadline);
	for (int i = 0; i < world->size; i++) {
		const struct rank_outcome *outcome = &lives[i].outcome;

		if (outcome->status != 0 && failed++ == 0 && !world->quiet)
			fprintf(stderr, "rank %d of %d over %s: status %d: %s\n", i, world->size,
				world->transport ? world->transport : "any", outcome->status,
				outcome->text);
		if (outcomes)
			outcomes[i] = *outcome;
	}
	munmap(shared, sizeof(*shared));
	unsetenv("RONDO_SECRET_FD");
	if (secret >= 0)
		close(secret);
	return failed;
}

static bool is_registered(const struct rank_env *env)
{
	return env->world->memory == REGISTERED ||
	       (env->world->memory == REGISTERED_BUT_FOR_RANK_0 && env->rank != 0);
}

void *world_get_memory(const struct rank_env *env, size_t size)
{
	void *memory = NULL;

	if (!is_registered(env))
		return malloc(size);
	rondo_mem_alloc(&memory, size);
	return memory;
}

void world_put_memory(const struct rank_env *env, void *memory)
{
	if (is_registered(env))
		rondo_mem_free(memory);
	else
		free(memory);
}

int world_leave(struct rank_env *env)
{
	int err = rondo_comm_destroy(env->comm);

	env->comm = NULL;
	return err;
}

bool world_wait(sem_t *sem)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 20;
	return sem_timedwait(sem, &until) == 0;
}

void world_try(int size, const char *transport, int (*body)(struct rank_env *env))
{
	WORLD_TRY(body, .size = size, .transport = transport);
}

const char *world_run_captured(
	const struct world *world, int (*body)(struct rank_env *env), void *argument)
{
	const char *text;
	int failed;

	captured_stderr_begin();
	failed = world_run(world, body, argument, NULL);
	text = captured_stderr_end();
	cr_expect_eq(failed, 0, "%s", text);
	return text;
}

int world_sum(struct rank_env *env, float *values, size_t count)
{
	float sum = (float)(env->size * (env->size + 1)) / 2;

	for (size_t i = 0; i < count; i++)
		values[i] = (float)env->rank + 1;
	TRY(env->create_error);
	TRY(rondo_all_reduce(env->comm, values, values, count, RONDO_F32, RONDO_SUM, NULL));
	for (size_t i = 0; i < count; i++)
		if (values[i] != sum)
			return world_report(env, "element %zu is %g, not %g", i, values[i], sum);
	return 0;
}

int world_sum_one(struct rank_env *env)
{
	float value;

	return world_sum(env, &value, 1);
}

struct rondo_config world_config(int rank, int size, int port)
{
	struct rondo_config config = RONDO_CONFIG_INIT;

	config.rank = rank;
	config.size = size;
	config.address = "127.0.0.1";
	config.port = port;
	return config;
}

void world_use_two_cores(void)
{
	cpu_set_t cores, two;

	CPU_ZERO(&two);
	cr_assert_eq(sched_getaffinity(0, sizeof(cores), &cores), 0);
	for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&two) < 2; core++)
		if (CPU_ISSET(core, &cores))
			CPU_SET(core, &two);
	if (CPU_COUNT(&two) < 2)
		cr_skip_test("there is but one core");
	cr_assert_eq(sched_setaffinity(0, sizeof(two), &two), 0);
}

int world_second_comm(struct rank_env *env, rondo_comm **comm)
{
	struct rondo_config config;
	int port = 0, fd = env->rank == 0 ? listen_somewhere(&port) : -1;

	if (env->rank == 0 && fd < 0)
		return world_report(env, "cannot listen");
	TRY(rondo_broadcast(env->comm, &port, &port, 1, RONDO_I32, 0, NULL));
	config = world_config(env->rank, env->size, port);
	config.rendezvous_fd = fd;
	config.transport = env->world->transport;
	if (config.transport && strcmp(config.transport, "mixed") == 0)
		config.transport = NULL;
	TRY(rondo_comm_create(comm, &config));
	return 0;
}

struct hosts *world_hosts(const struct hosts_shape *shape)
{
	const char *reason;
	struct hosts *hosts = hosts_create(shape, &reason);

	if (!hosts)
		cr_skip_test("no hosts: %s", reason);
	return hosts;
}
