/* Transports and algorithms from shared objects: those in docs/examples, and bad ones. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "free_port.h"
#include "rondo.h"
#include "rondo/transport.h"
#include "world.h"

#define LIMIT_S 90
#define STAR PLUGINS "plugin_algorithm.so"
#define NEARBY PLUGINS "plugin_transport.so"

/* Plug-ins of this version of the contract may have been built without `more`. */
_Static_assert(offsetof(struct rd_link, more) % _Alignof(uint64_t) != 0 &&
		       offsetof(struct rd_link, posted) - offsetof(struct rd_link, more) <
			       _Alignof(uint64_t),
	"`more` lies in what was padding before `posted`");

/* ---- One rank, and what it writes to stderr -------------------------------------------------- */

static char log_text[65536];

static int lines_with(const char *word)
{
	int count = 0;

	for (const char *line = log_text; *line; line += strcspn(line, "\n") + 1) {
		const char *found = strstr(line, word);

		count += found && found < line + strcspn(line, "\n");
		if (!line[strcspn(line, "\n")])
			break;
	}
	return count;
}

static void read_said(int fd)
{
	ssize_t got = pread(fd, log_text, sizeof(log_text) - 1, 0);

	log_text[got > 0 ? got : 0] = '\0';
}

/* A single rank; returns 0 on success. */
static int be_alone(void)
{
	struct rondo_config config = RONDO_CONFIG_INIT;
	rondo_comm *comm;
	float one = 1;

	config.rank = 0;
	config.size = 1;
	if (rondo_comm_create(&comm, &config)) {
		fprintf(stderr, "%s\n", rondo_last_error());
		return 1;
	}
	int err = rondo_all_reduce(comm, &one, &one, 1, RONDO_F32, RONDO_SUM, NULL);

	return rondo_comm_destroy(comm) || err || one != 1 ? 2 : 0;
}

/* Runs body in a process, with these plug-ins, and keeps its log. Returns its status. */
static int run_with(const char *transports, const char *algorithms, int (*body)(void))
{
	int fd = memfd_create("log", MFD_CLOEXEC), status = -1;
	pid_t child;

	/* Several processes append to it. */
	fcntl(fd, F_SETFL, O_APPEND);
	setenv("RONDO_TRANSPORT_PLUGIN", transports, 1);
	setenv("RONDO_ALGO_PLUGIN", algorithms, 1);
	fflush(NULL);
	child = fork();
	if (child == 0) {
		dup2(fd, STDERR_FILENO);
		_exit(body());
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	read_said(fd);
	close(fd);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* One line of log names the file and this reason, and nothing else happens. */
static void expect_skipped(const char *transports, const char *algorithms, const char *why)
{
	const char *path = *transports ? transports : algorithms;

	cr_expect_eq(run_with(transports, algorithms, be_alone), 0, "%s: %s", path, log_text);
	cr_expect_eq(lines_with("RONDO WARN"), 1, "%s: %s", path, log_text);
	cr_expect_eq(lines_with(""), 1, "%s: %s", path, log_text);
	cr_expect(strstr(log_text, path), "%s: %s", path, log_text);
	cr_expect(strstr(log_text, why), "%s should say \"%s\": %s", path, why, log_text);
}

Test(plugins, of_another_version_are_skipped, .timeout = LIMIT_S)
{
	expect_skipped(PLUGINS "transport_VERSION_4.so", "",
		"it speaks version 4 of the transport interface, this Rondo version 3");
	expect_skipped(PLUGINS "transport_OTHER_HEADER.so", "",
		"it was built with another rondo/transport.h of version 3");
}

Test(plugins, without_the_symbol_are_skipped, .timeout = LIMIT_S)
{
	expect_skipped(PLUGINS "transport_NO_SYMBOL.so", "",
		"it has no symbol rondo_transport_v3: end one");
	expect_skipped(STAR, "", "it is a plug-in of algorithms, not of transports");
	expect_skipped("", NEARBY, "it is a plug-in of transports, not of algorithms");
}

/* Nobody opens it to write. */
Test(plugins, in_a_fifo_are_skipped_at_once, .timeout = LIMIT_S)
{
	char folder[] = "/tmp/rondo_plugin_XXXXXX", path[64];

	cr_assert(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/fifo", folder);
	cr_assert_eq(mkfifo(path, 0600), 0);
	expect_skipped(path, "", "it is no regular file");
	expect_skipped("", path, "it is no regular file");
	unlink(path);
	rmdir(folder);
}

Test(plugins, that_crash_or_end_the_process_are_skipped, .timeout = LIMIT_S)
{
	expect_skipped(PLUGINS "transport_CRASHES.so", "", ") in probe() of gate");
	cr_expect(strstr(log_text, "crashed ("), "%s", log_text);
	expect_skipped(PLUGINS "transport_CRASHES_EARLY.so", "",
		"crashed (Aborted) in what it runs on being loaded");
	expect_skipped(PLUGINS "transport_LEAVES.so", "", "ended the process in probe() of gate");
}

Test(plugins, whose_algorithms_crash_are_skipped, .timeout = LIMIT_S)
{
	expect_skipped("", PLUGINS "algorithm_CRASHES.so",
		"crashed (Aborted) in write[] of tilted, all_reduce on 1 rank");
}

Test(plugins, whose_algorithms_make_no_sense_are_skipped, .timeout = LIMIT_S)
{
	expect_skipped("", PLUGINS "algorithm_SERVES_NOTHING.so",
		"algorithm tilted has no function in write[]");
	expect_skipped("", PLUGINS "algorithm_DEVICES_ALONE.so",
		"algorithm tilted has on_devices without direct_access");
}

Test(plugins, that_hang_are_skipped, .timeout = LIMIT_S)
{
	expect_skipped(PLUGINS "transport_HANGS.so", "", " s in probe() of gate");
}

Test(plugins, whose_hardware_is_not_here_are_skipped, .timeout = LIMIT_S)
{
	expect_skipped(PLUGINS "transport_LACKS.so", "",
		"transport gate: no gate in this house: pieces of 131072");
}

Test(plugins, that_are_not_what_they_should_be_are_skipped, .timeout = LIMIT_S)
{
	expect_skipped(
		PLUGINS "transport_CANNOT_CLOSE.so", "", "transport gate lacks one of reach");
	expect_skipped(
		PLUGINS "transport_NAMEshm.so", "", "there is a transport called shm already");
	expect_skipped(PLUGINS "transport_OTHER_ABI.so", "", "transport gate has abi ");
	expect_skipped(PLUGINS "transport_NAMEGate.so", "", "the name of a transport has 1 to 15");
}

Test(plugins, that_are_no_shared_objects_are_skipped, .timeout = LIMIT_S)
{
	char path[] = "/tmp/rondo-test-XXXXXX";
	int fd = mkstemp(path);

	cr_assert_eq(write(fd, "#!/bin/sh\n", 10), 10);
	close(fd);
	expect_skipped(path, "", "file too short");
	unlink(path);
	expect_skipped(path, "", "No such file");
	expect_skipped("", path, "No such file");
}

static int be_alone_twice(void)
{
	int status = be_alone();

	return status ? status : be_alone();
}

Test(plugins, are_complained_of_once_and_the_others_are_used, .timeout = LIMIT_S)
{
	setenv("RONDO_DEBUG", "INFO", 1);
	cr_expect_eq(run_with("/none.so," NEARBY ",/nor/this.so", STAR, be_alone_twice), 0, "%s",
		log_text);
	cr_expect_eq(lines_with("RONDO WARN"), 2, "%s", log_text);
	cr_expect_eq(lines_with("brings transport nearby"), 1, "%s", log_text);
	cr_expect_eq(lines_with("brings algorithm star"), 1, "%s", log_text);
	cr_expect_eq(lines_with("Plugin : none"), 0, "%s", log_text);
	cr_expect_eq(run_with("", "", be_alone), 0, "%s", log_text);
	cr_expect_eq(lines_with("Plugin : none (RONDO_TRANSPORT_PLUGIN and"), 1, "%s", log_text);
}

/* ---- Worlds ---------------------------------------------------------------------------------- */

#define COUNT 50000

/* Every rank's input: small whole numbers, whose sums are exact in any order. */
static float value_of(int rank, size_t i)
{
	return (float)((i * 7 + (size_t)rank * 13) % 101);
}

static bool sums_are_right(const float *sums, int size)
{
	for (size_t i = 0; i < COUNT; i++) {
		float sum = 0;

		for (int rank = 0; rank < size; rank++)
			sum += value_of(rank, i);
		if (sums[i] != sum)
			return false;
	}
	return true;
}

static bool is_copy_of(const float *values, int rank)
{
	for (size_t i = 0; i < COUNT; i++)
		if (values[i] != value_of(rank, i))
			return false;
	return true;
}

static int reduce_and_broadcast(struct rank_env *env)
{
	float *values = malloc(COUNT * sizeof(*values)), *sums = malloc(COUNT * sizeof(*sums));
	int wrong = 0;

	if (env->create_error)
		wrong = world_report(env, "create: %s", rondo_last_error());
	for (size_t i = 0; i < COUNT; i++)
		values[i] = value_of(env->rank, i);
	if (!wrong && rondo_all_reduce(env->comm, values, sums, COUNT, RONDO_F32, RONDO_SUM, NULL))
		wrong = world_report(env, "all_reduce: %s", rondo_last_error());
	if (!wrong && !sums_are_right(sums, env->size))
		wrong = world_report(env, "the sums are wrong");
	for (int root = 0; root < env->size && !wrong; root++) {
		if (rondo_broadcast(env->comm, values, sums, COUNT, RONDO_F32, root, NULL))
			wrong = world_report(env, "broadcast: %s", rondo_last_error());
		else if (!is_copy_of(sums, root))
			wrong = world_report(env, "what rank %d sent is wrong", root);
	}
	free(values);
	free(sums);
	return wrong;
}

static struct world plugged; /* the body of run_world() */

static int run_world(void)
{
	return world_run(&plugged, reduce_and_broadcast, NULL, NULL);
}

/* Runs a world in a process of its own, and keeps its log. */
static void expect_right(struct world world, const char *transports, const char *algorithms)
{
	plugged = world;
	cr_expect_eq(run_with(transports, algorithms, run_world), 0, "%d ranks: %s", world.size,
		log_text);
}

Test(plugins, carry_and_direct_a_world_of_ranks, .timeout = LIMIT_S)
{
	setenv("RONDO_DEBUG", "INFO", 1);
	setenv("RONDO_ALGO", "star", 1);
	for (int size = 2; size <= 5; size++) {
		expect_right((struct world){ .size = size, .transport = "nearby" }, NEARBY, STAR);
		cr_expect_eq(lines_with("via nearby"), size * (size - 1), "%s", log_text);
		cr_expect_eq(lines_with("via shm"), 0, "%s", log_text);
		cr_expect_geq(lines_with("ranks: star,"), size, "%s", log_text);
		cr_expect_eq(lines_with("RONDO WARN"), 0, "%s", log_text);
	}
}

Test(plugins, serve_ranks_that_are_threads, .timeout = LIMIT_S)
{
	setenv("RONDO_ALGO", "star", 1);
	expect_right(
		(struct world){ .size = 3, .transport = "nearby", .threads = true }, NEARBY, STAR);
	expect_right(
		(struct world){ .size = 3, .transport = "nearby", .channels = 2 }, NEARBY, STAR);
}

Test(plugins, take_part_in_routing_by_what_they_cost, .timeout = LIMIT_S)
{
	setenv("RONDO_DEBUG", "INFO", 1);
	/* nearby costs more than shm and less than tcp. */
	expect_right((struct world){ .size = 2 }, NEARBY, "");
	cr_expect_eq(lines_with("via shm"), 2, "%s", log_text);
	expect_right((struct world){ .size = 2, .transport = "tcp,nearby" }, NEARBY, "");
	cr_expect_eq(lines_with("via nearby"), 2, "%s", log_text);
	/* Without the plug-in, there is no such transport. */
	cr_expect_neq(run_with("", "", run_world), 0);
	cr_expect_geq(lines_with("\"nearby\", which is no transport"), 1, "%s", log_text);
}

/* ---- Short messages -------------------------------------------------------------------------- */

#define ODD 5003 /* bytes: many messages, and the last not full */

static unsigned char byte_of(int from, int to, size_t i)
{
	return (unsigned char)(i * 11 + (size_t)from * 31 + (size_t)to * 57);
}

/* Every rank sends another block to each. */
static int exchange_bytes(struct rank_env *env)
{
	unsigned char *in = malloc((size_t)env->size * ODD);
	unsigned char *out = malloc((size_t)env->size * ODD);
	int wrong = 0;

	for (int to = 0; to < env->size; to++)
		for (size_t i = 0; i < ODD; i++)
			in[(size_t)to * ODD + i] = byte_of(env->rank, to, i);
	if (rondo_all_to_all(env->comm, in, out, ODD, RONDO_U8, NULL))
		wrong = world_report(env, "all_to_all: %s", rondo_last_error());
	for (int from = 0; from < env->size && !wrong; from++)
		for (size_t i = 0; i < ODD && !wrong; i++)
			if (out[(size_t)from * ODD + i] != byte_of(from, env->rank, i))
				wrong = world_report(
					env, "byte %zu of rank %d's is wrong", i, from);
	free(in);
	free(out);
	return wrong;
}

static int reduce_broadcast_and_exchange(struct rank_env *env)
{
	int wrong = reduce_and_broadcast(env);

	return wrong ? wrong : exchange_bytes(env);
}

static int run_short_messages(void)
{
	return world_run(&plugged, reduce_broadcast_and_exchange, NULL, NULL);
}

/* By each algorithm that sends messages. The transport ends a process that sends longer ones. */
Test(plugins, whose_messages_are_short_carry_all_algorithms, .timeout = LIMIT_S)
{
	static const char *const algorithms[] = { "", "ring", "tree", "binomial", "doubling",
		"halving", "pat", "one_round", "hierarchical", "pipelined", "leaders", "chain" };
	static const char *const paths[] = { PLUGINS "packets_1400.so", PLUGINS "packets_64.so" };

	setenv("RONDO_DEBUG", "INFO", 1);
	for (size_t i = 0; i < sizeof(algorithms) / sizeof(*algorithms); i++) {
		plugged = (struct world){
			.size = 3, .transport = "packets", .algo = algorithms[i], .channels = 2
		};
		cr_expect_eq(run_with(paths[i % 2], "", run_short_messages), 0, "%s over %s: %s",
			algorithms[i], paths[i % 2], log_text);
		cr_expect_geq(lines_with("via packets"), 6, "%s", log_text);
		cr_expect_eq(lines_with("pieces of 131072"), 0, "%s", log_text);
	}
}

static int expect_unsupported(struct rank_env *env)
{
	const char *why = "transport packets carries messages of 32 bytes, and must ";

	if (env->create_error == RONDO_UNSUPPORTED && strstr(rondo_last_error(), why))
		return 0;
	return world_report(env, "%s: %s", rondo_error_name(env->create_error), rondo_last_error());
}

static int run_too_short(void)
{
	return world_run(&plugged, expect_unsupported, NULL, NULL);
}

Test(plugins, whose_messages_are_too_short_are_refused_with_the_reason, .timeout = LIMIT_S)
{
	plugged = (struct world){ .size = 2, .transport = "packets" };
	cr_expect_eq(run_with(PLUGINS "packets_32.so", "", run_too_short), 0, "%s", log_text);
}

/* Each rank's call fails, and gives its buffers back. */
static int expect_halt(struct rank_env *env)
{
	float values[8] = { 0 };
	size_t count = (size_t)(4 + env->rank);
	int err = rondo_all_reduce(env->comm, values, values, count, RONDO_F32, RONDO_SUM, NULL);

	if (err != RONDO_MISMATCH)
		return world_report(env, "%s: %s", rondo_error_name(err), rondo_last_error());
	return getenv("PACKETS_HALTED") ? 0 : world_report(env, "the endpoint has not halted");
}

static int run_mismatch(void)
{
	return world_run(&plugged, expect_halt, NULL, NULL);
}

Test(plugins, whose_call_fails_are_halted_before_it_returns, .timeout = LIMIT_S)
{
	plugged = (struct world){ .size = 2, .transport = "packets" };
	cr_expect_eq(run_with(PLUGINS "packets_1400.so", "", run_mismatch), 0, "%s", log_text);
}

/* ---- Plans that are wrong -------------------------------------------------------------------- */

Test(plugins, whose_plans_are_wrong_are_not_run, .timeout = LIMIT_S)
{
	setenv("RONDO_ALGO", "tilted", 1);
	expect_right((struct world){ .size = 3 }, "", PLUGINS "algorithm_FORGETS_ONE.so");
	cr_expect_eq(lines_with("RONDO WARN algorithm tilted is not used for this: tilted, "
				"all_reduce, 3 ranks"),
		3, "%s", log_text);
	/* It is right where it leaves out no rank. */
	expect_right((struct world){ .size = 2 }, "", PLUGINS "algorithm_FORGETS_ONE.so");
	cr_expect_eq(lines_with("RONDO WARN"), 0, "%s", log_text);
	/* Right for one root is not right for all. */
	expect_right((struct world){ .size = 3 }, "", PLUGINS "algorithm_IGNORES_ROOT.so");
	cr_expect_eq(lines_with("tilted, broadcast, 3 ranks, root 1"), 3, "%s", log_text);
	cr_expect_eq(lines_with("tilted, broadcast, 3 ranks, root 0"), 0, "%s", log_text);
	expect_right((struct world){ .size = 3 }, "", PLUGINS "algorithm_right.so");
	cr_expect_eq(lines_with("RONDO WARN"), 0, "%s", log_text);
}

Test(plugins, that_would_run_on_some_ranks_only_are_not_run, .timeout = LIMIT_S)
{
	setenv("RONDO_ALGO", "tilted", 1);
	expect_right((struct world){ .size = 3 }, "", PLUGINS "algorithm_DISAGREES.so");
	cr_expect_geq(lines_with("may_run() says yes to rank 0, no to rank 2"), 1, "%s", log_text);
}

/* The plan follows from the environment: rank 0 would wait for rank 2, all others for rank 0. */
static int write_another_plan(struct rank_env *env)
{
	float value = 1;

	if (env->rank == 0)
		setenv("TILTED", "1", 1);
	EXPECT_ERROR(rondo_all_reduce(env->comm, &value, &value, 1, RONDO_F32, RONDO_SUM, NULL),
		RONDO_MISMATCH,
		"rank 0 and rank 1 write different plans for all_reduce on 3 ranks by algorithms of "
		"plug-ins");
	return 0;
}

static int run_unlike(void)
{
	return world_run(&plugged, write_another_plan, NULL, NULL);
}

Test(plugins, whose_plans_differ_by_process_are_found_at_the_first_call, .timeout = LIMIT_S)
{
	setenv("RONDO_ALGO", "tilted", 1);
	/* No plan has run by then, so none waits. */
	plugged = (struct world){ .size = 3, .timeout_ms = 1000 * LIMIT_S };
	cr_expect_eq(
		run_with("", PLUGINS "algorithm_BY_PROCESS.so", run_unlike), 0, "%s", log_text);
	/* The same everywhere, it runs. */
	expect_right((struct world){ .size = 3 }, "", PLUGINS "algorithm_BY_PROCESS.so");
	cr_expect_eq(lines_with("RONDO WARN"), 0, "%s", log_text);
}

/* ---- Ranks that differ ----------------------------------------------------------------------- */

static int port_of_two;

/* Rank 1 of two has another plug-in, or none: both fail. */
static int meet_another(int rank, const char *algorithms)
{
	struct rondo_config config = RONDO_CONFIG_INIT;
	rondo_comm *comm;

	setenv("RONDO_ALGO_PLUGIN", algorithms, 1);
	config.rank = rank;
	config.size = 2;
	config.port = port_of_two;
	int err = rondo_comm_create(&comm, &config);

	fprintf(stderr, "rank %d: %s: %s\n", rank, rondo_error_name(err), rondo_last_error());
	return err == RONDO_SETTING ? 0 : 1;
}

static const char *others_plugin;

static int two_that_differ(void)
{
	pid_t other = fork();
	int status = 1;

	if (other == 0)
		_exit(meet_another(1, others_plugin));
	int mine = meet_another(0, STAR);

	waitpid(other, &status, 0);
	return mine || status;
}

static void expect_told(const char *plugin, const char *has)
{
	char words[128];

	others_plugin = plugin;
	port_of_two = free_port();
	cr_expect_eq(run_with("", "", two_that_differ), 0, "%s", log_text);
	snprintf(words, sizeof(words), "has the plug-in algorithms \"%s", has);
	cr_expect_eq(lines_with(words), 2, "%s", log_text);
	cr_expect_eq(lines_with("\"star "), 2, "%s", log_text);
	cr_expect_eq(
		lines_with("RONDO_ALGO_PLUGIN and RONDO_PLAN must bring the same to every rank"), 2,
		"%s", log_text);
}

Test(plugins, that_only_some_ranks_have_are_an_error_on_all, .timeout = LIMIT_S)
{
	expect_told("", "\"");
	expect_told(PLUGINS "algorithm_right.so", "tilted ");
}

static void copy_file(const char *from, const char *to, const char *more)
{
	char bytes[1 << 16];
	FILE *in = fopen(from, "re"), *out = fopen(to, "we");
	size_t got;

	cr_assert(in && out);
	while ((got = fread(bytes, 1, sizeof(bytes), in)) > 0)
		fwrite(bytes, 1, got, out);
	fputs(more, out);
	fclose(in);
	fclose(out);
}

Test(plugins, may_lie_elsewhere_but_not_be_another_build, .timeout = LIMIT_S)
{
	char folder[] = "/tmp/rondo-test-XXXXXX", path[64];

	cr_assert(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/elsewhere.so", folder);
	copy_file(STAR, path, "another build");
	expect_told(path, "star ");
	copy_file(STAR, path, "");
	others_plugin = path;
	port_of_two = free_port();
	/* Not refused: it returns 1, for the comm is made. */
	cr_expect_eq(run_with("", "", two_that_differ), 1, "%s", log_text);
	cr_expect_eq(lines_with("RONDO_OK"), 2, "%s", log_text);
	unlink(path);
	rmdir(folder);
}
