/* rondo-run: the environment of ranks, several nodes, and limits on open files. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/port.h"
#include "free_port.h"
#include "program.h"
#include "text.h"

/* The ranks are shells: their environment, output and exit status show the launcher's work. */
#define SH(script) "sh", "-c", script

Test(run, ranks_find_torchruns_environment, .timeout = 30)
{
	struct program run = program_files();
	char *text;

	unsetenv("OMP_NUM_THREADS");
	setenv("RONDO_RENDEZVOUS_FD", "77", 1);
	setenv("RONDO_PORT", "7", 1);
	program_run(&run, RONDO_TOOL, "--standalone", "--nproc-per-node", "3",
		SH("echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK "
		   "$GROUP_WORLD_SIZE "
		   "$ROLE_RANK $ROLE_WORLD_SIZE $ROLE_NAME $MASTER_ADDR "
		   "$TORCHELASTIC_RESTART_COUNT "
		   "$TORCHELASTIC_MAX_RESTARTS $TORCHELASTIC_USE_AGENT_STORE "
		   "$NCCL_ASYNC_ERROR_HANDLING $TORCH_NCCL_ASYNC_ERROR_HANDLING "
		   "${OMP_NUM_THREADS:+threads} ${RONDO_RENDEZVOUS_FD:+has} "
		   "${MASTER_PORT:+port} ${TORCHELASTIC_RUN_ID:+id}"),
		NULL);
	cr_assert_eq(run.status, 0);
	text = file_text(run.out);
	cr_assert_eq(count_lines(text,
			     "0 0 3 3 0 1 0 3 default 127.0.0.1 0 0 False 1 1 threads has port id"),
		1, "%s", text);
	cr_assert_eq(count_lines(text,
			     "1 1 3 3 0 1 1 3 default 127.0.0.1 0 0 False 1 1 threads port id"),
		1, "%s", text);
	cr_assert_eq(count_lines(text,
			     "2 2 3 3 0 1 2 3 default 127.0.0.1 0 0 False 1 1 threads port id"),
		1, "%s", text);
	cr_assert_eq(lseek(run.err, 0, SEEK_END), 0);
}

Test(run, a_choice_of_threads_is_respected, .timeout = 30)
{
	struct program run = program_files();
	char *text;

	setenv("OMP_NUM_THREADS", "3", 1);
	program_run(&run, RONDO_TOOL, "--nproc_per_node=2", SH("echo $OMP_NUM_THREADS"), NULL);
	text = file_text(run.out);
	cr_assert_str_eq(text, "3\n3\n");
	cr_assert_eq(lseek(run.err, 0, SEEK_END), 0, "there was nothing to say");
}

Test(run, one_thread_on_one_processor_is_not_reported, .timeout = 30)
{
	struct program run = program_files();
	cpu_set_t all, one;
	char *text;
	int cpu = 0;

	cr_assert_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	unsetenv("OMP_NUM_THREADS");
	program_run(&run, RONDO_TOOL, "--nproc-per-node", "2", SH("echo $OMP_NUM_THREADS"), NULL);
	text = file_text(run.out);
	cr_assert_str_eq(text, "1\n1\n");
	cr_assert_eq(lseek(run.err, 0, SEEK_END), 0);
}

Test(run, rank_0_inherits_the_socket_that_listens_at_rondos_port, .timeout = 30)
{
	struct program run = program_files();

	/* /proc/net/tcp lists listening sockets, with inode and hexadecimal port. */
	program_run(&run, RONDO_TOOL, "--nproc-per-node=2",
		SH("[ $RANK = 1 ] && exit; "
		   "inode=$(readlink /proc/$$/fd/$RONDO_RENDEZVOUS_FD | tr -dc 0-9); "
		   "grep -i \" 0100007F:$(printf %04X $RONDO_PORT) 00000000:0000 0A .* $inode \" "
		   "/proc/net/tcp >&2 && echo listens; "
		   "grep -iq \":$(printf %04X $MASTER_PORT) 00000000:0000 0A\" /proc/net/tcp || "
		   "echo and MASTER_PORT is free; "
		   "read first last </proc/sys/net/ipv4/ip_local_port_range; "
		   "[ $first -gt 1024 ] && [ $MASTER_PORT -ge $first ] && "
		   "[ $MASTER_PORT -le $last ] || echo and the kernel gives it to nobody"),
		NULL);
	assert_contains(
		run.out, "listens\nand MASTER_PORT is free\nand the kernel gives it to nobody\n");
}

Test(run, two_nodes_make_one_world, .timeout = 30)
{
	const char *script = "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK "
			     "$GROUP_WORLD_SIZE $MASTER_ADDR $MASTER_PORT $RONDO_PORT "
			     "${RONDO_RENDEZVOUS_FD:+has}";
	struct program nodes[2];
	int master = free_port();
	char port[16], line[128];

	snprintf(port, sizeof(port), "%d", master);
	for (int i = 0; i < 2; i++) {
		nodes[i] = program_files();
		program_start(&nodes[i], RONDO_TOOL, "--nnodes", "2", "--node_rank", i ? "1" : "0",
			"--master-addr=127.0.0.1", "--master_port", port, "--nproc-per-node", "2",
			SH(script), NULL);
	}
	for (int i = 0; i < 2; i++) {
		char *text;

		program_finish(&nodes[i]);
		cr_assert_eq(nodes[i].status, 0);
		text = file_text(nodes[i].out);
		for (int local = 0; local < 2; local++) {
			snprintf(line, sizeof(line), "%d %d 4 2 %d 2 127.0.0.1 %s %d%s",
				2 * i + local, local, i, port, rd_port_from_master(master),
				i + local == 0 ? " has" : "");
			cr_assert_eq(count_lines(text, line), 1, "no '%s' in:\n%s", line, text);
		}
	}
}

Test(run, ranks_of_two_nodes_all_reduce, .timeout = 60)
{
	struct program nodes[2];
	char port[16];

	snprintf(port, sizeof(port), "%d", free_port());
	for (int i = 0; i < 2; i++) {
		nodes[i] = program_files();
		/* Node 1 comes first: it waits for node 0. */
		program_start(&nodes[i], RONDO_TOOL, "--nnodes", "2", "--node-rank", i ? "0" : "1",
			"--master-addr", "127.0.0.1", "--master-port", port, "--nproc-per-node",
			"2", RONDO_EXAMPLE, NULL);
	}
	for (int i = 0; i < 2; i++) {
		program_finish(&nodes[i]);
		cr_assert_eq(nodes[i].status, 0);
	}
	assert_contains(nodes[0].out, "rank 2 of 4: the sum is 10\n");
	assert_contains(nodes[0].out, "rank 3 of 4: the sum is 10\n");
	assert_contains(nodes[1].out, "rank 0 of 4: the sum is 10\n");
	assert_contains(nodes[1].out, "rank 1 of 4: the sum is 10\n");
}

/* Runs a job that must end with this line, and start no rank. */
static void assert_port_refused(int master_port, const char *line)
{
	struct program run = program_files();
	char port[16], *text;

	snprintf(port, sizeof(port), "%d", master_port);
	program_run(&run, RONDO_TOOL, "--master-port", port, SH("echo ran"), NULL);
	cr_assert_eq(run.status, 1);
	text = file_text(run.err);
	cr_assert_str_eq(text, line);
	cr_assert_eq(lseek(run.out, 0, SEEK_END), 0);
}

Test(run, a_port_in_use_is_reported_before_any_rank_runs, .timeout = 30)
{
	int port, fd = listen_somewhere(&port);
	char text[16], line[192];

	snprintf(line, sizeof(line),
		"rondo-run: MASTER_PORT is %d, where another program listens: give another "
		"--master-port, the same on every node\n",
		port);
	assert_port_refused(port, line);
	snprintf(text, sizeof(text), "%d", port);
	setenv("RONDO_PORT", text, 1);
	snprintf(line, sizeof(line),
		"rondo-run: cannot listen at 127.0.0.1:%d: Address already in use (RONDO_PORT sets "
		"another port, the same on every node)\n",
		port);
	assert_port_refused(free_port(), line);
	close(fd);
}

/* ---- The limit on open files ----------------------------------------------------------------- */

static void limit_files(rlim_t soft, rlim_t hard)
{
	struct rlimit limit = { soft, hard };

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static rlim_t hard_limit_on_files(void)
{
	struct rlimit limit;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	return limit.rlim_max;
}

Test(run, more_ranks_than_the_soft_limit_on_open_files_allows_run_with_that_limit, .timeout = 60)
{
	struct program run = program_files();
	char *text;

	limit_files(64, hard_limit_on_files());
	program_run(&run, RONDO_TOOL, "--nproc-per-node", "40", SH("ulimit -Sn"), NULL);
	cr_assert_eq(run.status, 0);
	text = file_text(run.out);
	cr_assert_eq(count_lines(text, "64"), 40, "%s", text);
}

Test(run, more_ranks_than_the_hard_limit_on_open_files_allows_are_refused, .timeout = 60)
{
	struct program run = program_files();

	limit_files(64, 64);
	program_run(&run, RONDO_TOOL, "--nproc-per-node", "40", SH("echo ran"), NULL);
	cr_assert_eq(run.status, 1);
	assert_contains(run.err, "rondo-run: 40 ranks on this node need 1");
	assert_contains(run.err,
		" open files, and the hard limit is 64: raise it (ulimit -Hn), or start fewer "
		"ranks here\n");
	cr_assert_eq(lseek(run.out, 0, SEEK_END), 0);
}
