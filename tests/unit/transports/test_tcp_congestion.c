/* Connections within a host do not pace; those between hosts have the host's congestion control. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/comm.h"
#include "transports/tcp/congestion.h"
#include "transports/tcp/link.h"
#include "world.h"

#define SYSCTL "/proc/sys/net/ipv4/tcp_"

/* An algorithm other than Reno that each namespace may have; false: there is none. */
static bool find_other(char name[RD_TCP_CONGESTION_NAME])
{
	FILE *file = fopen(SYSCTL "allowed_congestion_control", "re");
	bool found = false;

	while (file && !found && fscanf(file, "%15s", name) == 1)
		found = strcmp(name, "reno") != 0;
	if (file)
		fclose(file);
	return found;
}

/* In a child, which stays on the host. */
static bool begin_with(const struct hosts *hosts, int host, const char *name)
{
	pid_t child = fork();
	int status = 1;

	if (child == 0) {
		FILE *file =
			hosts_enter(hosts, host) ? fopen(SYSCTL "congestion_control", "we") : NULL;

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

Test(tcp_congestion, a_connection_paces_between_hosts_alone, .timeout = 60)
{
	char other[RD_TCP_CONGESTION_NAME];
	struct hosts *hosts = world_hosts(&(struct hosts_shape){ .count = 2 });
	struct world world = {
		.size = 4, .transport = "tcp", .hosts = hosts, .host_of = { 0, 1, 0, 1 }
	};

	if (!find_other(other))
		cr_skip_test("this kernel lets a namespace have Reno alone");
	for (int host = 0; host < 2; host++)
		cr_assert(begin_with(hosts, host, other), "%s on host %d", other, host);
	cr_assert_eq(world_run(&world, check_links, other, NULL), 0);
	hosts_destroy(hosts);
}
