/* rondo-topo as its user sees it: the texts beside the fixtures, files, and errors of one line. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "file_tree.h"
#include "program.h"
#include "text.h"
#include "topo/paths.h"
#include "topo/smi.h"
#include "topo/topology.h"
#include "topo/topology_file.h"

#define FIXTURE(name) RONDO_TOPOLOGIES "/" name ".json"

/* ---- The matrix ---- */

static const char *const names[] = { "dgx", "workstation", "two_nodes", "vm" };

#define NAME_COUNT (sizeof(names) / sizeof(*names))

Test(topo, the_matrix_of_each_fixture_is_the_text_beside_it)
{
	for (size_t i = 0; i < NAME_COUNT; i++) {
		char path[512], wanted_path[512];
		snprintf(path, sizeof(path), "%s/%s.json", RONDO_TOPOLOGIES, names[i]);
		snprintf(wanted_path, sizeof(wanted_path), "%s/%s.txt", RONDO_TOPOLOGIES, names[i]);
		struct run shown = run("--load", path, NULL);
		char *wanted = file_text_at(wanted_path);
		assert_went_well(&shown);
		cr_assert_str_eq(
			shown.out, wanted, "%s: not\n%s\nbut\n%s", names[i], wanted, shown.out);
	}
}

/* ---- The text of `nvidia-smi topo -m` ---- */

/* The words of a text's matrix, of each row the first `most`, without the header's escapes. */
static void matrix_words(char *text, int most, char words[4096])
{
	char *state = NULL, *column;

	*words = '\0';
	for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
		bool row = strspn(line, "GPUNIC") == 3 && strchr("0123456789", line[3]);
		for (int i = 0; row && i < most && (column = strtok(i ? NULL : line, " \t")); i++)
			snprintf(words + strlen(words), 4096 - strlen(words), " %s", column);
	}
}

/* The host of a text has its matrix. most: words of a row to compare. */
static void expect_the_matrix_of(const char *path, int most)
{
	char wanted[4096], got[4096], *text = file_text_at(path);
	struct run shown = run("--from", path, NULL);

	assert_went_well(&shown);
	matrix_words(text, most, wanted);
	matrix_words(shown.out, most, got);
	cr_assert_str_eq(got, wanted);
	cr_assert_not_null(strstr(wanted, "NIC0"));
}

Test(topo, the_text_of_nvidia_smi_is_shown_and_written)
{
	struct run shown = run("--from", RONDO_TOPOLOGIES "/hgx.smi", "--ranks", "4", NULL);

	assert_went_well(&shown);
	cr_assert_not_null(
		strstr(shown.out, "\n  NUMA node 1, package 0: 64 cores, CPUs 32-63,96-127\n"));
	cr_assert_not_null(strstr(shown.out, "CPU Affinity  NUMA Affinity  GPU NUMA ID\n"));
	cr_assert_not_null(strstr(shown.out, "  32-63,96-127  1              9\n"));
	cr_assert_not_null(strstr(shown.out, "\n  NIC2: mlx5_bond_0  up\n"));
	cr_assert_not_null(strstr(shown.out, "\nRing: 0 -NV12- 1 "));
	expect_the_matrix_of(RONDO_TOPOLOGIES "/hgx.smi", 8);
	expect_the_matrix_of(RONDO_TOPOLOGIES "/dgx.txt", 23);
	expect_the_matrix_of(RONDO_TOPOLOGIES "/workstation.txt", 11);
	expect_the_matrix_of(RONDO_TOPOLOGIES "/vm.txt", 4);
	struct run json = run("--from", RONDO_TOPOLOGIES "/hgx.smi", "--json", NULL);
	cr_assert_not_null(strstr(json.out, "\"memory_numa\": 9"), "%s", json.out);
}

Test(topo, the_xml_of_nccl_is_shown_and_written)
{
	struct run shown = run("--from", RONDO_TOPOLOGIES "/hgx.xml", NULL);

	if (strstr(shown.err, "built without expat"))
		cr_skip_test("rondo-topo was built without expat");
	assert_went_well(&shown);
	cr_assert_not_null(strstr(shown.out, "2 NUMA nodes, 2 GPUs, 4 NICs\n"), "%s", shown.out);
	cr_assert_not_null(
		strstr(shown.out, "\nGPU0     X      NV18    SYS     PIX     PHB     NODE"), "%s",
		shown.out);
	cr_assert_not_null(strstr(shown.out, "  NIC0: mlx5_7  up, 200 Gbit/s\n"), "%s", shown.out);
	struct run json = run("--from", RONDO_TOPOLOGIES "/hgx.xml", "--json", NULL);
	cr_assert_not_null(strstr(json.out, "\"cpus\": \"96-127\""), "%s", json.out);
}

/* The text comes slowly: behind more empty lines than a pipe holds. */
static void write_slowly(int to, const char *text)
{
	bool fails = false;

	for (int i = 0; i < 1 << 18; i++)
		fails |= write(to, "\n", 1) != 1;
	_exit(fails || write(to, text, strlen(text)) < 0);
}

Test(topo, a_pipe_with_the_text_is_read_whole_and_one_that_nobody_writes_is_empty, .timeout = 60)
{
	char path[64], *text = file_text_at(RONDO_TOPOLOGIES "/hgx.smi");
	int ends[2], status = -1;

	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	pid_t writer = fork();
	if (writer == 0) {
		close(ends[0]);
		write_slowly(ends[1], text);
	}
	close(ends[1]);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), ends[0]);
	struct run whole = run("--from", path, NULL), file;
	close(ends[0]); /* a writer that is not read to its end gets SIGPIPE */
	cr_assert_eq(waitpid(writer, &status, 0), writer);
	cr_assert_eq(status, 0);
	file = run("--from", RONDO_TOPOLOGIES "/hgx.smi", NULL);
	assert_went_well(&whole);
	cr_assert_str_eq(whole.out, file.out);
	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	close(ends[1]);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), ends[0]);
	file = run("--from", path, NULL);
	cr_assert_eq(file.status, 1);
	cr_assert_not_null(strstr(file.err, ": has no line of columns GPU0"), "%s", file.err);
	close(ends[0]);
}

#define HEADER "  GPU0 GPU1 NIC0 CPU Affinity NUMA Affinity GPU NUMA ID\n"
#define GPU_0 "GPU0 X NV2 PIX 0-3 0 N/A\n"
#define GPU_1 "GPU1 NV2 X SYS 4-7 1 N/A\n"
#define NIC_0 "NIC0 PIX SYS X\n"

Test(topo, a_text_of_nvidia_smi_that_contradicts_itself_is_refused_with_its_line)
{
	static const char *const cases[][2] = {
		{ "{}", "f: has no line of columns GPU0, GPU1, ..." },
		{ "GPU0 GPU2\n", "f:1: column GPU2 where GPU1 or a NIC is due" },
		{ "GPU0 GPU1 CPU Affinity Colour\n", "f:1: an unknown column: Colour" },
		{ "\n" HEADER GPU_0 "\n", "f:4: the text ends before the row of GPU1" },
		{ HEADER GPU_0 NIC_0, "f:3: \"NIC0\" where the row of GPU1 is due" },
		{ HEADER "GPU0 X NV2 PIZ 0-3 0 N/A\n", "f:2: column NIC0: \"PIZ\" is no distance" },
		{ HEADER "GPU0 X NV99 PIX\n", "f:2: column GPU1: \"NV99\" is no distance" },
		{ HEADER "GPU0 X NV2\n", "f:2: column NIC0: \"\" is no distance" },
		{ HEADER "GPU0 SYS NV2 PIX\n", "f:2: column GPU0: SYS, though X stands for" },
		{ HEADER "GPU0 X X PIX\n", "f:2: column GPU1: X, though X stands for" },
		{ HEADER "GPU0 X NV2 NV2\n", "f:2: column NIC0: NV2, though a NIC has no NVLink" },
		{ HEADER GPU_0 "GPU1 NV4 X SYS 4-7 1\n",
			"f:3: column GPU0: NV4, but line 2 has another distance" },
		{ HEADER "GPU0 X NV2 PIX 0-x 0 N/A\n", "f:2: CPU Affinity: \"0-x\" is no list" },
		{ HEADER "GPU0 X NV2 PIX 0-3 no N/A\n", "f:2: NUMA Affinity: \"no\" is no NUMA" },
		{ HEADER "GPU0 X NV2 PIX 0-3 0 N/A 9\n", "f:2: \"9\" lies behind the last column" },
		{ HEADER GPU_0 "GPU1 NV2 X PIX 4-7 1\n"
			       "NIC0 PIX PIX X\n",
			"f:3: NUMA node 1, but a device at NODE or nearer is at node 0" },
		{ HEADER GPU_0 "GPU1 NV2 X SYS 4-7 0\n" NIC_0,
			"f:3: other CPUs than another device at NUMA node 0" },
		{ HEADER GPU_0 "GPU1 NV2 X SYS 2-7 1\n" NIC_0,
			"f: host host has a CPU in both NUMA node 0 and NUMA node 1" },
		{ HEADER GPU_0 "GPU1 NV2 X SYS 0-3 0\n" NIC_0,
			"f:4: column GPU1: SYS, but by the distances to others it is NODE" },
		{ HEADER GPU_0 GPU_1 NIC_0 HEADER, "f:5: the matrix of another host" },
		{ HEADER GPU_0 GPU_1 NIC_0 "NIC0:\n", "f:5: NIC0: has no name" },
	};
	struct rd_topology topology;
	char text[512];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		snprintf(text, sizeof(text), "%s", cases[i][0]);
		cr_assert_eq(topo_smi_parse(&topology, "f", text, strlen(text)), RONDO_INVALID,
			"%s", cases[i][0]);
		cr_assert(strstr(rondo_last_error(), cases[i][1]), "not %s, but %s", cases[i][1],
			rondo_last_error());
	}
	snprintf(text, sizeof(text), "%s", HEADER GPU_0 GPU_1 NIC_0);
	cr_assert_eq(
		topo_smi_parse(&topology, "f", text, strlen(text)), 0, "%s", rondo_last_error());
	rd_topology_finish(&topology);
}

Test(topo, a_name_in_the_text_of_nvidia_smi_has_no_control_characters)
{
	static const char *const texts[] = { HEADER GPU_0 GPU_1 NIC_0 "NIC0: a\vb\n",
		HEADER GPU_0 GPU_1 NIC_0 "NIC0: a\fb\n", HEADER GPU_0 GPU_1 NIC_0 "NIC0: a\ab\n",
		HEADER GPU_0 GPU_1 NIC_0 "NIC0: a\x7f"
					 "b\n" };
	struct rd_topology topology, again;
	char text[512], *file = NULL;
	size_t size;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		snprintf(text, sizeof(text), "%s", texts[i]);
		cr_assert_eq(topo_smi_parse(&topology, "f", text, strlen(text)), 0, "%s",
			rondo_last_error());
		cr_assert_str_eq(topology.hosts[0].rdma[0].device.name, "a?b");
		FILE *out = open_memstream(&file, &size);
		rd_topology_write(&topology, out);
		fclose(out);
		cr_assert_eq(rd_topology_parse(&again, "again", file, size), 0, "%s",
			rondo_last_error());
		free(file);
		rd_topology_finish(&topology);
		rd_topology_finish(&again);
	}
}

Test(topo, the_file_that_ranks_would_believe_is_shown_unless_another_is_named)
{
	struct run named = run("--load", FIXTURE("vm"), NULL);

	setenv("RONDO_TOPO_FILE", FIXTURE("vm"), 1);
	struct run believed = run(NULL), other = run("--load", FIXTURE("dgx"), NULL);
	assert_went_well(&believed);
	cr_assert_str_eq(believed.out, named.out);
	cr_assert_str_neq(other.out, named.out);
	setenv("RONDO_TOPO_FILE", "", 1);
	struct run here = run(NULL);
	assert_went_well(&here);
	cr_assert_str_neq(here.out, named.out);
	setenv("RONDO_TOPO_FILE", "/nowhere.json", 1);
	struct run missing = run(NULL);
	cr_assert_eq(missing.status, 1);
	cr_assert_str_empty(missing.out);
	cr_assert_not_null(strstr(missing.err, "RONDO_TOPO_FILE: "), "%s", missing.err);
	cr_assert_not_null(strstr(missing.err, "/nowhere.json"), "%s", missing.err);
}

Test(topo, with_ranks_their_places_ring_and_trees_are_shown)
{
	struct run shown = run("--load", FIXTURE("two_nodes"), "--ranks", "8", NULL);

	assert_went_well(&shown);
	cr_assert_not_null(strstr(
		shown.out, "\n     6  node1            2    16     1  GPU2  0000:88:00.0  eth0\n"));
	cr_assert_not_null(strstr(shown.out,
		"\nRing: 0 -PIX- 1 -SYS- 2 -PIX- 3 -NET- 4 -PIX- 5 -SYS- 6 -PIX- 7 -NET- 0\n"));
	cr_assert_not_null(strstr(shown.out, "\nTree 0: "));
	cr_assert_not_null(strstr(shown.out, "\nTree 1: "));
}

Test(topo, without_ranks_no_ring_is_shown)
{
	struct run shown = run("--load", FIXTURE("vm"), NULL);

	assert_went_well(&shown);
	cr_assert_null(strstr(shown.out, "Ring"));
	cr_assert_not_null(strstr(shown.out, "NUMA Affinity"));
}

Test(topo, this_machine_is_shown)
{
	struct run shown = run(NULL);

	assert_went_well(&shown);
	cr_assert(!strncmp(shown.out, "Host ", 5));
	cr_assert_not_null(strstr(shown.out, "NUMA node "));
}

Test(topo, missing_parts_are_logged_with_rondo_debug)
{
	setenv("RONDO_DEBUG", "INFO", 1);
	struct run shown = run(NULL);
	cr_assert_eq(shown.status, 0);
	cr_assert_not_null(strstr(shown.err, "RONDO INFO"), "%s", shown.err);
	cr_assert_not_null(strstr(shown.err, "NUMA nodes "), "%s", shown.err);
	setenv("RONDO_DEBUG", "LOUD", 1);
	shown = run(NULL);
	cr_assert_eq(shown.status, 1);
	cr_assert_not_null(strstr(shown.err, "RONDO_DEBUG is \"LOUD\""));
}

/* ---- Files ---- */

Test(topo, what_is_dumped_can_be_loaded, .init = tree_begin, .fini = tree_end)
{
	struct run dumped = run("--dump", tree_file, NULL), here = run("--json", NULL);
	struct run loaded = run("--load", tree_file, "--json", NULL);

	assert_went_well(&dumped);
	cr_assert_str_empty(dumped.out);
	assert_went_well(&loaded);
	cr_assert_str_eq(loaded.out, here.out);
}

Test(topo, a_dump_is_the_fixture_it_was_loaded_from)
{
	for (size_t i = 0; i < NAME_COUNT; i++) {
		char path[512];
		snprintf(path, sizeof(path), "%s/%s.json", RONDO_TOPOLOGIES, names[i]);
		struct run dumped = run("--load", path, "--dump", "-", NULL);
		char *wanted = file_text_at(path);
		assert_went_well(&dumped);
		cr_assert_str_eq(dumped.out, wanted);
	}
}

/* CPUs are numbered in turn on some machines of two packages: "0,2,4,...". */
Test(topo, a_long_list_of_cpus_is_shown_whole, .init = tree_begin, .fini = tree_end)
{
	char cpus[1024] = "0";
	FILE *out = fopen(tree_file, "we");

	for (int cpu = 2; cpu < 400; cpu += 2)
		snprintf(cpus + strlen(cpus), sizeof(cpus) - strlen(cpus), ",%d", cpu);
	fprintf(out,
		"{\"rondo_topology\": 1, \"hosts\": [{\"name\": \"a\", \"numa\": ["
		"{\"number\": 0, \"cpus\": \"%s\"}, {\"number\": 1, \"cpus\": \"\"}], \"gpus\": ["
		"{\"numa\": 0}, {\"numa\": 1}]}]}",
		cpus);
	fclose(out);
	struct run shown = run("--load", tree_file, NULL);
	assert_went_well(&shown);
	strcat(cpus, "\n");
	cr_assert_not_null(strstr(shown.out, cpus), "%s", shown.out);
	strcpy(strchr(cpus, '\n'), "  0              N/A\n");
	cr_assert_not_null(strstr(shown.out, cpus), "%s", shown.out);
	cr_assert_not_null(strstr(shown.out, "X      N/A "), "%s", shown.out);
}

/* The value of the member, or -1. */
static int member(const struct rd_json *json, int object, const char *key)
{
	for (int i = object + 1; i < json->values[object].next; i = json->values[i + 1].next)
		if (!strcmp(json->values[i].text, key))
			return i + 1;
	return -1;
}

Test(topo, json_has_the_matrix_and_the_ranks_and_can_be_loaded)
{
	struct run shown = run("--load", FIXTURE("two_nodes"), "--ranks", "8", "--json", NULL);
	struct rd_json json;
	struct rd_topology topology;
	int64_t next;

	assert_went_well(&shown);
	cr_assert_eq(rd_json_parse(&json, "out", shown.out, strlen(shown.out)), 0, "%s",
		rondo_last_error());
	int derived = member(&json, 0, "derived");
	cr_assert_gt(derived, 0);
	cr_assert_eq(json.values[member(&json, derived, "matrices")].count, 2);
	cr_assert_eq(json.values[member(&json, derived, "ranks")].count, 8);
	int ring = member(&json, derived, "ring_next");
	cr_assert_eq(json.values[ring].count, 8);
	cr_assert(rd_json_whole(&json.values[ring + 8], 0, 7, &next));
	cr_assert_eq(next, 0);
	rd_json_finish(&json);
	cr_assert_eq(rd_topology_parse(&topology, "out", shown.out, strlen(shown.out)), 0, "%s",
		rondo_last_error());
	cr_assert_eq(topology.host_count, 2);
	rd_topology_finish(&topology);
}

/* ---- Paths ---- */

static void assert_one_round(const struct topo_paths *paths)
{
	int rank = 0;

	for (int i = 1; i < paths->size; i++) {
		rank = paths->ring[rank];
		cr_assert_neq(rank, 0, "of %d ranks the ring has %d", paths->size, i);
	}
	cr_assert_eq(paths->ring[rank], 0);
}

static void assert_one_tree(const struct topo_paths *paths, int tree)
{
	int roots = 0;

	for (int rank = 0; rank < paths->size; rank++) {
		int steps = 0;
		for (int up = rank; up >= 0 && steps <= paths->size; up = paths->parents[tree][up])
			steps++;
		cr_assert_leq(steps, paths->size, "a tree without a root above %d", rank);
		roots += paths->parents[tree][rank] < 0;
	}
	cr_assert_eq(roots, 1);
}

Test(topo, the_ring_and_the_trees_reach_every_rank)
{
	struct rd_topology topology;

	cr_assert_eq(rd_topology_load(&topology, FIXTURE("two_nodes")), 0);
	for (int size = 1; size <= 33; size++) {
		struct topo_paths paths;
		cr_assert_eq(topo_paths_init(&paths, &topology, size), 0, "%s", rondo_last_error());
		assert_one_round(&paths);
		for (int tree = 0; tree < TOPO_TREES && size > 1; tree++)
			assert_one_tree(&paths, tree);
		topo_paths_finish(&paths);
	}
	rd_topology_finish(&topology);
}

/* ---- Bad input ---- */

static void assert_refused(struct run refused, int status, const char *line)
{
	cr_assert_eq(refused.status, status, "%s", refused.err);
	cr_assert_str_empty(refused.out);
	cr_assert_not_null(strstr(refused.err, line), "no \"%s\" in: %s", line, refused.err);
	cr_assert(!strncmp(refused.err, "rondo-topo: ", 12), "%s", refused.err);
	cr_assert_eq(count_of(refused.err, "\n"), 1, "one line: %s", refused.err);
}

Test(topo, bad_arguments_are_refused_in_one_line)
{
	assert_refused(
		run("--ranks", "0", NULL), 2, "--ranks wants a number from 1 to 1024, not '0'");
	assert_refused(run("--ranks", "1025", NULL), 2, "not '1025'");
	assert_refused(run("--ranks", "8x", NULL), 2, "not '8x'");
	assert_refused(run("--ranks", "", NULL), 2, "--ranks wants a number");
	assert_refused(run("--load", "", NULL), 2, "--load wants a value");
	assert_refused(run("here.json", NULL), 2, "what is meant by 'here.json'?");
	assert_refused(run("--lood", "x", NULL), 2, "--lood is no option here");
	assert_refused(run("--json", "--dump", "-", NULL), 2, "standard output");
}

Test(topo, bad_files_are_refused_in_one_line)
{
	assert_refused(run("--load", "/none.json", NULL), 1,
		"cannot read the topology /none.json: No such file or directory");
	assert_refused(run("--load", FIXTURE("broken/cut_short"), NULL), 1,
		"cut_short.json:13: a string does not end on its line");
	assert_refused(run("--load", FIXTURE("broken/node_missing"), NULL), 1,
		"gpu1 is at NUMA node 1, which the host does not have");
	assert_refused(run("--load", RONDO_TOOL, NULL), 1, ":1: ");
	assert_refused(run("--dump", "/none/none.json", NULL), 1, "cannot write /none/none.json");
}

Test(topo, a_full_disk_is_reported)
{
	struct program program = program_files();

	program.out = open("/dev/full", O_WRONLY | O_CLOEXEC);
	if (program.out < 0)
		cr_skip_test("no /dev/full here");
	program_run(&program, RONDO_TOOL, "--load", FIXTURE("vm"), NULL);
	cr_assert_eq(program.status, 1);
	assert_contains(program.err, "cannot write standard output: No space left");
}

Test(topo, help_and_version_answer)
{
	struct run help = run("--help", NULL), version = run("--version", NULL);
	struct run short_help = run("-h", NULL);

	assert_went_well(&help);
	assert_went_well(&short_help);
	cr_assert_str_eq(short_help.out, help.out);
	assert_went_well(&version);
	cr_assert(!strncmp(help.out, "usage: rondo-topo", 17));
	cr_assert(!strncmp(version.out, "rondo-topo ", 11));
}
