/* Connections between hosts that the network resets, and whose ranks end, stop, or are asked by
   strangers to go on. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "resets.h"
#include "world.h"

#define RANKS 3
#define STRANGERS 256

enum end { DIES, STOPS };

/* The victim is alone on its host: only its control connection tells of its end. */
struct plan {
	int victim;
	enum end end;
	uint32_t pid; /* the victim's */
	_Atomic int *left; /* ranks that have not failed yet; shared by all */
};

static float values[1000];

/* lone: the rank that is alone on its host; the others share one. */
static void run(int (*body)(struct rank_env *env), int lone, void *argument,
	struct rank_outcome outcomes[WORLD_MAX])
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2 });
	struct world world = { .size = RANKS, .limit_ms = 20000, .hosts = hosts };

	if (!can_reset_connections())
		cr_skip_test("no connection can be reset here (ss -K)");
	for (int rank = 0; rank < RANKS; rank++)
		world.host_of[rank] = (rank == lone) == (lone != 0);
	world_run(&world, body, argument, outcomes);
	hosts_destroy(hosts);
}

/* ---- The victim ---------------------------------------------------------------------------- */

static bool is_stopped(uint32_t pid)
{
	char path[64], text[256] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	file = fopen(path, "r");
	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = 0;
	fclose(file);
	return strstr(text, ") T ") != NULL;
}

/* By rank 1, which is never the victim. A rank that runs would connect again before it dies. */
static int reset_the_victim(struct rank_env *env, const struct plan *plan)
{
	while (!is_stopped(plan->pid))
		poll(NULL, 0, 1);
	if (reset_connections(!env->world->host_of[env->rank]) == 0)
		return world_report(env, "there is no connection to reset");
	if (plan->end == DIES)
		kill((pid_t)plan->pid, SIGKILL);
	return 0;
}

static int share_pid(struct rank_env *env, struct plan *plan)
{
	plan->pid = (uint32_t)getpid();
	TRY(rondo_broadcast(env->comm, &plan->pid, &plan->pid, 1, RONDO_U32, plan->victim, NULL));
	TRY(rondo_barrier(env->comm, NULL));
	return 0;
}

/* The CPU time of this process. */
static long spent_ms(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

/* The others compute: their links notice nothing. */
static int compute_until_it_fails(struct rank_env *env)
{
	struct plan *plan = env->argument;
	char name[32];
	long passed_ms;
	int err;

	TRY(env->create_error);
	if (share_pid(env, plan))
		return 1;
	if (env->rank == plan->victim)
		return raise(SIGSTOP);
	if (env->rank == 1 && reset_the_victim(env, plan))
		return 1;
	passed_ms = spent_ms();
	while (!(err = rondo_comm_error(env->comm)))
		poll(NULL, 0, 10);
	passed_ms = spent_ms() - passed_ms;
	/* A rank that fails later would find a dead one. */
	if (atomic_fetch_sub(plan->left, 1) == 1 && plan->end == STOPS)
		kill((pid_t)plan->pid, SIGKILL);
	snprintf(name, sizeof(name), "rank %d (", plan->victim);
	if (err != (plan->end == DIES ? RONDO_DIED : RONDO_TIMEOUT) ||
		!strstr(rondo_last_error(), name))
		return world_report(env, "got %s: %s", rondo_error_name(err), rondo_last_error());
	if (passed_ms > 300)
		return world_report(env, "it spun for %ld ms", passed_ms);
	return 0;
}

static void end(struct plan plan)
{
	struct rank_outcome outcomes[WORLD_MAX];

	plan.left = mmap(NULL, sizeof(*plan.left), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(plan.left, MAP_FAILED);
	atomic_init(plan.left, RANKS - 1);
	run(compute_until_it_fails, plan.victim, &plan, outcomes);
	for (int rank = 0; rank < RANKS; rank++)
		cr_expect_eq(outcomes[rank].status, rank == plan.victim ? 128 + SIGKILL : 0,
			"rank %d: %d: %s", rank, outcomes[rank].status, outcomes[rank].text);
}

/* The bound on silence is longer than the world's time. */
Test(hosts_reset_ends, a_rank_that_dies_behind_a_reset_is_named_at_once, .timeout = 60)
{
	setenv("RONDO_UNREACHABLE_MS", "60000", 1);
	end((struct plan){ .victim = 2, .end = DIES });
}

Test(hosts_reset_ends, so_is_rank_0, .timeout = 60)
{
	setenv("RONDO_UNREACHABLE_MS", "60000", 1);
	end((struct plan){ .victim = 0, .end = DIES });
}

Test(hosts_reset_ends, a_rank_that_does_not_come_back_is_lost, .timeout = 60)
{
	setenv("RONDO_UNREACHABLE_MS", "1000", 1);
	end((struct plan){ .victim = 2, .end = STOPS });
}

Test(hosts_reset_ends, so_is_rank_0_that_takes_no_other_connection, .timeout = 60)
{
	setenv("RONDO_UNREACHABLE_MS", "1000", 1);
	end((struct plan){ .victim = 0, .end = STOPS });
}

/* ---- Strangers ----------------------------------------------------------------------------- */

/* The ports at which this host listens. */
static int list_ports(int ports[STRANGERS])
{
	FILE *output = popen("ss -H -t -l -n 'src 10.7.0.1'", "r");
	char line[512], *colon;
	int count = 0;

	while (output && count < STRANGERS && fgets(line, sizeof(line), output)) {
		colon = strchr(line, ':');
		if (colon)
			ports[count++] = atoi(colon + 1);
	}
	if (output)
		pclose(output);
	return count;
}

/* A connection that says nothing, or something that is no message of the job. */
static int bother(int port, int number)
{
	static const char *const words[] = { "", "GET / HTTP/1.1\r\n\r\n", "RNDO", "\x16\x03\x01" };
	const char *word = words[number % 4];
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, "10.7.0.1", &address.sin_addr);
	if (!connect(fd, (struct sockaddr *)&address, sizeof(address)) && word[0])
		send(fd, word, strlen(word), MSG_NOSIGNAL);
	return fd;
}

static int go_on_beside_strangers(struct rank_env *env)
{
	int ports[STRANGERS], fds[STRANGERS], count = 0;

	TRY(env->create_error);
	for (int round = 0; round < 5; round++) {
		if (env->rank == 0) {
			count = count ? count : list_ports(ports);
			if (count == 0)
				return world_report(env, "no port of rank 0 is known");
			for (int i = 0; i < STRANGERS; i++)
				fds[i] = bother(ports[i % count], i / count);
			reset_connections(1);
		}
		if (world_sum(env, values, 1000))
			return 1;
		for (int i = 0; env->rank == 0 && i < STRANGERS; i++)
			close(fds[i]);
	}
	TRY(rondo_barrier(env->comm, NULL));
	return 0;
}

Test(hosts_reset_ends, strangers_keep_no_rank_from_going_on, .timeout = 60)
{
	struct rank_outcome outcomes[WORLD_MAX];

	run(go_on_beside_strangers, 2, NULL, outcomes);
	for (int rank = 0; rank < RANKS; rank++)
		cr_expect_eq(outcomes[rank].status, 0, "rank %d: %s", rank, outcomes[rank].text);
}
