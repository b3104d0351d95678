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

/* Two agents of an elastic job, the second one after the shell's command. Returns what rank 0
   printed. The status follows it, for limits of this machine may be a FAIL. */
static char *check(const char *before)
{
	struct hosts_shape shape = { .count = 2 };
	struct hosts *hosts = world_hosts(&shape);
	char command[1024], *table;
	char *first[] = { RONDO_TOOL, "--check", "--nnodes=1:2", "--rdzv-endpoint", "host0", NULL };
	char *second[] = { "/bin/sh", "-c", command, NULL };
	struct hosts_program agents[2];

	snprintf(command, sizeof(command),
		"PATH=$PATH:/usr/sbin:/sbin; %s exec " RONDO_TOOL
		" --check --nnodes=1:2 --rdzv-endpoint host0",
		before);
	hosts_start(hosts, 0, first, &agents[0]);
	hosts_start(hosts, 1, second, &agents[1]);
	for (int i = 0; i < 2; i++)
		hosts_finish(&agents[i], LIMIT_MS);
	hosts_destroy(hosts);
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
	char *table = check("");

	has(table, "ok    name           host1                 is ");
	has(table, "ok    interface      host1                 eth0, 10.7.0.2, MTU 1500");
	has(table, "ok    port           host0                 all hosts reach rank 0 at port ");
	has(table, "  clock          host1                 ");
	has(table,
		"ok    route          host0 - host1         eth0 (10.7.0.1) - eth0 (10.7.0.2)\n");
	has(table, "ok    MTU            host0 - host1         1500\n");
	has(table, "bandwidth      host0 - host1         ");
	free(table);
}

Test(run_check, fails_on_what_differs_and_on_low_limits)
{
	char *table = check("ip link set eth0 mtu 1400 && ulimit -n 200 &&");

	has(table, "FAIL  open files     host1                 ulimit -n is 200: raise it to 1024");
	has(table,
		"FAIL  MTU            host0 - host1         1500 and 1400: long packets may get");
	free(table);
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
