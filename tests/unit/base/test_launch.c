/* The launchers' variables, set by hand as each launcher sets them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/launch/launch.h"
#include "base/launch/slurm.h"
#include "base/settings.h"

/* NAME=VALUE, with spaces between; all other variables go. */
static void set_variables(const char *text)
{
	char copy[1024], *rest = copy;

	clearenv();
	snprintf(copy, sizeof(copy), "%s", text);
	for (char *word; (word = strsep(&rest, " "));) {
		char *value = strchr(word, '=');

		if (!value)
			continue;
		*value = '\0';
		setenv(word, value + 1, 1);
	}
}

static struct rd_settings settings;

static void assert_reads(
	const char *variables, int rank, int size, int local_rank, const char *address, int port)
{
	set_variables(variables);
	cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s: %s", variables, rondo_last_error());
	cr_assert_eq(settings.rank, rank, "%s: rank %d", variables, settings.rank);
	cr_assert_eq(settings.size, size, "%s: size %d", variables, settings.size);
	cr_assert_eq(settings.local_rank, local_rank, "%s: local rank %d", variables,
		settings.local_rank);
	cr_assert_str_eq(settings.address, address, "%s: address %s", variables, settings.address);
	cr_assert_eq(settings.port, port, "%s: port %d", variables, settings.port);
}

static void assert_refused(const char *variables, const char *reason)
{
	set_variables(variables);
	cr_assert_eq(rd_settings_read(&settings, NULL), RONDO_SETTING, "%s", variables);
	cr_assert(strstr(rondo_last_error(), reason), "%s: no \"%s\" in: %s", variables, reason,
		rondo_last_error());
	cr_assert_null(strchr(rondo_last_error(), '\n'));
}

#define OMPI(rank, size, local_rank, local_size) \
	"OMPI_COMM_WORLD_RANK=" #rank " OMPI_COMM_WORLD_SIZE=" #size \
	" OMPI_COMM_WORLD_LOCAL_RANK=" #local_rank " OMPI_COMM_WORLD_LOCAL_SIZE=" #local_size

Test(launch, torchrun_sets_the_rank_and_the_address)
{
	assert_reads("RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=host0 "
		     "MASTER_PORT=29501",
		3, 4, 1, "host0", 27501);
	assert_reads("RANK=0 WORLD_SIZE=1", 0, 1, -1, "127.0.0.1", 27500);
}

Test(launch, open_mpi_on_one_host_meets_at_a_port_of_the_job)
{
	int port;

	assert_reads(OMPI(1, 2, 1, 2), 1, 2, 1, "127.0.0.1", 27500);
	set_variables(OMPI(1, 2, 1, 2) " PMIX_NAMESPACE=185139201 PMIX_RANK=1");
	cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
	port = settings.port;
	cr_assert(port >= 10240 && port < 26624, "%d", port);
	assert_reads(OMPI(0, 2, 0, 2) " PMIX_NAMESPACE=185139201", 0, 2, 0, "127.0.0.1", port);
	assert_reads(
		OMPI(0, 2, 0, 2) " OMPI_MCA_ess_base_jobid=185139201", 0, 2, 0, "127.0.0.1", port);
	set_variables(OMPI(0, 2, 0, 2) " PMIX_NAMESPACE=185139202");
	cr_assert_eq(rd_settings_read(&settings, NULL), 0, "%s", rondo_last_error());
	cr_assert_neq(settings.port, port);
}

Test(launch, open_mpi_on_several_hosts_meets_at_mpiruns)
{
	assert_reads(OMPI(5, 8, 1, 4) " OMPI_MCA_orte_hnp_uri=185139200.0;tcp://192.0.2.2,10.0.0.1:"
				      "50807;tcp6://[fd00::2]:38559",
		5, 8, 1, "192.0.2.2", 27500);
	assert_reads(OMPI(5, 8, 1, 4) " SLURM_JOB_NODELIST=a[7-9] SLURM_STEP_NODELIST=a[8-9] "
				      "SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_NUM_NODES=1",
		5, 8, 1, "a7", 27500);
	assert_reads(
		OMPI(5, 8, 1, 4) " MASTER_ADDR=host0 MASTER_PORT=29600", 5, 8, 1, "host0", 27600);
	assert_refused(OMPI(5, 8, 1, 4),
		"rank 5 of 8: Open MPI started ranks on several hosts, and no variable names rank "
		"0's host: set MASTER_ADDR");
}

Test(launch, mpich_sets_pmi_and_the_address_comes_over_its_socket)
{
	char variables[128];
	int ends[2];

	assert_reads("PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", 1, 2, 1,
		"127.0.0.1", 27500);
	cr_assert_eq(settings.pmi_fd, -1);
	/* A number that is no socket, as where a wrapper has closed it. */
	assert_reads("PMI_RANK=1 PMI_SIZE=2 PMI_FD=0", 1, 2, -1, "127.0.0.1", 27500);
	cr_assert_eq(settings.pmi_fd, -1);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	snprintf(variables, sizeof(variables), "PMI_RANK=1 PMI_SIZE=2 PMI_FD=%d", ends[0]);
	assert_reads(variables, 1, 2, -1, "127.0.0.1", 0);
	cr_assert_eq(settings.pmi_fd, ends[0]);
	cr_assert_eq(settings.process, 1);
	/* The user's address goes first. */
	snprintf(variables, sizeof(variables), "PMI_RANK=1 PMI_SIZE=2 PMI_FD=%d MASTER_ADDR=h",
		ends[0]);
	assert_reads(variables, 1, 2, -1, "h", 27500);
	cr_assert_eq(settings.pmi_fd, -1);
	/* So do Slurm's variables, of a step with srun --mpi=pmi2. */
	snprintf(variables, sizeof(variables),
		"PMI_RANK=1 PMI_SIZE=2 PMI_FD=%d SLURM_STEP_ID=0 SLURM_JOB_ID=5 SLURM_PROCID=1 "
		"SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=n[4,6]",
		ends[0]);
	assert_reads(variables, 1, 2, -1, "n4", 10245);
	cr_assert_eq(settings.pmi_fd, -1);
	assert_refused("PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1",
		"PMI started ranks on several hosts");
}

Test(launch, slurm_sets_the_rank_and_the_first_host_of_the_step)
{
	assert_reads("SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_LOCALID=1 SLURM_JOB_NODELIST=node[01-03,"
		     "07],gpu1 SLURM_JOB_ID=1000 SLURM_STEP_ID=0",
		3, 4, 1, "node01", 11240);
	assert_reads("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_NTASKS=8 SLURM_STEP_NODELIST=b2 "
		     "SLURM_JOB_NODELIST=b[1-2] SLURM_JOB_ID=1000 SLURM_STEP_ID=1 SLURM_LOCALID=0",
		0, 2, 0, "b2", 15339);
	assert_reads("SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_NNODES=1 SLURM_JOB_NODELIST=b1 "
		     "SLURM_JOB_ID=16384 ENVIRONMENT=OTHER",
		1, 2, -1, "127.0.0.1", 10240);
	assert_reads("SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_JOB_NODELIST=b[1-2] MASTER_ADDR=h "
		     "RONDO_PORT=5 SLURM_JOB_ID=7",
		1, 2, -1, "h", 5);
	assert_refused("SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_JOB_NODELIST=b[x]",
		"Slurm's list of nodes is \"b[x]\"");
	/* In the shell of salloc and the script of sbatch nothing is launched. */
	assert_refused("SLURM_NTASKS=8", "RANK is not set");
	assert_refused("SLURM_NTASKS=8 SLURM_PROCID=0 ENVIRONMENT=BATCH", "RANK is not set");
	assert_reads("SLURM_NTASKS=8 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 ENVIRONMENT=BATCH", 1, 2,
		-1, "127.0.0.1", 27500);
}

Test(launch, a_list_of_nodes_begins_with_the_first_host)
{
	static const char *const cases[][2] = { { "a", "a" }, { "a,b", "a" },
		{ "node[01-03,07],gpu1", "node01" }, { "gpu1,node[01-03]", "gpu1" },
		{ "rack[2-3]n[10,12]-ib,x", "rack2n10-ib" }, { "n[7]", "n7" }, { "[1-2]", "1" },
		{ "", NULL }, { "a[", NULL }, { "a[1", NULL }, { "a[]", NULL }, { "a[1x]", NULL },
		{ "a]", NULL }, { "[x]", NULL }, { ",a", NULL }, { "twelve-bytes", NULL } };
	char host[12];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		bool read = rd_slurm_first_host(host, sizeof(host), cases[i][0]);

		cr_assert_eq(read, cases[i][1] != NULL, "%s", cases[i][0]);
		if (read)
			cr_assert_str_eq(host, cases[i][1], "%s", cases[i][0]);
	}
}

/* rank 0 on the first host of a file of this text */
static void assert_host_file(const char *text, const char *host)
{
	char path[] = "/tmp/rondo-hosts-XXXXXX", variables[256];
	int fd = mkstemp(path);

	cr_assert(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	snprintf(variables, sizeof(variables),
		"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NUM_NODES=2 SLURM_JOB_ID=1 "
		"SLURM_STEP_NODELIST=n[0-1] SLURM_DISTRIBUTION=arbitrary SLURM_HOSTFILE=%s",
		path);
	if (host)
		assert_reads(variables, 1, 4, -1, host, 10241);
	else
		assert_refused(variables, "srun -m arbitrary may start rank 0 on any node");
	unlink(path);
}

Test(launch, an_arbitrary_distribution_of_slurm_begins_with_the_first_host_of_its_file)
{
	assert_host_file("n1\nn0\nn1\n", "n1");
	assert_host_file("\n# all\n  n1*3 # three\nn0", "n1");
	assert_host_file("n[1,0]", "n1");
	assert_host_file("n[1", NULL);
	assert_host_file("# none\n", NULL);
	assert_host_file("", NULL);
	assert_refused("SLURM_PROCID=1 SLURM_NTASKS=4 SLURM_DISTRIBUTION=arbitrary "
		       "SLURM_STEP_NODELIST=n[0-1]",
		"SLURM_HOSTFILE \"\" gives no host: set MASTER_ADDR to rank 0's");
	assert_refused("SLURM_PROCID=1 SLURM_NTASKS=4 SLURM_DISTRIBUTION=arbitrary "
		       "SLURM_HOSTFILE=/nowhere/hosts",
		"SLURM_HOSTFILE \"/nowhere/hosts\" gives no host");
	assert_reads("SLURM_PROCID=1 SLURM_NTASKS=4 SLURM_DISTRIBUTION=cyclic "
		     "SLURM_STEP_NODELIST=n[0-1] SLURM_HOSTFILE=/nowhere/hosts SLURM_JOB_ID=1",
		1, 4, -1, "n0", 10241);
	assert_reads("SLURM_PROCID=1 SLURM_NTASKS=4 SLURM_DISTRIBUTION=arbitrary SLURM_NNODES=1 "
		     "SLURM_JOB_ID=1",
		1, 4, -1, "127.0.0.1", 10241);
}

Test(launch, a_pipe_whose_writer_is_silent_is_no_list_of_hosts, .timeout = 20)
{
	char variables[128];
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	snprintf(variables, sizeof(variables),
		"SLURM_PROCID=1 SLURM_NTASKS=4 SLURM_DISTRIBUTION=arbitrary "
		"SLURM_HOSTFILE=/proc/self/fd/%d",
		ends[0]);
	assert_refused(variables, " gives no host");
	close(ends[0]);
	close(ends[1]);
}

Test(launch, a_list_of_nodes_has_its_hosts)
{
	static const char *const list = "a,node[01-03,07],rack[2-3]n[8-12,20]-ib,[5]";
	static const char *const hosts[] = { "a", "node01", "node02", "node03", "node07",
		"rack2n8-ib", "rack3n10-ib", "rack2n20-ib", "5" };
	static const char *const others[] = { "", "b", "aa", "node", "node1", "node1x", "node001",
		"node04", "node08", "node7", "rack2n08-ib", "rack2n13-ib", "rack4n8-ib", "rack2n8",
		"n8-ib", "node[01-03", "07", "6" };

	for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++)
		cr_assert(rd_slurm_has_host(list, hosts[i]), "%s", hosts[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		cr_assert_not(rd_slurm_has_host(list, others[i]), "%s", others[i]);
	cr_assert_not(rd_slurm_has_host("", "a"));
	cr_assert_not(rd_slurm_has_host("n[1", "n1"));
	cr_assert_not(rd_slurm_has_host("n[1-", "n1"));
	cr_assert_not(rd_slurm_has_host("n[", "n1"));
	cr_assert_not(rd_slurm_has_host("n[1,", "n2"));
}

#define COMPONENTS \
	"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=3 SLURM_JOB_ID=1 SLURM_STEP_NUM_NODES=2 " \
	"SLURM_HET_SIZE=3 SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=2,1 "

Test(launch, rank_0_of_a_heterogeneous_job_is_in_the_first_component_of_the_step)
{
	struct rondo_launch launch;

	assert_reads(COMPONENTS
		"SLURM_JOB_NODELIST_HET_GROUP_0=n[3-4] "
		"SLURM_JOB_NODELIST_HET_GROUP_1=n2 SLURM_JOB_NODELIST_HET_GROUP_2=n1 "
		"SLURM_STEP_NODELIST=n[2-3]",
		1, 3, 1, "n3", 10241);
	assert_reads(COMPONENTS
		"SLURM_JOB_NODELIST_PACK_GROUP_0=n[3-4] "
		"SLURM_JOB_NODELIST_PACK_GROUP_1=n2 SLURM_JOB_NODELIST_PACK_GROUP_2=n1 "
		"SLURM_STEP_NODELIST=n[1-2]",
		1, 3, 1, "n2", 10241);
	assert_reads(COMPONENTS "SLURM_JOB_NODELIST_HET_GROUP_0=n[3-5] SLURM_STEP_NODELIST=n[4-5]",
		1, 3, 1, "n4", 10241);
	cr_assert_eq(rondo_get_launch(&launch), 0, "%s", rondo_last_error());
	cr_assert_eq(launch.local_size, -1);
	/* srun of a part of a batch job that is not heterogeneous */
	assert_reads("SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_JOB_ID=1 SLURM_STEP_NODELIST=n[2-3] "
		     "SLURM_JOB_NODELIST_PACK_GROUP_0=n3",
		1, 2, -1, "n2", 10241);
}

Test(launch, the_ranks_of_a_node_are_counted_in_slurms_list)
{
	static const struct {
		const char *list;
		int node, tasks; /* 0: refused */
	} cases[] = { { "4", 0, 4 }, { "4", 1, 0 }, { "4", -1, 0 }, { "2(x3),1", 0, 2 },
		{ "2(x3),1", 2, 2 }, { "2(x3),1", 3, 1 }, { "2(x3),1", 4, 0 }, { "3,1", 0, 3 },
		{ "3,1", 1, 1 }, { "1,65536(x65536),7", 65537, 7 }, { "", 0, 0 }, { ",", 0, 0 },
		{ "2,", 0, 0 }, { "2(x", 0, 0 }, { "2(x3", 0, 0 }, { "2(3)", 0, 0 },
		{ "2(x0)", 0, 0 }, { "0", 0, 0 }, { "-1", 0, 0 }, { "65537", 0, 0 },
		{ "2(x65537)", 0, 0 }, { "2(x3)1", 0, 0 }, { "2 ", 0, 0 }, { "x", 0, 0 },
		{ "2,x", 0, 0 }, { "99999999999999999999", 0, 0 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int tasks = 0;
		bool read = rd_slurm_tasks_on_node(&tasks, cases[i].list, cases[i].node);

		cr_assert_eq(read, cases[i].tasks > 0, "%s, %d", cases[i].list, cases[i].node);
		if (read)
			cr_assert_eq(tasks, cases[i].tasks, "%s: %d", cases[i].list, tasks);
	}
}

Test(launch, steps_and_jobs_side_by_side_get_different_ports)
{
	static int port[4][64];
	char variables[64];

	for (int step = 0; step < 4; step++)
		for (int job = 0; job < 64; job++) {
			snprintf(variables, sizeof(variables), "SLURM_JOB_ID=%d SLURM_STEP_ID=%d",
				4567890 + job, step);
			set_variables(variables);
			port[step][job] = rd_slurm_port();
			cr_assert(port[step][job] >= 10240 && port[step][job] < 26624);
			for (int i = 0; i < step * 64 + job; i++)
				cr_assert_neq(port[step][job], port[i / 64][i % 64]);
		}
}

Test(launch, kubernetes_sets_the_index_of_a_pod)
{
	assert_reads("JOB_COMPLETION_INDEX=2 WORLD_SIZE=4 MASTER_ADDR=train-0.train", 2, 4, -1,
		"train-0.train", 27500);
	assert_refused("JOB_COMPLETION_INDEX=2",
		"JOB_COMPLETION_INDEX is set, but not WORLD_SIZE: Kubernetes started this process");
	/* This host's name is no pod's. */
	assert_refused("JOB_COMPLETION_INDEX=2000 WORLD_SIZE=4000",
		"does not end with it: give the pods the `subdomain` of a headless service");
	assert_refused("JOB_COMPLETION_INDEX=4 WORLD_SIZE=4",
		"JOB_COMPLETION_INDEX is 4 but WORLD_SIZE is 4");
}

Test(launch, other_launchers_set_the_rank_too)
{
	assert_reads("MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2 MV2_COMM_WORLD_LOCAL_RANK=1 "
		     "MV2_COMM_WORLD_LOCAL_SIZE=2",
		1, 2, 1, "127.0.0.1", 27500);
	assert_reads("JSM_NAMESPACE_RANK=1 JSM_NAMESPACE_SIZE=2", 1, 2, -1, "127.0.0.1", 27500);
	assert_reads("FLUX_TASK_RANK=1 FLUX_JOB_SIZE=2", 1, 2, -1, "127.0.0.1", 27500);
	assert_reads("PMIX_RANK=1 WORLD_SIZE=2", 1, 2, -1, "127.0.0.1", 27500);
	assert_refused("PMIX_RANK=0", "PMIX_RANK is set, but not WORLD_SIZE");
}

Test(launch, an_inner_launcher_goes_before_an_outer_one_and_each_can_be_named)
{
	const char *all = "RANK=1 WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3 "
			  "PMI_RANK=3 PMI_SIZE=4 SLURM_PROCID=4 SLURM_NTASKS=5 "
			  "JOB_COMPLETION_INDEX=0";
	static const char *const names[] = { "auto", "torchrun", "openmpi", "pmi", "slurm" };
	char variables[512];

	for (int i = 0; i < 5; i++) {
		int rank = i > 0 ? i : 1;

		snprintf(variables, sizeof(variables), "%s RONDO_LAUNCHER=%s", all, names[i]);
		assert_reads(variables, rank, rank + 1, -1, "127.0.0.1", 27500);
	}
	assert_reads(all + strlen("RANK=1 WORLD_SIZE=2 "), 2, 3, -1, "127.0.0.1", 27500);
	assert_refused("RANK=1 WORLD_SIZE=2 RONDO_LAUNCHER=none", "RANK is not set");
	assert_refused("RANK=1 WORLD_SIZE=2 RONDO_LAUNCHER=slurm", "SLURM_PROCID");
	assert_refused("RANK=1 WORLD_SIZE=2 RONDO_LAUNCHER=mpirun",
		"RONDO_LAUNCHER is \"mpirun\": give one of auto, torchrun, openmpi, pmi, mvapich, "
		"jsrun, flux, slurm, pmix, kubernetes and none");
}

Test(launch, partial_and_contradicting_variables_are_one_line)
{
	assert_refused("RANK=1", "RANK is set, but not WORLD_SIZE");
	assert_refused("WORLD_SIZE=2", "WORLD_SIZE is set, but not RANK");
	assert_refused("RANK=1 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2",
		"RANK is set, but not WORLD_SIZE");
	assert_refused("OMPI_COMM_WORLD_RANK=1",
		"OMPI_COMM_WORLD_RANK is set, but not OMPI_COMM_WORLD_SIZE: Open MPI started this "
		"process, and each would run alone");
	assert_refused("OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_SIZE is set, but not "
						 "OMPI_COMM_WORLD_RANK");
	assert_refused("PMI_SIZE=2", "PMI_SIZE is set, but not PMI_RANK");
	assert_refused("SLURM_PROCID=1", "SLURM_PROCID is set, but not SLURM_NTASKS");
	assert_refused("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 WORLD_SIZE=4",
		"WORLD_SIZE is 4, but OMPI_COMM_WORLD_SIZE is 2: unset one, or set RANK as well");
	assert_refused("OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=2",
		"OMPI_COMM_WORLD_RANK is 2 but OMPI_COMM_WORLD_SIZE is 2: give a rank from 0 to 1");
	assert_refused(OMPI(0, 4, 2, 2),
		"OMPI_COMM_WORLD_LOCAL_RANK is 2 but OMPI_COMM_WORLD_LOCAL_SIZE is 2");
	assert_refused(
		"SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_NODEID=2 SLURM_STEP_TASKS_PER_NODE=2(x2)",
		"SLURM_STEP_TASKS_PER_NODE is \"2(x2)\", which has no number of ranks for the node of "
		"SLURM_NODEID \"2\": unset one of them");
	assert_refused(
		"SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_NODEID=1x SLURM_STEP_TASKS_PER_NODE=2(x2)",
		"SLURM_NODEID \"1x\"");
	assert_refused("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_NODEID=0 SLURM_LOCALID=2 "
		       "SLURM_STEP_TASKS_PER_NODE=2(x2)",
		"SLURM_LOCALID is 2 but SLURM_STEP_TASKS_PER_NODE is 2: give a rank from 0 to 1");
	assert_refused("PMI_PORT=host0:4000 PMI_ID=0",
		"PMI_PORT is set, but not PMI_RANK: start the program with mpiexec without -pmi-port");
	assert_refused("SLURM_PROCID=x SLURM_NTASKS=2",
		"SLURM_PROCID is \"x\": give a whole number from 0 to 65535");
	assert_refused("PMI_RANK=0 PMI_SIZE=many", "PMI_SIZE is \"many\"");
	assert_refused("PMI_RANK=0 PMI_SIZE=0", "PMI_SIZE is \"0\": give a whole number from 1");
}

Test(launch, a_config_with_rank_and_size_needs_no_launcher)
{
	struct rondo_config config = RONDO_CONFIG_INIT;

	config.rank = 1;
	config.size = 3;
	set_variables("PMIX_RANK=0");
	cr_assert_eq(rd_settings_read(&settings, &config), 0, "%s", rondo_last_error());
	cr_assert_eq(settings.rank, 1);
	cr_assert_eq(settings.size, 3);
	/* The launcher still leads to rank 0's host, as for threads of its processes. */
	set_variables("SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_JOB_NODELIST=c[3-4] SLURM_JOB_ID=1");
	cr_assert_eq(rd_settings_read(&settings, &config), 0, "%s", rondo_last_error());
	cr_assert_eq(settings.rank, 1);
	cr_assert_str_eq(settings.address, "c3");
	cr_assert_eq(settings.port, 10241);
}

Test(launch, a_program_can_ask_for_its_place)
{
	struct rondo_launch launch;

	set_variables("SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_LOCALID=1");
	cr_assert_eq(rondo_get_launch(&launch), 0, "%s", rondo_last_error());
	cr_assert_str_eq(launch.launcher, "slurm");
	cr_assert_eq(launch.rank, 3);
	cr_assert_eq(launch.size, 4);
	cr_assert_eq(launch.local_rank, 1);
	cr_assert_eq(launch.local_size, -1);
	set_variables("SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_LOCALID=0 SLURM_NODEID=1 "
		      "SLURM_STEP_TASKS_PER_NODE=3,1");
	cr_assert_eq(rondo_get_launch(&launch), 0, "%s", rondo_last_error());
	cr_assert_eq(launch.local_rank, 0);
	cr_assert_eq(launch.local_size, 1);
	set_variables("");
	cr_assert_eq(rondo_get_launch(&launch), 0, "%s", rondo_last_error());
	cr_assert_str_eq(launch.launcher, "none");
	cr_assert_eq(launch.rank, 0);
	cr_assert_eq(launch.size, 1);
	set_variables("RANK=1");
	cr_assert_eq(rondo_get_launch(&launch), RONDO_SETTING);
	cr_assert_eq(rondo_get_launch(NULL), RONDO_INVALID);
}

Test(launch, a_single_process_an_allocation_and_a_batch_script_are_one_rank)
{
	static const char *const cases[] = {
		"OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 PMIX_RANK=0",
		"PMI_SIZE=1 PMI_RANK=0",
		"SLURM_NTASKS=1 SLURM_PROCID=0",
		"SLURM_NTASKS=8", /* salloc's shell */
		"SLURM_NTASKS=8 SLURM_PROCID=0 ENVIRONMENT=BATCH", /* sbatch's script */
		"SLURM_NTASKS=8 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1", /* salloc's interactive step */
		"SLURM_NTASKS=8 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8 RANK=0 WORLD_SIZE=1",
		"PMI_SIZE= PMI_RANK=",
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct rondo_launch launch;

		set_variables(cases[i]);
		cr_assert_eq(rondo_get_launch(&launch), 0, "%s: %s", cases[i], rondo_last_error());
		cr_assert_eq(launch.rank, 0, "%s", cases[i]);
		cr_assert_eq(launch.size, 1, "%s", cases[i]);
	}
}
