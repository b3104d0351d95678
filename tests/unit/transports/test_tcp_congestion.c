/* Connections within a host do not pace; those between hosts have the host's congestion control. */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/comm.h"
#include "transports/tcp/congestion.h"
#include "transports/tcp/link.h"
#include "world.h"

#define SYSCTL "/proc/sys/net/ipv4/tcp_congestion_control"

/* A new socket with this congestion control; -1: the kernel has none of that name, or keeps it from
   this process. */
static int socket_with(const char *name)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0)
		return fd;
	close(fd);
	return -1;
}

static void expect(int fd, const char *wanted)
{
	char name[RD_TCP_CONGESTION_NAME];

	rd_tcp_congestion_read(fd, name);
	cr_assert_str_eq(name, wanted, "%s, not %s", name, wanted);
}

Test(tcp_congestion, only_a_default_that_paces_is_replaced)
{
	int cubic = socket_with("cubic"), bbr = socket_with("bbr");

	if (cubic < 0 || bbr < 0)
		cr_skip_test("this kernel lets the test have no cubic, or no bbr");
	rd_tcp_congestion_near(cubic);
	expect(cubic, "cubic");
	rd_tcp_congestion_near(bbr);
	expect(bbr, "reno");
	/* As after accept(): */
	rd_tcp_congestion_restore(cubic, "bbr");
	expect(cubic, "cubic");
	rd_tcp_congestion_restore(bbr, "");
	expect(bbr, "reno");
	rd_tcp_congestion_restore(bbr, "bbr");
	expect(bbr, "bbr");
	close(cubic);
	close(bbr);
}

/* In a child, which stays on the host. */
static bool begin_with(const struct hosts *hosts, int host, const char *name)
{
	pid_t child = fork();
	int status = 1;

	if (child == 0) {
		FILE *file = hosts_enter(hosts, host) ? fopen(SYSCTL, "we") : NULL;

		_exit(!file || fputs(name, file) < 0 || fclose(file) != 0);
	}
	return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static int check_links(struct rank_env *env)
{
	const struct world *world = env->world;
	char name[RD_TCP_CONGESTION_NAME];

	if (!env->comm)
		return world_report(env, "create: %s", rondo_last_error());
	TRY(rondo_comm_connect(env->comm, "all_to_all", 1 << 20, RONDO_F32));
	for (int peer = 0; peer < env->size; peer++) {
		const struct rd_link *link = env->comm->links[peer * env->comm->channels];
		bool near = world->host_of[peer] == world->host_of[env->rank];
		const char *wanted = near ? "reno" : env->argument;

		if (peer == env->rank)
			continue;
		rd_tcp_congestion_read(((const struct rd_tcp_link *)link)->stream.wire.fd, name);
		if (strcmp(name, wanted) != 0)
			return world_report(env, "%s to rank %d, not %s", name, peer, wanted);
	}
	return 0;
}

/* Two ranks on each of two hosts, which pace by default. */
static void run_between(const struct hosts *hosts, char *far)
{
	struct world world = {
		.size = 4, .transport = "tcp", .hosts = hosts, .host_of = { 0, 1, 0, 1 }
	};

	for (int host = 0; host < 2; host++)
		if (!begin_with(hosts, host, "bbr"))
			cr_skip_test("this kernel lets no namespace have bbr");
	cr_assert_eq(world_run(&world, check_links, far, NULL), 0);
}

Test(tcp_congestion, a_connection_paces_between_hosts_alone, .timeout = 60)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2 });

	run_between(hosts, "bbr");
}

Test(tcp_congestion, a_connection_paces_between_hosts_alone_over_ipv6, .timeout = 60)
{
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2, .v6_only = true });

	run_between(hosts, "bbr");
}

Test(tcp_congestion, what_a_route_asks_for_stays, .timeout = 60)
{
	static const char route[] = "route change 10.7.0.0/24 dev eth0 congctl cubic";
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2 });

	for (int host = 0; host < 2; host++)
		if (!hosts_configure(hosts, host, route))
			cr_skip_test("this kernel has no route with cubic");
	run_between(hosts, "cubic");
}
