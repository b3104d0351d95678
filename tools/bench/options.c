#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MOST_RANKS 4096

struct complaint {
	char *text;
	size_t size;
};

static enum bench_verdict refuse(struct complaint complaint, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static enum bench_verdict refuse(struct complaint complaint, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	vsnprintf(complaint.text, complaint.size, format, values);
	va_end(values);
	return BENCH_REFUSE;
}

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
};

const char *bench_type_name(rondo_type type)
{
	return type_names[type];
}

bool bench_size_parse(const char *text, size_t *size)
{
	char *end;
	double value = strtod(text, &end), unit = 1;

	/* strtod() also reads signs, "inf" and "nan". */
	if (!isdigit((unsigned char)*text) || end == text)
		return false;
	if (*end) {
		const char *suffix = "kmg", *found = strchr(suffix, tolower((unsigned char)*end));
		if (!found || (end[1] && strcmp(end + 1, "B") != 0 && strcmp(end + 1, "iB") != 0))
			return false;
		for (long i = found - suffix; i >= 0; i--)
			unit *= 1024;
	}
	if (!(value * unit < 0x1p62))
		return false;
	*size = (size_t)(value * unit);
	return true;
}

size_t bench_size_next(const struct bench_options *options, size_t size)
{
	size_t next = options->factor > 1 ? size * options->factor : size + options->step;

	if (next == 0)
		next = rondo_type_size(options->type); /* a factor leads nowhere from 0 */
	if (next <= size || next > options->most || options->collective->shape == BENCH_EMPTY)
		return 0;
	return next;
}

static bool parse_number(const char *text, long least, long most, int *number)
{
	char *end;
	errno = 0;
	long value = strtol(text, &end, 10);

	if (errno || end == text || *end || value < least || value > most)
		return false;
	*number = (int)value;
	return true;
}

static bool parse_type(const char *text, struct bench_options *options)
{
	options->every_type = strcmp(text, "all") == 0;
	for (int type = 0; type < RONDO_TYPE_COUNT && !options->every_type; type++) {
		if (strcmp(text, type_names[type]) == 0 ||
			strcmp(text, rondo_type_name(type)) == 0) {
			options->type = type;
			return true;
		}
	}
	return options->every_type;
}

static bool parse_op(const char *text, struct bench_options *options)
{
	options->every_op = strcmp(text, "all") == 0;
	for (int op = 0; op < RONDO_OP_COUNT && !options->every_op; op++) {
		if (strcmp(text, rondo_op_name(op)) == 0) {
			options->op = op;
			return true;
		}
	}
	return options->every_op;
}

static bool parse_root(const char *text, struct bench_options *options)
{
	options->every_root = strcmp(text, "all") == 0 || strcmp(text, "-1") == 0;
	return options->every_root || parse_number(text, 0, INT_MAX, &options->root);
}

enum { RANKS = 256, TRANSPORT, ALGO, REGISTERED, DEVICE, SVG, QUICK, EXPLAIN, SWEEP, VERSION };

static const struct option long_options[] = {
	{ "minbytes", required_argument, NULL, 'b' },
	{ "maxbytes", required_argument, NULL, 'e' },
	{ "stepbytes", required_argument, NULL, 'i' },
	{ "stepfactor", required_argument, NULL, 'f' },
	{ "iters", required_argument, NULL, 'n' },
	{ "warmup_iters", required_argument, NULL, 'w' },
	{ "check", required_argument, NULL, 'c' },
	{ "op", required_argument, NULL, 'o' },
	{ "datatype", required_argument, NULL, 'd' },
	{ "root", required_argument, NULL, 'r' },
	{ "ngpus", required_argument, NULL, 'g' },
	{ "nthreads", required_argument, NULL, 't' },
	{ "blocking", required_argument, NULL, 'z' },
	{ "average", required_argument, NULL, 'a' },
	{ "output_file", required_argument, NULL, 'J' },
	{ "percentiles", no_argument, NULL, 'I' },
	{ "ranks", required_argument, NULL, RANKS },
	{ "transport", required_argument, NULL, TRANSPORT },
	{ "algo", required_argument, NULL, ALGO },
	{ "registered", no_argument, NULL, REGISTERED },
	{ "device", no_argument, NULL, DEVICE },
	{ "svg", required_argument, NULL, SVG },
	{ "quick", no_argument, NULL, QUICK },
	{ "explain", no_argument, NULL, EXPLAIN },
	{ "sweep", no_argument, NULL, SWEEP },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, VERSION },
	{ NULL, 0, NULL, 0 },
};

/* Reads one option's value; returns what it should have been when it is wrong, else NULL. */
static const char *take(struct bench_options *options, int letter, const char *value)
{
	static const char *const size = "a size such as 8, 64K, 128M or 1G";
	int number;

	switch (letter) {
	case 'b':
		return bench_size_parse(value, &options->least) ? NULL : size;
	case 'e':
		return bench_size_parse(value, &options->most) ? NULL : size;
	case 'i':
		return bench_size_parse(value, &options->step) && options->step ? NULL : size;
	case 'f':
		if (!parse_number(value, 1, 1 << 20, &number))
			return "a whole number from 1 (which means: step by -i) up";
		options->factor = (size_t)number;
		return NULL;
	case 'n':
		return parse_number(value, 1, 100000000, &options->iterations)
			       ? NULL
			       : "a whole number from 1 up";
	case 'w':
		return parse_number(value, 0, 100000000, &options->warmup)
			       ? NULL
			       : "a whole number from 0 up";
	case 'c':
		return parse_number(value, 0, 100000, &options->checks)
			       ? NULL
			       : "a whole number from 0 up";
	case 'o':
		return parse_op(value, options) ? NULL : "sum, prod, min, max, avg, band, bor, bxor, "
							   "land, lor, lxor or all";
	case 'd':
		return parse_type(value, options)
			       ? NULL
			       : "int8, uint8, int32, uint32, int64, uint64, half, "
				 "bfloat16, float, double, f8e4m3, f8e5m2 or all";
	case 'r':
		return parse_root(value, options) ? NULL : "a rank, or -1 for each in turn";
	case 'g':
		return parse_number(value, 1, MOST_RANKS, &options->gpus)
			       ? NULL
			       : "a whole number from 1 up";
	case 't':
		return parse_number(value, 1, MOST_RANKS, &options->threads)
			       ? NULL
			       : "a whole number from 1 up";
	case 'z':
		if (!parse_number(value, 0, 1, &number))
			return "0 (on a stream) or 1 (in the caller)";
		options->blocking = number;
		return NULL;
	case 'a':
		if (!parse_number(value, 0, 3, &number))
			return "0 (rank 0), 1 (average), 2 (fastest) or 3 (slowest)";
		options->average = (enum bench_average)number;
		return NULL;
	case RANKS:
		return parse_number(value, 1, MOST_RANKS, &options->ranks)
			       ? NULL
			       : "a whole number from 1 up";
	case TRANSPORT:
		options->transport = value;
		return NULL;
	case ALGO:
		options->algo = value;
		return NULL;
	case REGISTERED:
		options->registered = true;
		return NULL;
	case DEVICE:
		options->device = true;
		return NULL;
	case 'J':
		options->json = value;
		return NULL;
	case SVG:
		options->svg = value;
		return NULL;
	case QUICK:
		options->quick = true;
		return NULL;
	case EXPLAIN:
		options->explains = true;
		return NULL;
	case SWEEP:
		options->contest = true;
		return NULL;
	default: /* 'I' */
		options->percentiles = true;
		return NULL;
	}
}

static const char *option_name(int letter)
{
	for (const struct option *option = long_options; option->name; option++) {
		if (option->val == letter)
			return option->name;
	}
	return "?";
}

static enum bench_verdict check(const struct bench_options *options, struct complaint complaint)
{
	const char *name = options->collective ? options->collective->name : "init";

	if (options->floor)
		return BENCH_RUN;
	if (options->init && !options->ranks && !getenv("WORLD_SIZE"))
		return refuse(complaint,
			"init takes processes: give --ranks N, or use a launcher");
	if (options->least > options->most)
		return refuse(
			complaint, "-b %zu is more than -e %zu", options->least, options->most);
	if (options->ranks && getenv("WORLD_SIZE"))
		return refuse(complaint,
			"--ranks forks its own ranks, but a launcher has set WORLD_SIZE; "
			"use one of the two");
	if (options->contest && !options->ranks && !getenv("WORLD_SIZE"))
		return refuse(complaint, "--sweep needs ranks in processes: give --ranks N, or use "
					 "rondo-run");
	if ((options->contest || options->explains) && strcmp(name, "sendrecv") == 0)
		return refuse(complaint, "there are no algorithms of %s to compare", name);
	if ((options->contest || options->explains) && !options->collective)
		return refuse(complaint, "--sweep and --explain go with a collective, not with %s",
			name);
	if ((long)options->threads * options->gpus * (options->ranks ? options->ranks : 1) >
		MOST_RANKS)
		return refuse(complaint, "more than %d ranks", MOST_RANKS);
	return BENCH_RUN;
}

static enum bench_verdict read_flags(
	struct bench_options *options, int argc, char **argv, struct complaint complaint)
{
	int letter;

	optind = 0; /* GNU: start afresh, also the second time in one process */
	opterr = 0;
	while ((letter = getopt_long(argc, argv, "+:b:e:i:f:n:w:c:o:d:r:g:t:z:a:J:Ih", long_options,
			NULL)) != -1) {
		const char *bad = optind > 0 && optind <= argc ? argv[optind - 1] : "";

		if (letter == 'h')
			return BENCH_HELP;
		if (letter == VERSION)
			return BENCH_VERSION;
		if (letter == ':')
			return refuse(complaint, "%s needs a value", bad);
		if (letter == '?')
			return refuse(complaint, "%s is no option here; --help lists them", bad);
		const char *wanted = take(options, letter, optarg);
		if (wanted)
			return refuse(complaint, "--%s: '%s' should be %s", option_name(letter),
				optarg, wanted);
	}
	if (optind < argc)
		return refuse(complaint, "'%s' is left over; --help shows the usage", argv[optind]);
	return check(options, complaint);
}

enum bench_verdict bench_options_read(
	struct bench_options *options, int argc, char **argv, char *text, size_t text_size)
{
	struct complaint complaint = { text, text_size };

	*options = (struct bench_options){
		.least = 32 << 20,
		.most = 32 << 20,
		.step = 1 << 20,
		.factor = 1,
		.iterations = 20,
		.warmup = 5,
		.checks = 1,
		.op = RONDO_SUM,
		.type = RONDO_F32,
		.threads = 1,
		.gpus = 1,
		.blocking = true,
		.average = BENCH_SLOWEST,
	};
	if (argc < 2)
		return refuse(complaint, "which collective? --help lists them");
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return BENCH_HELP;
	if (strcmp(argv[1], "--version") == 0)
		return BENCH_VERSION;
	options->collective = bench_collective_find(argv[1]);
	options->floor = strcmp(argv[1], "floor") == 0;
	options->init = strcmp(argv[1], "init") == 0;
	if (!options->collective && !options->floor && !options->init)
		return refuse(complaint, "'%s' is no collective; --help lists them", argv[1]);
	return read_flags(options, argc - 1, argv + 1, complaint);
}

static const char help_text[] =
	"Usage: rondo-bench COLLECTIVE [options]\n"
	"       rondo-bench floor [--quick]\n"
	"       rondo-bench init --ranks N [--transport LIST] [-n N]\n"
	"\n"
	"Times a collective over a range of sizes and checks its results, like nccl-tests.\n"
	"`floor` measures what this machine can do at best: memory, cores, loopback.\n"
	"`init` measures what a communicator costs: the time to make it, and its memory.\n"
	"\n"
	"Collectives: all_reduce reduce_scatter all_gather broadcast reduce alltoall gather "
	"scatter\n"
	"             sendrecv barrier\n"
	"\n"
	"Sizes (suffixes K, M, G are powers of 1024)\n"
	"  -b, --minbytes SIZE      first size (default 32M)\n"
	"  -e, --maxbytes SIZE      last size (default 32M)\n"
	"  -f, --stepfactor N       multiply by N from one size to the next (default 1: add -i "
	"instead)\n"
	"  -i, --stepbytes SIZE     add SIZE from one size to the next (default 1M)\n"
	"What to run\n"
	"  -d, --datatype TYPE      int8 uint8 int32 uint32 int64 uint64 half bfloat16 float "
	"double\n"
	"                           f8e4m3 f8e5m2 or all (default float)\n"
	"  -o, --op OP              sum prod min max avg, of integers also band bor bxor land lor "
	"lxor,\n"
	"                           or all (default sum)\n"
	"  -r, --root RANK          root of broadcast, reduce, gather, scatter; -1: each (default "
	"0)\n"
	"  -z, --blocking 0|1       1: in the caller (default); 0: queued on a stream\n"
	"How to measure\n"
	"  -n, --iters N            timed iterations, at least (default 20)\n"
	"  -w, --warmup_iters N     untimed iterations before (default 5)\n"
	"  -c, --check N            rounds of checking the results; 0: none (default 1)\n"
	"  -a, --average 0|1|2|3    report the time of rank 0, the average, the fastest or the "
	"slowest\n"
	"                           rank (default 3)\n"
	"  -I, --percentiles        time each iteration; add columns p50, p99 and max\n"
	"Ranks (default: RANK and WORLD_SIZE as a launcher sets them, else one)\n"
	"      --ranks N            fork N processes\n"
	"  -t, --nthreads N         ranks in each process, as threads (default 1)\n"
	"  -g, --ngpus N            taken as -t: the buffers are host memory, there are no GPUs to "
	"count\n"
	"      --transport LIST     transports that may be used, e.g. shm or tcp\n"
	"      --algo NAME          algorithm to use\n"
	"      --registered         buffers from rondo_mem_alloc(), which local ranks address directly\n"
	"      --device             buffers in GPU memory; rank r on GPU r modulo their number\n"
	"Choices\n"
	"      --explain            print what links cost, and for each size the ways to run it, what "
	"the\n"
	"                           library expects of each, and what it chooses\n"
	"      --sweep              set every algorithm beside the library's choice, in turns; with "
	"--quick,\n"
	"                           in fewer of them\n"
	"Output\n"
	"  -J, --output_file FILE   the results as JSON as well\n"
	"      --svg FILE           a plot of time and bus bandwidth over size\n"
	"  -h, --help    --version\n"
	"\n"
	"Exit status: 0; 1 when a value was wrong or a call failed; 2 for a bad command line.\n"
	"\n"
	"Example: rondo-bench all_reduce --ranks 2 -b 8 -e 128M -f 2\n";

void bench_options_help(FILE *out)
{
	fputs(help_text, out);
}
