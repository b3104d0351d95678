#include "options.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "base/nearest.h"

#define MOST_RANKS 4096
#define GAP_MOST_NS INT64_C(10000000000)
#define SLEEP_GAP_NS 1000000 /* of --sleep without --gap */

static const char *const type_names[RONDO_TYPE_COUNT] = {
	[RONDO_I8] = "int8",
	[RONDO_U8] = "uint8",
	[RONDO_I32] = "int32",
	[RONDO_U32] = "uint32",
	[RONDO_I64] = "int64",
	[RONDO_U64] = "uint64",
	[RONDO_F16] = "half",
	[RONDO_BF16] = "bfloat16",
	[RONDO_F32] = "float",
	[RONDO_F64] = "double",
	[RONDO_F8E4M3] = "f8e4m3",
	[RONDO_F8E5M2] = "f8e5m2",
	[RONDO_I16] = "int16",
	[RONDO_U16] = "uint16",
	[RONDO_BOOL] = "bool",
	[RONDO_COMPLEX64] = "complex64",
	[RONDO_COMPLEX128] = "complex128",
};

const char *bench_type_name(rondo_type type)
{
	return type_names[type];
}

size_t bench_size_next(const struct bench_options *options, rondo_type type, size_t size)
{
	size_t next = options->factor > 1 ? size * (size_t)options->factor : size + options->step;

	if (next == 0)
		next = rondo_type_size(type); /* a factor leads nowhere from 0 */
	if (next <= size || next > options->most || options->collective->shape == BENCH_EMPTY)
		return 0;
	return next;
}

/* Bounded: every call waits for it. */
static bool read_gap(const struct argument *argument, void *target, const char *text)
{
	int64_t gap_ps, gap_ns;

	if (!arguments_parse_time(text, &gap_ps) || (gap_ns = gap_ps / 1000) < 1 ||
		gap_ns > GAP_MOST_NS)
		return arguments_refuse_value(
			argument, "a time such as 10us or 1ms, at most 10s", text);
	*(int64_t *)target = gap_ns;
	return true;
}

static bool read_type(const struct argument *argument, void *target, const char *text)
{
	struct bench_options *options = target;
	struct rd_nearest nearest = RD_NEAREST(text);

	options->every_type = rd_same_name(text, "all");
	for (int type = 0; type < RONDO_TYPE_COUNT; type++) {
		if (rd_same_name(text, type_names[type]) ||
			rd_same_name(text, rondo_type_name(type))) {
			options->type = type;
			return true;
		}
		rd_nearest_try(&nearest, type_names[type]);
		rd_nearest_try(&nearest, rondo_type_name(type));
	}
	return options->every_type ||
	       arguments_refuse_name(argument,
		       "int8, uint8, int16, uint16, int32, uint32, int64, uint64, half, bfloat16, "
		       "float, double, f8e4m3, f8e5m2, bool, complex64, complex128 or all",
		       &nearest);
}

static bool read_op(const struct argument *argument, void *target, const char *text)
{
	struct bench_options *options = target;
	struct rd_nearest nearest = RD_NEAREST(text);

	options->every_op = rd_same_name(text, "all");
	for (int op = 0; op < RONDO_OP_COUNT; op++) {
		if (rd_same_name(text, rondo_op_name(op))) {
			options->op = op;
			return true;
		}
		rd_nearest_try(&nearest, rondo_op_name(op));
	}
	return options->every_op ||
	       arguments_refuse_name(argument,
		       "sum, prod, min, max, avg, band, bor, bxor, land, lor, lxor or all",
		       &nearest);
}

static bool read_root(const struct argument *argument, void *target, const char *text)
{
	struct bench_options *options = target;

	options->every_root = strcmp(text, "all") == 0 || strcmp(text, "-1") == 0;
	return options->every_root || arguments_number(argument, &options->root, text);
}

/* A number, or a list of them, as 2,4,8. */
static bool read_ranks(const struct argument *argument, void *target, const char *text)
{
	struct bench_options *options = target;
	const char *at = text;
	char *end;

	for (options->count_count = 0; options->count_count < BENCH_COUNTS; at = end + 1) {
		long number = strtol(at, &end, 10);

		if (!isdigit((unsigned char)*at) || number < argument->least ||
			number > argument->most)
			break;
		options->counts[options->count_count++] = (int)number;
		options->ranks = options->counts[0];
		if (*end == '\0')
			return true;
		if (*end != ',')
			break;
	}
	return arguments_refuse_value(
		argument, "a number from 1 to 4096, or for init up to 16, as 2,4,8", text);
}

#define AT(member) offsetof(struct bench_options, member)
#define WHOLE 0 /* the reader sets more than one member */

static const struct argument table[] = {
	{ "minbytes", 'b', AT(least), arguments_size, 0, 0 },
	{ "maxbytes", 'e', AT(most), arguments_size, 0, 0 },
	{ "stepbytes", 'i', AT(step), arguments_size, 1, 0 },
	{ "stepfactor", 'f', AT(factor), arguments_number, 1, 1 << 20 },
	{ "iters", 'n', AT(iterations), arguments_number, 1, 100000000 },
	{ "warmup_iters", 'w', AT(warmup), arguments_number, 0, 100000000 },
	{ "cudagraph", 'G', AT(launches), arguments_number, 0, 1000000 },
	{ "check", 'c', AT(checks), arguments_number, 0, 100000 },
	{ "op", 'o', WHOLE, read_op, 0, 0 },
	{ "datatype", 'd', WHOLE, read_type, 0, 0 },
	{ "root", 'r', WHOLE, read_root, -1, MOST_RANKS - 1 },
	{ "ngpus", 'g', AT(gpus), arguments_number, 1, MOST_RANKS },
	{ "nthreads", 't', AT(threads), arguments_number, 1, MOST_RANKS },
	{ "blocking", 'z', AT(blocking), arguments_number, 0, 1 },
	{ "average", 'a', AT(average), arguments_number, BENCH_RANK0, BENCH_SLOWEST },
	{ "output_file", 'J', AT(json), arguments_text, 0, 0 },
	{ "percentiles", 'I', AT(percentiles), NULL, 0, 0 },
	{ "touch", 0, AT(between.touch), NULL, 0, 0 },
	{ "gap", 0, AT(between.gap_ns), read_gap, 0, 0 },
	{ "walk", 0, AT(between.walk), arguments_size, 1, 0 },
	{ "sleep", 0, AT(between.sleep), NULL, 0, 0 },
	{ "ranks", 0, WHOLE, read_ranks, 1, MOST_RANKS },
	{ "transport", 0, AT(transport), arguments_text, 0, 0 },
	{ "algo", 0, AT(algo), arguments_text, 0, 0 },
	{ "registered", 0, AT(registered), NULL, 0, 0 },
	{ "device", 0, AT(device), NULL, 0, 0 },
	{ "svg", 0, AT(svg), arguments_text, 0, 0 },
	{ "quick", 0, AT(quick), NULL, 0, 0 },
	{ "explain", 0, AT(explains), NULL, 0, 0 },
	{ "sweep", 0, AT(sweep), NULL, 0, 0 },
	{ 0 },
};

static const char *subject(const struct bench_options *options)
{
	if (options->collective)
		return options->collective->name;
	return options->init ? "init" : options->trace ? "replay" : "floor";
}

/* Whether a launcher has started the processes. */
static bool is_launched(void)
{
	struct rondo_launch launch;

	return rondo_get_launch(&launch) == 0 && launch.size > 1;
}

/* Checks --sweep and --explain. */
static bool check_sweep(const struct bench_options *options)
{
	const char *name = subject(options);

	if (!options->sweep && !options->explains)
		return true;
	if (!options->collective)
		return arguments_refuse(
			"--sweep and --explain go with a collective, not with %s", name);
	if (options->sweep && !options->ranks && !is_launched())
		return arguments_refuse(
			"--sweep needs ranks in processes: give --ranks N, or use a launcher");
	if (options->sweep && (options->every_type || options->every_op || options->every_root ||
				      !options->blocking))
		return arguments_refuse("--sweep compares calls of one type, operation and root, "
					"in the caller");
	if (strcmp(name, "sendrecv") == 0)
		return arguments_refuse("there are no algorithms of %s to compare", name);
	return !options->device ||
	       arguments_refuse("--sweep and --explain compare ways through host memory: "
				"leave out --device");
}

/* Checks the files: only a table of a collective fills them. */
static bool check_files(const struct bench_options *options)
{
	if ((!options->json && !options->svg) || (options->collective && !options->sweep) ||
		(options->init && !options->json))
		return true;
	return arguments_refuse("--output_file and --svg go with a collective, not with %s",
		options->sweep ? "--sweep" : subject(options));
}

/* Ranks of this process and its forks; other processes of a launcher are unknown here. */
static long count_ranks(const struct bench_options *options)
{
	return (long)options->threads * options->gpus * (options->ranks ? options->ranks : 1);
}

/* Without this check the kernel would kill some process for the memory, not always this one. */
static bool check_memory(const struct bench_options *options)
{
	double gib = 1 << 30, each = 2.0 * (double)options->most + (double)options->between.walk,
	       needed = each * (double)count_ranks(options) / gib;
	double there = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / gib;

	return !options->collective || options->collective->shape == BENCH_EMPTY ||
	       needed <= there ||
	       arguments_refuse("two buffers of -e %zu bytes%s for each of %ld rank%s take %.1f "
				"GiB, and this host has %.1f",
		       options->most, options->between.walk ? ", and --walk," : "",
		       count_ranks(options), count_ranks(options) == 1 ? "" : "s", needed, there);
}

/* Checks that there is something to run. */
static bool check_collective(const struct bench_options *options)
{
	const struct bench_collective *collective = options->collective;

	if (!collective)
		return true;
	if (collective->reduces && !options->every_op && !options->every_type &&
		!rondo_op_applies(options->op, options->type))
		return arguments_refuse("%s is for integers, not for %s: give -d int32, or another",
			rondo_op_name(options->op), bench_type_name(options->type));
	if (options->device && options->blocking && strcmp(collective->name, "sendrecv") == 0)
		return arguments_refuse("sendrecv takes GPU memory on a stream: give -z 0");
	return true;
}

/* Checks -G. */
static bool check_graph(const struct bench_options *options)
{
	if (!options->launches)
		return true;
	if (!options->collective || !options->device || options->blocking)
		return arguments_refuse("--cudagraph captures a collective's calls on a device's "
					"stream: give --device -z 0");
	return !options->percentiles ||
	       arguments_refuse("-I times each iteration, and a graph runs all of them at once: "
				"leave out -I or -G");
}

/* Checks --touch, --gap, --walk and --sleep. */
static bool check_between(const struct bench_options *options)
{
	if (!bench_between_any(&options->between))
		return true;
	if (!options->collective || options->sweep)
		return arguments_refuse("--touch, --gap, --walk and --sleep go with a collective, "
					"not with %s",
			options->sweep ? "--sweep" : subject(options));
	return !options->device ||
	       arguments_refuse("--touch, --gap, --walk and --sleep measure calls on host memory: "
				"leave out --device");
}

static bool replay_takes(const char *name)
{
	static const char *const names[] = { "ranks", "nthreads", "ngpus", "transport", "algo" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* Checks replay. `given` has a bit for each option of the table. */
static bool check_trace(const struct bench_options *options, uint64_t given)
{
	for (size_t i = 0; options->trace && table[i].name; i++)
		if (given >> i & 1 && !replay_takes(table[i].name))
			return arguments_refuse("--%s is not for replay, which takes --ranks, "
						"--nthreads, --ngpus, --transport and --algo",
				table[i].name);
	return true;
}

/* Checks where the ranks come from. */
static bool check_ranks(const struct bench_options *options)
{
	struct rondo_launch launch;

	if (rondo_get_launch(&launch))
		return arguments_refuse("%s", rondo_last_error());
	if (options->init && (!options->ranks || options->threads > 1 || options->gpus > 1))
		return arguments_refuse(
			"init forks its ranks, one in each process: give --ranks N, "
			"or a list as 2,4,8");
	if (options->count_count > 1 && !options->init)
		return arguments_refuse("--ranks takes one number with %s", subject(options));
	if (options->ranks && launch.size > 1)
		return arguments_refuse(
			"--ranks forks its own ranks, but a launcher (%s) has started %d already; "
			"use one of the two",
			launch.launcher, launch.size);
	return count_ranks(options) <= MOST_RANKS ||
	       arguments_refuse("more than %d ranks", MOST_RANKS);
}

/* Checks the options against each other. */
static bool check(const struct bench_options *options)
{
	if (!check_files(options) || !check_sweep(options) || !check_between(options) ||
		!check_graph(options))
		return false;
	if (options->floor)
		return true;
	if (options->least > options->most)
		return arguments_refuse(
			"-b %zu is more than -e %zu", options->least, options->most);
	return check_collective(options) && check_ranks(options) && check_memory(options);
}

static bool refuse_collective(const char *word)
{
	const struct bench_collective *collective;
	struct rd_nearest nearest = RD_NEAREST(word);
	char meant[RD_NEAREST_TEXT];

	for (int i = 0; (collective = bench_collective_at(i)); i++)
		rd_nearest_try(&nearest, collective->name);
	rd_nearest_try(&nearest, "all_to_all");
	rd_nearest_try(&nearest, "floor");
	rd_nearest_try(&nearest, "init");
	rd_nearest_try(&nearest, "replay");
	return arguments_refuse("'%s' is no collective%s", word, rd_nearest_text(&nearest, meant));
}

/* The words behind "replay". */
static bool read_trace(struct bench_options *options, char **words)
{
	options->trace = words[0];
	if (!words[0])
		return arguments_refuse("replay wants a TRACE, a file of RONDO_TRACE");
	return !words[1] || arguments_refuse("'%s' is left over", words[1]);
}

static bool read_words(struct bench_options *options, char **words)
{
	if (!words[0])
		return arguments_refuse("which collective?");
	if (strcmp(words[0], "replay") == 0)
		return read_trace(options, words + 1);
	options->collective = bench_collective_find(words[0]);
	options->floor = strcmp(words[0], "floor") == 0;
	options->init = strcmp(words[0], "init") == 0;
	if (!options->collective && !options->floor && !options->init)
		return refuse_collective(words[0]);
	return !words[1] || arguments_refuse("'%s' is left over", words[1]);
}

static const char help[] =
	"usage: rondo-bench COLLECTIVE [OPTION]...\n"
	"       rondo-bench floor [--quick]\n"
	"       rondo-bench init --ranks N[,N]... [--transport LIST] [-n N] [--svg FILE]\n"
	"       rondo-bench replay TRACE [--ranks N] [--transport LIST] [--algo NAME]\n"
	"\n"
	"Times a collective over a range of sizes and checks its results, like nccl-tests.\n"
	"`floor` measures what this machine can do at best: memory, cores, loopback.\n"
	"`init` measures what a communicator costs, by its number of ranks: time and memory.\n"
	"`replay` makes the calls of a RONDO_TRACE file again, on as many ranks.\n"
	"\n"
	"Collectives: all_reduce reduce_scatter all_gather broadcast reduce alltoall gather\n"
	"             scatter sendrecv barrier\n"
	"\n"
	"Sizes (suffixes K, M, G are powers of 1024)\n"
	"  -b, --minbytes SIZE      first size (default 32M)\n"
	"  -e, --maxbytes SIZE      last size (default 32M)\n"
	"  -f, --stepfactor N       multiply by N from one size to the next (default 1: add\n"
	"                           -i instead)\n"
	"  -i, --stepbytes SIZE     add SIZE from one size to the next (default 1M)\n"
	"What to run\n"
	"  -d, --datatype TYPE      int8 uint8 int16 uint16 int32 uint32 int64 uint64 half\n"
	"                           bfloat16 float double f8e4m3 f8e5m2 or all (default float)\n"
	"  -o, --op OP              sum prod min max avg, of integers also band bor bxor land\n"
	"                           lor lxor, or all (default sum)\n"
	"  -r, --root RANK          root of broadcast, reduce, gather, scatter; -1: each\n"
	"                           (default 0)\n"
	"  -z, --blocking 0|1       1: in the caller (default); 0: queued on a stream\n"
	"How to measure\n"
	"  -n, --iters N            timed iterations, at least (default 20; of init, 5)\n"
	"  -w, --warmup_iters N     untimed iterations before (default 5)\n"
	"  -c, --check N            rounds of checking the results; 0: none (default 1)\n"
	"  -G, --cudagraph N        capture the iterations of -n in a CUDA graph, and launch\n"
	"                           it N times; takes --device -z 0 (default 0: no graph)\n"
	"  -a, --average 0|1|2|3    report the time of rank 0, the average, the fastest or\n"
	"                           the slowest rank (default 3)\n"
	"  -I, --percentiles        time each iteration; add columns p50, p90, p99,\n"
	"                           and max\n"
	"Calls as programs make them; ranks start each one together, by the clock\n"
	"      --touch              write the inputs before each call, read the outputs after it\n"
	"      --gap TIME           do nothing for this time before each call, e.g. 1ms\n"
	"      --walk SIZE          read other memory of this size before each call\n"
	"      --sleep              sleep through the gap (default then: 1ms), and come out of it\n"
	"                           into the call\n"
	"Ranks (default: those that rondo-run, torchrun or mpirun started, else one)\n"
	"      --ranks N            fork N processes\n"
	"  -t, --nthreads N         ranks in each process, as threads (default 1)\n"
	"  -g, --ngpus N            taken as -t: a thread has one rank, and a rank one GPU at\n"
	"                           most\n"
	"      --transport LIST     transports that may be used, e.g. shm or tcp\n"
	"      --algo NAME          algorithm to use\n"
	"      --registered         buffers from rondo_mem_alloc(), which local ranks\n"
	"                           address directly\n"
	"      --device             buffers in GPU memory; rank r on GPU r modulo their number\n"
	"Choices\n"
	"      --explain            print what links cost, and for each size the ways to run\n"
	"                           it, what the library expects of each, and what it chooses\n"
	"      --sweep              set every algorithm beside the library's choice, in turns;\n"
	"                           with --quick, in fewer of them\n"
	"Output\n"
	"  -J, --output_file FILE   the results as JSON as well\n"
	"      --svg FILE           a plot of time and bus bandwidth over size\n"
	"  -h, --help    --version\n"
	"\n"
	"Exit status: 0; 1 when a value was wrong or a call failed; 2 for a bad command line.\n"
	"\n"
	"  rondo-bench all_reduce --ranks 2 -b 8 -e 128M -f 2\n";

bool bench_options_read(struct bench_options *options, int argc, char **argv)
{
	uint64_t given = 0;
	const struct arguments known = { help, table, false, NULL, &given };

	*options = (struct bench_options){
		.least = 32 << 20,
		.most = 32 << 20,
		.step = 1 << 20,
		.factor = 1,
		.warmup = 5,
		.checks = 1,
		.op = RONDO_SUM,
		.type = RONDO_F32,
		.threads = 1,
		.gpus = 1,
		.blocking = 1,
		.average = BENCH_SLOWEST,
	};

	int left = arguments_read(&known, options, argc, argv);

	if (left < 0 || !read_words(options, argv + left) || !check_trace(options, given))
		return false;
	if (options->iterations == 0)
		options->iterations = options->init ? 5 : 20;
	if (options->between.sleep && !options->between.gap_ns)
		options->between.gap_ns = SLEEP_GAP_NS;
	options->percentiles |= bench_between_any(&options->between);
	return check(options);
}
