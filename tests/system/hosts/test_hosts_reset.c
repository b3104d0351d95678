/* A firewall between two hosts that resets and refuses connections: the ranks behind it are cut
   off, not dead. They never go on in two comms, and meet again where it was for a moment. Another
   one forgets connections where nothing passes. */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hosts.h"
#include "world.h"

/* ---- A firewall of nftables on a host, which stands for one on the way there ----------------- */

/* Answers each TCP packet that comes to the host by a reset, and takes none but resets. */
#define FIREWALL_RESETS \
	"table inet wall { chain in { type filter hook input priority 0;\n" \
	"iifname \"eth0\" tcp flags & rst == 0 reject with tcp reset\n}\n}\n"
/* Refuses the first of each two attempts to connect. */
#define FIREWALL_REFUSES \
	"table inet wall { chain in { type filter hook input priority 0;\niifname \"eth0\" " \
	"tcp flags & (syn | ack) == syn numgen inc mod 2 0 reject with tcp reset\n}\n}\n"
/* Forgets a connection where nothing passed for 2 s, and resets it at its next packet. */
#define FIREWALL_FORGETS_S 2
#define FIREWALL_FORGETS \
	"table inet wall { chain in { type filter hook input priority 0;\n" \
	"iifname \"eth0\" ct state invalid tcp flags & rst == 0 reject with tcp reset\n}\n}\n"
#define FIREWALL_NONE "delete table inet wall\n"

#define NFT "PATH=$PATH:/usr/sbin:/sbin nft"

/* A new connection alone is taken for one; and for how long it is remembered. */
static void configure_tracking(void)
{
	FILE *loose = fopen("/proc/sys/net/netfilter/nf_conntrack_tcp_loose", "we");
	FILE *established =
		fopen("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established", "we");

	if (!loose || fputs("0", loose) < 0 || fclose(loose) || !established ||
		fprintf(established, "%d", FIREWALL_FORGETS_S) < 0 || fclose(established))
		_exit(1);
}

static bool load(const char *rules)
{
	FILE *nft = popen(NFT " -f - >/dev/null 2>&1", "w");

	return nft && fputs(rules, nft) >= 0 && pclose(nft) == 0;
}

static pid_t enter(const struct hosts *hosts, int host)
{
	pid_t pid = fork();

	if (pid == 0 && !hosts_enter(hosts, host))
		_exit(1);
	return pid;
}

/* For any process of the test. False: nft is missing, or the kernel has not what it needs. */
static bool firewall_set(const struct hosts *hosts, int host, const char *rules)
{
	pid_t pid = enter(hosts, host);
	int status = -1;

	if (pid == 0) {
		bool set = load(rules);

		/* With the rules, the kernel has what tracks connections. */
		if (set && strcmp(rules, FIREWALL_FORGETS) == 0)
			configure_tracking();
		_exit(!set);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* ---- The tests ------------------------------------------------------------------------------ */

#define HOSTS 2
#define FDS_MAX 256

static float values[1000];

/* Ranks are dealt to the hosts in halves. */
static struct world world_of(int size, const struct hosts *hosts)
{
	struct world world = { .size = size, .hosts = hosts, .limit_ms = 60000, .quiet = true };

	for (int rank = 0; rank < size; rank++)
		world.host_of[rank] = rank * HOSTS / size;
	return world;
}

static struct hosts *hosts_with_firewalls(const char *rules)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = HOSTS });

	if (!firewall_set(hosts, 1, rules)) {
		cr_skip_test("no firewall can be made here (nft)");
	}
	return hosts;
}

static bool is_first_here(const struct rank_env *env)
{
	return env->rank == 0 ||
	       env->world->host_of[env->rank - 1] != env->world->host_of[env->rank];
}

/* Each host's first rank sets its host's firewall, after a call of all. */
static int call_until_cut_off(struct rank_env *env)
{
	int host = env->world->host_of[env->rank], err;

	TRY(env->create_error);
	TRY(rondo_barrier(env->comm, NULL));
	if (is_first_here(env) && !firewall_set(env->world->hosts, host, FIREWALL_RESETS))
		return world_report(env, "no firewall");
	do
		err = rondo_all_reduce(env->comm, values, values, 1000, RONDO_F32, RONDO_SUM, NULL);
	while (!err);
	if (err == RONDO_DIED || strstr(rondo_last_error(), "died"))
		return world_report(env, "calls a living rank dead: %s", rondo_last_error());
	return 0;
}

/* A shrink bears with refusals for a second. On a busy machine the ranks lift their firewalls at
   times that lie further apart: they wait for each other, over memory. */
static int meet_again(struct rank_env *env)
{
	int host = env->world->host_of[env->rank];
	rondo_comm *shrunk = NULL;

	if (call_until_cut_off(env))
		return 1;
	if (is_first_here(env) && !firewall_set(env->world->hosts, host, FIREWALL_NONE))
		return world_report(env, "the firewall stays");
	pthread_barrier_wait(env->argument);
	TRY(rondo_comm_shrink(env->comm, &shrunk));
	*env->number = (uint64_t)rondo_comm_size(shrunk);
	TRY(rondo_barrier(shrunk, NULL));
	TRY(rondo_comm_destroy(shrunk));
	return 0;
}

static int go_on_apart(struct rank_env *env)
{
	rondo_comm *shrunk = NULL;
	int err = call_until_cut_off(env);

	if (err)
		return err;
	err = rondo_comm_shrink(env->comm, &shrunk);
	if (err)
		return world_expect(env, "shrink", err, RONDO_TIMEOUT, "must not go on");
	*env->number = (uint64_t)rondo_comm_size(shrunk);
	TRY(rondo_barrier(shrunk, NULL));
	TRY(rondo_comm_destroy(shrunk));
	return 0;
}

/* In memory that processes share, until the test's end. */
static pthread_barrier_t *barrier_of(unsigned size)
{
	pthread_barrier_t *barrier = mmap(
		NULL, sizeof(*barrier), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t shared;

	cr_assert_neq(barrier, MAP_FAILED);
	cr_assert_eq(pthread_barrierattr_init(&shared), 0);
	cr_assert_eq(pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED), 0);
	cr_assert_eq(pthread_barrier_init(barrier, &shared, size), 0);
	return barrier;
}

/* sizes: of the comm in which ranks of each host end; 0: in none. */
static void cut_off(int size, int (*body)(struct rank_env *env), const uint64_t sizes[HOSTS])
{
	struct hosts *hosts = hosts_with_firewalls(FIREWALL_RESETS);
	struct world world = world_of(size, hosts);
	struct rank_outcome outcomes[WORLD_MAX];

	cr_assert(firewall_set(hosts, 1, FIREWALL_NONE));
	world_run(&world, body, barrier_of((unsigned)size), outcomes);
	for (int rank = 0; rank < size; rank++) {
		cr_expect_eq(outcomes[rank].status, 0, "rank %d: %d: %s", rank,
			outcomes[rank].status, outcomes[rank].text);
		cr_expect_eq(outcomes[rank].number, sizes[world.host_of[rank]],
			"rank %d is in a comm of %d", rank, (int)outcomes[rank].number);
	}
}

Test(hosts_reset, two_ranks_that_were_cut_off_meet_again, .timeout = 90)
{
	cut_off(2, meet_again, (const uint64_t[]){ 2, 2 });
}

Test(hosts_reset, so_do_four, .timeout = 90)
{
	cut_off(4, meet_again, (const uint64_t[]){ 4, 4 });
}

Test(hosts_reset, of_two_that_stay_cut_off_one_continues, .timeout = 90)
{
	cut_off(2, go_on_apart, (const uint64_t[]){ 1, 0 });
}

Test(hosts_reset, of_four_one_half_continues, .timeout = 90)
{
	cut_off(4, go_on_apart, (const uint64_t[]){ 2, 0 });
}

static int go_on_alone(struct rank_env *env)
{
	rondo_comm *shrunk = NULL;
	int err = env->create_error;

	while (!err && env->rank == 1)
		err = rondo_all_reduce(env->comm, values, values, 1000, RONDO_F32, RONDO_SUM, NULL);
	if (env->rank == 0)
		_exit(7);
	if (err != RONDO_DIED)
		return world_report(env, "got %s: %s", rondo_error_name(err), rondo_last_error());
	TRY(rondo_comm_shrink(env->comm, &shrunk));
	*env->number = (uint64_t)rondo_comm_size(shrunk);
	TRY(rondo_comm_destroy(shrunk));
	return 0;
}

Test(hosts_reset, a_lone_survivor_of_a_death_continues, .timeout = 90)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = HOSTS });
	struct world world = world_of(2, hosts);
	struct rank_outcome outcomes[WORLD_MAX];

	world_run(&world, go_on_alone, NULL, outcomes);
	cr_expect_eq(outcomes[1].status, 0, "%s", outcomes[1].text);
	cr_expect_eq(outcomes[1].number, 1);
}

/* ---- While a comm is made ------------------------------------------------------------------ */

/* By a split, and by a shrink. */
static int make_comms(struct rank_env *env)
{
	rondo_comm *made[2] = { NULL };

	TRY(env->create_error);
	TRY(rondo_comm_split(env->comm, 0, 0, &made[0]));
	TRY(rondo_comm_shrink(made[0], &made[1]));
	*env->number = (uint64_t)rondo_comm_size(made[1]);
	TRY(rondo_barrier(made[1], NULL));
	TRY(rondo_comm_destroy(made[1]));
	rondo_comm_destroy(made[0]);
	return 0;
}

static void make_beside_refusals(bool has_no_secret)
{
	struct hosts *hosts = hosts_with_firewalls(FIREWALL_REFUSES);
	struct world world = world_of(4, hosts);
	struct rank_outcome outcomes[WORLD_MAX];

	cr_assert(firewall_set(hosts, 0, FIREWALL_REFUSES));
	world.has_no_secret = has_no_secret;
	world_run(&world, make_comms, NULL, outcomes);
	for (int rank = 0; rank < world.size; rank++) {
		cr_expect_eq(outcomes[rank].status, 0, "rank %d: %s", rank, outcomes[rank].text);
		cr_expect_eq(outcomes[rank].number, 4);
	}
}

Test(hosts_reset, comms_are_made_where_each_second_connection_is_refused, .timeout = 90)
{
	make_beside_refusals(false);
}

Test(hosts_reset, also_without_a_secret, .timeout = 90)
{
	make_beside_refusals(true);
}

/* ---- A firewall that forgets --------------------------------------------------------------- */

/* Clouds' firewalls forget a connection after 350 s: it must be kept alive by then, also where one
   packet is lost. Here a second is a minute of theirs. */
static int quicken(struct rank_env *env)
{
	int kept = 0;

	for (int fd = 3; fd < FDS_MAX; fd++) {
		int on = 0, idle_s = 0;
		socklen_t size = sizeof(int);
		struct sockaddr_storage peer;
		socklen_t peer_size = sizeof(peer);

		if (getpeername(fd, (struct sockaddr *)&peer, &peer_size) ||
			getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, &size))
			continue;
		if (getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &size) || !on || idle_s > 170)
			return world_report(env, "a connection is not kept alive");
		idle_s = idle_s > 60 ? idle_s / 60 : 1;
		setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
		setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
		kept++;
	}
	return kept > 1 ? 0 : world_report(env, "no link is kept alive");
}

static int compute_for_long(struct rank_env *env)
{
	TRY(env->create_error);
	if (world_sum(env, values, 1000) || quicken(env))
		return 1;
	poll(NULL, 0, 2500 * FIREWALL_FORGETS_S);
	return world_sum(env, values, 1000);
}

Test(hosts_reset, idle_links_outlive_a_firewall_that_forgets_connections, .timeout = 90)
{
	struct hosts *hosts = hosts_with_firewalls(FIREWALL_FORGETS);
	struct world world = world_of(2, hosts);

	cr_expect_eq(world_run(&world, compute_for_long, NULL, NULL), 0);
}
