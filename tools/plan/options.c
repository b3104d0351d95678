#include "options.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/plan_files.h"
#include "arguments.h"
#include "base/error.h"
#include "base/nearest.h"
#include "tuner/thresholds.h"

static const char help[] =
	"usage: rondo-plan print ALGORITHM COLLECTIVE [OPTION]...\n"
	"       rondo-plan draw ALGORITHM COLLECTIVE --svg FILE | --html FILE [OPTION]...\n"
	"       rondo-plan compare [ALGORITHM] COLLECTIVE [OPTION]...\n"
	"       rondo-plan simulate ALGORITHM COLLECTIVE [OPTION]...\n"
	"       rondo-plan prove ALGORITHM [COLLECTIVE] [OPTION]...\n"
	"       rondo-plan export ALGORITHM COLLECTIVE -o FILE [OPTION]...\n"
	"       rondo-plan import FILE -o FILE\n"
	"       rondo-plan diff TRACE [PLAN] [OPTION]...\n"
	"       rondo-plan replay TRACE [PLAN] [OPTION]...\n"
	"\n"
	"A plan file may stand for ALGORITHM COLLECTIVE, or for the COLLECTIVE of compare.\n"
	"\n"
	"Shows the plan of a collective: the steps of every rank, their times on a machine of\n"
	"these costs, and the critical path. compare predicts each algorithm's time, by size.\n"
	"simulate runs thousands of ranks in virtual time, over shared links, with faults.\n"
	"prove proves the plans for 1 to --ranks ranks, and for some larger numbers.\n"
	"export writes the plans of all ranks to a file. import reads a program of MSCCL\n"
	"or MSCCL++, proves it, and writes a plan file. diff lays the steps of a\n"
	"RONDO_TRACE file beside their plans (PLAN: a file of them), and names the first that\n"
	"differs. replay simulates the calls of a trace, and then with slower ranks and other\n"
	"links. Its TRACE may also be Chakra's: NAME, for the files NAME.RANK.et of all ranks.\n"
	"\n"
	"  --ranks N          (default 4, or as in the plan file; prove: 64)\n"
	"  --hosts N          the ranks are spread over N hosts, in order (default 1; with\n"
	"                     --topology, one for each rank; replay: as in the trace)\n"
	"  --cores N          cores of a host (default: as in --costs, else one for each rank)\n"
	"  --root RANK        of the collectives that have one (default 0, or as in the plan file)\n"
	"  --size SIZE        bytes of a block: what an all_reduce reduces, or one rank's part\n"
	"                     (default 1M)\n"
	"  --piece SIZE       bytes that a message carries at most (default 128K)\n"
	"  --pieces N         pieces of the call that are timed, 1 to 3 (default 1)\n"
	"  --costs FILE       costs of links and memory: a file of RONDO_TUNE_FILE, whose first\n"
	"                     entry counts (default: shared memory, and TCP over 10 Gbit/s)\n"
	"  --plugin FILE      shared object with algorithms; may be given again\n"
	"\n"
	"  --topology SHAPE   simulate, draw, compare, diff, replay: the network between hosts:\n"
	"                     card, switch:over=4, fat-tree:k=8,over=2, torus:8x8x4,\n"
	"                     dragonfly:p=2,a=4,h=2, each with mbps=100000,ns=500; or a file\n"
	"  --link NAME=2      replay: the link of --topology has twice the bandwidth\n"
	"  --slow RANK=1.1    simulate, draw, replay: each step of the rank takes 1.1 times as long\n"
	"  --kill RANK@250us  simulate, draw: the rank dies then (ns, us, ms, s)\n"
	"  --jitter PERCENT   simulate, draw, replay: a step takes up to this much more, at random\n"
	"  --seed N           of --jitter (default 0)\n"
	"\n"
	"  --call N           diff: the calls of this number, with all their steps\n"
	"  --within FACTOR    diff: times differ beyond this factor (default 2)\n"
	"\n"
	"  --rank RANK        print: this rank alone\n"
	"  --json, --tsv      one document; a line for each step, rank, link or size\n"
	"  --svg FILE         draw a picture\n"
	"  --html FILE        draw it on a page: a step under the pointer shows its chunk's way\n"
	"  --output FILE, -o  export, import: the plan file to write\n"
	"  --format FORMAT    export: rondo, msccl for MSCCL's XML, or chakra for execution traces\n"
	"                     FILE.RANK.et, of one call of --size in pieces of --piece (default\n"
	"                     rondo)\n"
	"  -h, --help, --version\n"
	"\n"
	"FILE may be - for standard output.\n"
	"\n"
	"  rondo-plan print ring all_reduce --ranks 4\n"
	"  rondo-plan draw tree all_reduce --ranks 16 --hosts 2 --html tree.html\n"
	"  rondo-plan compare all_reduce --ranks 8\n"
	"  rondo-plan simulate ring all_reduce --ranks 10000 --hosts 1250 --topology fat-tree:k=18\n"
	"  rondo-plan export ring all_reduce --ranks 4 -o ring_4.json\n"
	"  rondo-plan diff trace.json --costs here.costs\n"
	"  rondo-plan replay trace.json --hosts 4 --topology card --link 'host 0 up=2'\n";

static bool read_plugin(const struct argument *argument, void *target, const char *text)
{
	const char **plugins = target;
	int count = 0;

	while (plugins[count])
		count++;
	if (count == PLAN_PLUGINS_MAX)
		return arguments_refuse("more than %d plug-ins", PLAN_PLUGINS_MAX);
	return arguments_text(argument, &plugins[count], text);
}

/* Reads "RANK" and the mark behind it. Returns the text past them, and the fault; NULL: refused. */
static const char *read_fault(
	struct plan_faults *faults, const char *text, char mark, struct plan_fault **fault)
{
	char *end;
	long rank = strtol(text, &end, 10);

	if (faults->count == PLAN_FAULTS_MAX || !isdigit((unsigned char)*text) ||
		rank >= PLAN_RANKS_MAX || *end != mark || !isdigit((unsigned char)end[1]))
		return NULL;
	*fault = &faults->list[faults->count++];
	(*fault)->rank = (int)rank;
	return end + 1;
}

static bool read_slow(const struct argument *argument, void *target, const char *text)
{
	struct plan_fault *fault;
	const char *number = read_fault(target, text, '=', &fault);
	char *end;
	double factor = number ? strtod(number, &end) : 0;

	if (!number || *end || !(factor >= 0.001 && factor <= 1000))
		return arguments_refuse_value(argument, "RANK=FACTOR, such as 3=1.1", text);
	fault->value = (int64_t)(factor * 1000 + 0.5);
	return true;
}

/* "NAME=FACTOR": names have blanks, and may have "=". */
static bool read_link(const struct argument *argument, void *target, const char *text)
{
	struct plan_links *links = target;
	const char *mark = strrchr(text, '=');
	size_t length = mark ? (size_t)(mark - text) : 0;
	struct plan_link *link = &links->list[links->count];
	char *end;
	double factor = mark ? strtod(mark + 1, &end) : 0;

	if (links->count == PLAN_FAULTS_MAX || length == 0 || length >= sizeof(link->name) ||
		*end || !(factor >= 0.001 && factor <= 1000))
		return arguments_refuse_value(argument, "NAME=FACTOR, such as 'host 0 up=2'", text);
	snprintf(link->name, sizeof(link->name), "%.*s", (int)length, text);
	link->thousandths = (int64_t)(factor * 1000 + 0.5);
	links->count++;
	return true;
}

static bool read_kill(const struct argument *argument, void *target, const char *text)
{
	struct plan_fault *fault;
	const char *time = read_fault(target, text, '@', &fault);

	return (time && arguments_parse_time(time, &fault->value)) ||
	       arguments_refuse_value(argument, "RANK@TIME, such as 3@250us", text);
}

static bool read_within(const struct argument *argument, void *target, const char *text)
{
	char *end;
	double factor = strtod(text, &end);

	if (end == text || *end || !(factor >= 1 && factor <= 1e6))
		return arguments_refuse_value(argument, "a factor from 1 on, such as 2", text);
	*(double *)target = factor;
	return true;
}

static const char *const formats[] = { "rondo", "msccl", "chakra" };

static bool read_format(const struct argument *argument, void *target, const char *text)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		if (strcmp(text, formats[i]) == 0) {
			*(enum plan_format *)target = (enum plan_format)i;
			return true;
		}
	return arguments_refuse_value(argument, "rondo, msccl or chakra", text);
}

#define OF(action) (1U << PLAN_##action)
#define SHOWN (OF(PRINT) | OF(DRAW))
#define TIMED (SHOWN | OF(COMPARE) | OF(SIMULATE))
#define TRACED (OF(DIFF) | OF(REPLAY))
#define SIMULATED (OF(DRAW) | OF(SIMULATE) | OF(REPLAY))
#define WRITTEN (OF(PRINT) | OF(COMPARE) | OF(SIMULATE) | OF(PROVE) | TRACED)

/* X(name, letter, member, reader, least, most, the actions that have a use for it) */
#define OPTIONS(X) \
	X("ranks", 'n', ranks, arguments_number, 1, PLAN_RANKS_MAX, \
		TIMED | OF(PROVE) | OF(EXPORT)) \
	X("hosts", 0, hosts, arguments_number, 1, PLAN_RANKS_MAX, TIMED | OF(EXPORT) | OF(REPLAY)) \
	X("cores", 0, cores, arguments_number, 1, PLAN_RANKS_MAX, SHOWN | OF(COMPARE)) \
	X("root", 0, root, arguments_number, 0, PLAN_RANKS_MAX - 1, TIMED | OF(EXPORT)) \
	X("rank", 0, rank, arguments_number, 0, PLAN_RANKS_MAX - 1, OF(PRINT)) \
	X("size", 0, size, arguments_size, 0, 0, SHOWN | OF(SIMULATE) | OF(EXPORT)) \
	X("piece", 0, piece_size, arguments_size, 1, 0, TIMED | OF(EXPORT)) \
	X("pieces", 0, pieces, arguments_number, 1, RD_REPLAYED_PIECES, SHOWN) \
	X("costs", 0, costs, arguments_text, 0, 0, TIMED | TRACED) \
	X("plugin", 0, plugins, read_plugin, 0, 0, TIMED | OF(PROVE) | OF(EXPORT) | TRACED) \
	X("topology", 0, topology, arguments_text, 0, 0, OF(COMPARE) | SIMULATED | OF(DIFF)) \
	X("link", 0, links, read_link, 0, 0, OF(REPLAY)) \
	X("slow", 0, slow, read_slow, 0, 0, SIMULATED) \
	X("kill", 0, kills, read_kill, 0, 0, OF(DRAW) | OF(SIMULATE)) \
	X("jitter", 0, jitter, arguments_number, 0, 1000, SIMULATED) \
	X("seed", 0, seed, arguments_number, 0, INT_MAX, SIMULATED) \
	X("call", 0, call, arguments_number, 0, INT_MAX, OF(DIFF)) \
	X("within", 0, within, read_within, 0, 0, OF(DIFF)) \
	X("format", 0, format, read_format, 0, 0, OF(EXPORT)) \
	X("output", 'o', output, arguments_text, 0, 0, OF(EXPORT) | OF(IMPORT)) \
	X("json", 0, json, NULL, 0, 0, WRITTEN) \
	X("tsv", 0, tsv, NULL, 0, 0, WRITTEN) \
	X("svg", 0, svg, arguments_text, 0, 0, OF(DRAW)) \
	X("html", 0, html, arguments_text, 0, 0, OF(DRAW))

static const struct argument table[] = {
#define ARGUMENT(name, letter, member, read, least, most, actions) \
	{ name, letter, offsetof(struct plan_options, member), read, least, most },
	OPTIONS(ARGUMENT)
#undef ARGUMENT
		{ 0 },
};

static const unsigned uses[] = {
#define USES(name, letter, member, read, least, most, actions) actions,
	OPTIONS(USES)
#undef USES
};

/* ---- Words ---------------------------------------------------------------------------------- */

static const char *const actions[] = { "print", "draw", "compare", "simulate", "prove", "export",
	"import", "diff", "replay" };

#define ACTIONS (sizeof(actions) / sizeof(*actions))

static bool read_action(struct plan_options *options, const char *text)
{
	for (size_t i = 0; i < ACTIONS; i++)
		if (strcmp(text, actions[i]) == 0) {
			options->action = (enum plan_action)i;
			return true;
		}
	return arguments_refuse(
		"print, draw, compare, simulate, prove, export, import, diff or replay, not '%s'",
		text);
}

static bool read_collective(struct plan_options *options, const char *text)
{
	struct rd_nearest nearest = RD_NEAREST(text);
	char meant[RD_NEAREST_TEXT];
	int found = rd_collective_named(text);

	if (found >= 0) {
		options->collective = (enum rd_collective)found;
		return true;
	}
	for (int i = 0; i < RD_COLLECTIVE_COUNT; i++)
		rd_nearest_try(&nearest, rd_collective_name((enum rd_collective)i));
	return arguments_refuse("'%s' is no collective, such as all_reduce or broadcast%s", text,
		rd_nearest_text(&nearest, meant));
}

static bool refuse_use(size_t option)
{
	char list[96] = "";
	unsigned left = uses[option];

	for (size_t i = 0; i < ACTIONS; i++) {
		if (!(left & 1U << i))
			continue;
		left &= ~(1U << i);
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
			!*list  ? ""
			: !left ? " and "
				: ", ",
			actions[i]);
	}
	return arguments_refuse("--%s is for %s", table[option].name, list);
}

/* The options of an export whose format has the sizes of messages. */
static bool is_sized(size_t option)
{
	return strcmp(table[option].name, "size") == 0 || strcmp(table[option].name, "piece") == 0;
}

static bool check_uses(const struct plan_options *options, uint64_t given)
{
	bool has_sizes = options->action != PLAN_EXPORT || options->format == PLAN_FORMAT_CHAKRA;

	for (size_t i = 0; table[i].name; i++) {
		if (!(given >> i & 1))
			continue;
		if (!(uses[i] & 1U << options->action))
			return refuse_use(i);
		if (is_sized(i) && !has_sizes)
			return arguments_refuse("--%s is for --format chakra: plans in other "
						"formats serve all sizes",
				table[i].name);
	}
	return true;
}

/* The words of an action that reads a file which has no plans. */
static bool read_source(struct plan_options *options, int count, char **words)
{
	options->source = count > 1 ? words[1] : NULL;
	if (options->action == PLAN_IMPORT)
		return count == 2 || arguments_refuse("import wants a FILE");
	options->file = count > 2 ? words[2] : NULL;
	if (count > 3)
		return arguments_refuse("what is meant by '%s'?", words[3]);
	return count > 1 || arguments_refuse("%s wants a TRACE", words[0]);
}

static bool read_words(struct plan_options *options, int count, char **words)
{
	if (count == 0)
		return arguments_refuse(
			"print, draw, compare, simulate, prove, export, import, diff or replay?");
	if (!read_action(options, words[0]))
		return false;

	bool proves = options->action == PLAN_PROVE;
	int least = proves || options->action == PLAN_COMPARE ? 2 : 3;

	if (options->action == PLAN_IMPORT || 1U << options->action & TRACED)
		return read_source(options, count, words);
	/* No name has one of these. */
	if (count > 1 && strpbrk(words[1], "./")) {
		options->file = words[1];
		return count == 2 || arguments_refuse("what is meant by '%s'?", words[2]);
	}
	if (count < least)
		return arguments_refuse("%s wants %s, or a plan file", words[0],
			proves       ? "an ALGORITHM"
			: least == 2 ? "a COLLECTIVE"
				     : "an ALGORITHM and a COLLECTIVE");
	if (count > 3)
		return arguments_refuse("what is meant by '%s'?", words[3]);
	options->algorithm = count == 3 || proves ? words[1] : NULL;
	options->all_collectives = proves && count == 2;
	if (options->all_collectives)
		return true;
	return read_collective(options, words[count - 1]);
}

/* ---- A plan file ---------------------------------------------------------------------------- */

static bool take_file(struct plan_options *options, const struct rd_plan_file *file)
{
	int ranks = file->problem.size;

	if (options->ranks && options->ranks != ranks)
		return arguments_refuse("%s has plans of %d rank%s, not of %d", options->file,
			ranks, RD_PLURAL(ranks), options->ranks);
	options->ranks = ranks;
	options->collective = file->problem.collective;
	if (options->root < 0)
		options->root = file->problem.root;
	if (options->action != PLAN_COMPARE)
		options->algorithm = file->name;
	return true;
}

/* Returns an exit status. */
static int read_file(struct plan_options *options)
{
	const struct rd_plan_file *file;

	if (!options->file)
		return 0;
	if (rd_plan_files_add(options->file, &file)) {
		fprintf(stderr, "rondo-plan: %s\n", rondo_last_error());
		return 1;
	}
	/* A trace names the algorithms of its calls. */
	return options->source || take_file(options, file) ? 0 : 2;
}

/* ---- Checks --------------------------------------------------------------------------------- */

static bool is_stdout(const char *file)
{
	return file && !strcmp(file, "-");
}

static bool check_outputs(const struct plan_options *options)
{
	bool draws = options->action == PLAN_DRAW;
	bool writes = options->action == PLAN_EXPORT || options->action == PLAN_IMPORT;

	if (draws && !options->svg && !options->html)
		return arguments_refuse("draw wants --svg FILE or --html FILE");
	if (writes && !options->output)
		return arguments_refuse("%s wants -o FILE", actions[options->action]);
	if (options->format == PLAN_FORMAT_CHAKRA && is_stdout(options->output))
		return arguments_refuse("--format chakra writes a file for each rank: -o NAME");
	if (options->links.count > 0 && !options->topology)
		return arguments_refuse("--link wants a --topology, which has links");
	if (options->seed > 0 && !options->jitter)
		return arguments_refuse("--seed wants a --jitter, whose numbers it draws");
	if (options->topology && network_check(options->topology))
		return arguments_refuse("%s", rondo_last_error());
	if (options->json + options->tsv > 1)
		return arguments_refuse("--json and --tsv: give one of them");
	if (is_stdout(options->svg) && is_stdout(options->html))
		return arguments_refuse("standard output can be given one of --svg and --html");
	return true;
}

static bool check_faults(const struct plan_options *options, const struct plan_faults *faults)
{
	for (int i = 0; i < faults->count; i++)
		if (faults->list[i].rank >= options->ranks)
			return arguments_refuse("rank %d is not in 0..%d", faults->list[i].rank,
				options->ranks - 1);
	return true;
}

bool plan_options_simulate(const struct plan_options *options)
{
	return options->topology || options->slow.count > 0 || options->kills.count > 0 ||
	       options->jitter > 0;
}

static bool check_simulation(const struct plan_options *options)
{
	if (options->cores > 0 && plan_options_simulate(options))
		return arguments_refuse("--cores is not for simulations: each rank has a core");
	return check_faults(options, &options->slow) && check_faults(options, &options->kills);
}

static bool check_root(const struct plan_options *options)
{
	return rd_collective_has_root(options->collective) ||
	       arguments_refuse("--root is for collectives that have one: %s has none",
		       rd_collective_name(options->collective));
}

static bool check_ranks(const struct plan_options *options)
{
	if (options->ranks > PLAN_SHOWN_MAX &&
		(options->action == PLAN_PRINT || options->action == PLAN_DRAW))
		return arguments_refuse("at most %d ranks are shown, not %d: simulate takes more",
			PLAN_SHOWN_MAX, options->ranks);
	if (options->ranks > PLAN_SHOWN_MAX && options->collective == RD_ALL_TO_ALL)
		return arguments_refuse("an all_to_all has at most %d ranks here, not %d: it has a "
					"block for each pair",
			PLAN_SHOWN_MAX, options->ranks);
	if (options->hosts > options->ranks)
		return arguments_refuse(
			"%d hosts for %d ranks: each has one", options->hosts, options->ranks);
	if (options->root >= options->ranks || options->rank >= options->ranks)
		return arguments_refuse("rank %d is not in 0..%d",
			options->root >= options->ranks ? options->root : options->rank,
			options->ranks - 1);
	if (options->collective == RD_TRANSFER && options->ranks == 1 &&
		options->action != PLAN_PROVE)
		return arguments_refuse("a transfer has two ranks");
	return true;
}

int plan_options_read(struct plan_options *options, int argc, char **argv)
{
	uint64_t given = 0;
	const struct arguments known = { help, table, false, NULL, &given };
	bool root_given;
	int left, status;

	*options = (struct plan_options){
		.root = -1,
		.rank = -1,
		.call = -1,
		.within = 2,
		.size = 1 << 20,
		.piece_size = 128 << 10,
	};
	left = arguments_read(&known, options, argc, argv);
	if (left < 0 || !read_words(options, argc - left, argv + left) ||
		!check_uses(options, given) || !check_outputs(options))
		return 2;
	root_given = options->root >= 0;
	status = read_file(options);
	if (status)
		return status;
	if (root_given && !check_root(options))
		return 2;
	options->hosts_given = options->hosts > 0;
	if (options->ranks == 0)
		options->ranks = options->action == PLAN_PROVE ? 64 : 4;
	if (options->hosts == 0)
		options->hosts = options->topology ? options->ranks : 1;
	if (options->root < 0)
		options->root = 0;
	/* A trace has its ranks. */
	if (options->source)
		return 0;
	return check_simulation(options) && check_ranks(options) ? 0 : 2;
}
