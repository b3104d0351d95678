/* rondo-run --check: on one node, and on two hosts of network namespaces. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "secret_file.h"
#include "text.h"
#include "world.h"

#define LIMIT_MS 60000

/* The agents of two nodes: of an elastic job, or with numbers. */
static const char *const elastic[] = { "--nnodes=1:2 --rdzv-endpoint host0",
	"--nnodes=1:2 --rdzv-endpoint host0" };
static const char *const numbered[] = { "--nnodes=2 --node-rank=0 --master-addr=host0",
	"--nnodes=2 --node-rank=1 --master-addr=host0" };

/* Two agents, the second one after the shell's command. Returns what rank 0 printed. The status
   follows it, for limits of this machine may be a FAIL. */
static char *check(const char *before, const char *const *options)
{
	struct hosts_shape shape = { .count = 2 };
	struct hosts *hosts = world_hosts(&shape);
	char command[1024], *table;
	char *arguments[] = { "/bin/sh", "-c", command, NULL };
	struct hosts_program agents[2];

	for (int i = 0; i < 2; i++) {
		snprintf(command, sizeof(command),
			"PATH=$PATH:/usr/sbin:/sbin; %s exec " RONDO_TOOL " --check %s",
			i == 1 ? before : "", options[i]);
		hosts_start(hosts, i, arguments, &agents[i]);
	}
	for (int i = 0; i < 2; i++)
		hosts_finish(&agents[i], LIMIT_MS);
	table = file_text(agents[0].out);
	cr_assert_eq(agents[0].status, agents[1].status);
	cr_assert_eq(agents[0].status, strstr(table, "FAIL  ") != NULL);
	return table;
}

static void has(const char *table, const char *line)
{
	cr_assert_not_null(strstr(table, line), "no '%s' in:\n%s", line, table);
}

TestSuite(run_check, .init = secret_file_use, .fini = secret_file_remove, .timeout = 150);

Test(run_check, names_each_host_and_each_pair)
{
	char *table = check("", elastic);

	has(table, "ok    name           host1                 is ");
	has(table, "ok    interface      host1                 eth0, 10.7.0.2, MTU 1500");
	has(table, "ok    port           host0                 all hosts reach rank 0 at port ");
	has(table, "  clock          host1                 ");
	has(table,
		"ok    route          host0 - host1         eth0 (10.7.0.1) - eth0 (10.7.0.2)\n");
	has(table, "ok    MTU            host0 - host1         1500\n");
	has(table, "bandwidth      host0 - host1         ");
}

Test(run_check, fails_on_what_differs_and_on_low_limits)
{
	char *table = check("ip link set eth0 mtu 1400 && ulimit -n 200 &&", elastic);

	has(table, "FAIL  open files     host1                 ulimit -n is 200: raise it to 1024");
	has(table,
		"FAIL  MTU            host0 - host1         1500 and 1400: long packets may get");
}

Test(run_check, runs_on_nodes_with_numbers)
{
	char *table = check("", numbered);

	has(table, "ok    interface      host0                 eth0, 10.7.0.1, MTU 1500");
	has(table, "ok    interface      host1                 eth0, 10.7.0.2, MTU 1500");
	has(table,
		"ok    port           host0                 all hosts reach rank 0 at port 27500\n");
	has(table,
		"ok    route          host0 - host1         eth0 (10.7.0.1) - eth0 (10.7.0.2)\n");
	has(table, "bandwidth      host0 - host1         ");
}

/* The default of docker, and a little more. */
Test(run_check, warns_of_little_shared_memory)
{
	char *table = check("mount -t tmpfs -o size=64m none /dev/shm &&", elastic);

	has(table, "warn  shared memory  host1                 64 MiB are free in /dev/shm: give ");
	table = check("mount -t tmpfs -o size=65m none /dev/shm &&", elastic);
	has(table, "ok    shared memory  host1                 65 MiB are free in /dev/shm\n");
}

/* The error is at most half of the quickest round trip: 1 s is plenty. */
static void has_clock(const char *table, const char *verdict, double wanted)
{
	char start[64];
	double skew;

	snprintf(start, sizeof(start), "%-4s  clock          host1                 ", verdict);
	has(table, start);
	has(table, " s to host0: run NTP on both\n");
	skew = atof(strstr(table, start) + strlen(start));
	cr_assert_float_eq(skew, wanted, 1, "%s", table);
}

#define WITH_CLOCK(ahead) \
	"export ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 LD_PRELOAD=" FAKE_CLOCK \
	" CLOCK_AHEAD=" ahead ";"

Test(run_check, names_the_host_whose_clock_differs)
{
	char *table = check(WITH_CLOCK("7"), elastic);

	has_clock(table, "warn", 7);
	table = check(WITH_CLOCK("-3600"), elastic);
	has_clock(table, "FAIL", -3600);
}

Test(run_check, runs_on_one_node_without_a_program)
{
	struct program run = program_files();

	program_run(&run, "/bin/sh", "-c", "ulimit -n 200; exec " RONDO_TOOL " --check", NULL);
	cr_assert_eq(run.status, 1);
	assert_contains(run.out, "FAIL  open files ");
	run = program_files();
	program_run(&run, RONDO_TOOL, "--check", "true", NULL);
	cr_assert_eq(run.status, 2);
	assert_contains(run.err, "--check goes without a program");
}
