#include "options.h"

#include <stdio.h>
#include <string.h>

#include "api/plan_files.h"
#include "arguments.h"
#include "base/error.h"
#include "base/nearest.h"
#include "tuner/thresholds.h"

static const char help[] =
	"usage: rondo-plan print ALGORITHM COLLECTIVE [OPTION]...\n"
	"       rondo-plan draw ALGORITHM COLLECTIVE --svg FILE | --html FILE [OPTION]...\n"
	"       rondo-plan compare COLLECTIVE [OPTION]...\n"
	"       rondo-plan export ALGORITHM COLLECTIVE -o FILE [OPTION]...\n"
	"       rondo-plan import FILE -o FILE\n"
	"\n"
	"A plan file may stand for ALGORITHM COLLECTIVE, or for the COLLECTIVE of compare.\n"
	"\n"
	"Shows the plan of a collective: the steps of every rank, their times on a machine of\n"
	"these costs, and the critical path. compare predicts each algorithm's time, by size.\n"
	"export writes the plans of all ranks to a file. import reads a program of MSCCL,\n"
	"proves it, and writes a plan file.\n"
	"\n"
	"  --ranks N          (default 4, or as in the plan file)\n"
	"  --hosts N          the ranks are spread over N hosts, in order (default 1)\n"
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
	"  --rank RANK        print: this rank alone\n"
	"  --json, --tsv      print: one document; a line for each step, in nanoseconds\n"
	"                     compare: --tsv\n"
	"  --svg FILE         draw a picture\n"
	"  --html FILE        draw it on a page: a step under the pointer shows its chunk's way\n"
	"  --output FILE, -o  export, import: the plan file to write\n"
	"  --format FORMAT    export: rondo, or msccl for MSCCL's XML (default rondo)\n"
	"  -h, --help, --version\n"
	"\n"
	"FILE may be - for standard output.\n"
	"\n"
	"  rondo-plan print ring all_reduce --ranks 4\n"
	"  rondo-plan draw tree all_reduce --ranks 16 --hosts 2 --html tree.html\n"
	"  rondo-plan compare all_reduce --ranks 8\n"
	"  rondo-plan export ring all_reduce --ranks 4 -o ring_4.json\n";

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

static bool read_piece(const struct argument *argument, void *target, const char *text)
{
	if (!arguments_size(argument, target, text))
		return false;
	return *(size_t *)target > 0 || arguments_refuse_value(argument, "a size above 0", text);
}

static bool read_format(const struct argument *argument, void *target, const char *text)
{
	*(bool *)target = strcmp(text, "msccl") == 0;
	return *(bool *)target || strcmp(text, "rondo") == 0 ||
	       arguments_refuse_value(argument, "rondo or msccl", text);
}

#define AT(member) offsetof(struct plan_options, member)

static const struct argument table[] = {
	{ "ranks", 'n', AT(ranks), arguments_number, 1, PLAN_RANKS_MAX },
	{ "hosts", 0, AT(hosts), arguments_number, 1, PLAN_RANKS_MAX },
	{ "cores", 0, AT(cores), arguments_number, 1, PLAN_RANKS_MAX },
	{ "root", 0, AT(root), arguments_number, 0, PLAN_RANKS_MAX - 1 },
	{ "rank", 0, AT(rank), arguments_number, 0, PLAN_RANKS_MAX - 1 },
	{ "size", 0, AT(size), arguments_size, 0, 0 },
	{ "piece", 0, AT(piece_size), read_piece, 0, 0 },
	{ "pieces", 0, AT(pieces), arguments_number, 1, RD_REPLAYED_PIECES },
	{ "costs", 0, AT(costs), arguments_text, 0, 0 },
	{ "plugin", 0, AT(plugins), read_plugin, 0, 0 },
	{ "format", 0, AT(as_msccl), read_format, 0, 0 },
	{ "output", 'o', AT(output), arguments_text, 0, 0 },
	{ "json", 0, AT(json), NULL, 0, 0 },
	{ "tsv", 0, AT(tsv), NULL, 0, 0 },
	{ "svg", 0, AT(svg), arguments_text, 0, 0 },
	{ "html", 0, AT(html), arguments_text, 0, 0 },
	{ 0 },
};

/* ---- Words ---------------------------------------------------------------------------------- */

static const char *const actions[] = { "print", "draw", "compare", "export", "import" };

static bool read_action(struct plan_options *options, const char *text)
{
	for (size_t i = 0; i < sizeof(actions) / sizeof(*actions); i++)
		if (strcmp(text, actions[i]) == 0) {
			options->action = (enum plan_action)i;
			return true;
		}
	return arguments_refuse("print, draw, compare, export or import, not '%s'", text);
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

static bool read_words(struct plan_options *options, int count, char **words)
{
	if (count == 0)
		return arguments_refuse("print, draw, compare, export or import?");
	if (!read_action(options, words[0]))
		return false;

	int wanted = options->action == PLAN_COMPARE ? 2 : 3;

	if (options->action == PLAN_IMPORT) {
		options->source = words[1];
		return count == 2 || arguments_refuse("import wants a FILE");
	}
	/* No name has one of these. */
	if (count > 1 && strpbrk(words[1], "./")) {
		options->file = words[1];
		wanted = 2;
	} else if (count < wanted) {
		return arguments_refuse("%s wants %s, or a plan file", words[0],
			wanted == 2 ? "a COLLECTIVE" : "an ALGORITHM and a COLLECTIVE");
	}
	if (count > wanted)
		return arguments_refuse("what is meant by '%s'?", words[wanted]);
	options->algorithm = wanted == 3 ? words[1] : NULL;
	return options->file || read_collective(options, words[wanted - 1]);
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
	return take_file(options, file) ? 0 : 2;
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
	const char *action = actions[options->action];

	if (draws && !options->svg && !options->html)
		return arguments_refuse("draw wants --svg FILE or --html FILE");
	if (!draws && (options->svg || options->html))
		return arguments_refuse("--svg and --html are for draw");
	if ((options->json || options->rank >= 0) && options->action != PLAN_PRINT)
		return arguments_refuse("--json and --rank are for print");
	if (options->tsv && (draws || writes))
		return arguments_refuse("--tsv is for print and compare");
	if (writes != (options->output != NULL))
		return writes ? arguments_refuse("%s wants -o FILE", action)
			      : arguments_refuse("-o is for export and import");
	if (options->as_msccl && options->action != PLAN_EXPORT)
		return arguments_refuse("--format is for export");
	if (options->json + options->tsv > 1)
		return arguments_refuse("--json and --tsv: give one of them");
	if (is_stdout(options->svg) && is_stdout(options->html))
		return arguments_refuse("standard output can be given one of --svg and --html");
	return true;
}

static bool check_ranks(const struct plan_options *options)
{
	if (options->hosts > options->ranks)
		return arguments_refuse(
			"%d hosts for %d ranks: each has one", options->hosts, options->ranks);
	if (options->root >= options->ranks || options->rank >= options->ranks)
		return arguments_refuse("rank %d is not in 0..%d",
			options->root >= options->ranks ? options->root : options->rank,
			options->ranks - 1);
	if (options->collective == RD_TRANSFER && options->ranks == 1)
		return arguments_refuse("a transfer has two ranks");
	return true;
}

int plan_options_read(struct plan_options *options, int argc, char **argv)
{
	static const struct arguments known = { help, table, false, NULL };
	int left, status;

	*options = (struct plan_options){
		.hosts = 1,
		.root = -1,
		.rank = -1,
		.pieces = 1,
		.size = 1 << 20,
		.piece_size = 128 << 10,
	};
	left = arguments_read(&known, options, argc, argv);
	if (left < 0 || !read_words(options, argc - left, argv + left) || !check_outputs(options))
		return 2;
	status = read_file(options);
	if (status)
		return status;
	if (options->ranks == 0)
		options->ranks = 4;
	if (options->root < 0)
		options->root = 0;
	return check_ranks(options) ? 0 : 2;
}
