#include "options.h"

#include <stddef.h>
#include <string.h>

#include "arguments.h"

static const char help[] =
	"usage: rondo-topo [OPTION]...\n"
	"\n"
	"Shows what this host holds, and how near its GPUs and NICs are to each other; or what\n"
	"the file holds that RONDO_TOPO_FILE names, which ranks started here would believe.\n"
	"\n"
	"  --load FILE    show the topology in FILE instead\n"
	"  --from FILE    show the host of which FILE is the output of `nvidia-smi topo -m`, or\n"
	"                 NCCL's topology as XML\n"
	"  --ranks N      also show the places that N ranks would have, and their ring and trees\n"
	"\n"
	"Instead of the matrix:\n"
	"  --json         print the topology, and all that is shown of it, as JSON\n"
	"  --dump FILE    write the topology to FILE, for --load and RONDO_TOPO_FILE\n"
	"  --svg FILE     draw it, and with --ranks the ring and trees over it, to FILE\n"
	"\n"
	"  -h, --help, --version\n"
	"\n"
	"FILE may be - for standard output, and in --from for standard input.\n"
	"RONDO_DEBUG=INFO logs what was not found.\n"
	"\n"
	"  rondo-topo --dump here.json\n"
	"  rondo-topo --load here.json --ranks 8 --svg here.svg\n";

#define AT(member) offsetof(struct topo_options, member)

static const struct argument table[] = {
	{ "load", 0, AT(load), arguments_text, 0, 0 },
	{ "from", 0, AT(from), arguments_text, 0, 0 },
	{ "dump", 0, AT(dump), arguments_text, 0, 0 },
	{ "svg", 0, AT(svg), arguments_text, 0, 0 },
	{ "json", 0, AT(json), NULL, 0, 0 },
	{ "ranks", 0, AT(ranks), arguments_number, 1, TOPO_RANKS_MAX },
	{ 0 },
};

static bool is_stdout(const char *file)
{
	return file && !strcmp(file, "-");
}

bool topo_options_read(struct topo_options *options, int argc, char **argv)
{
	static const struct arguments known = { help, table, false, NULL, NULL };

	*options = (struct topo_options){ 0 };

	int left = arguments_read(&known, options, argc, argv);

	if (left < 0)
		return false;
	if (left < argc)
		return arguments_refuse("what is meant by '%s'?", argv[left]);
	if (options->load && options->from)
		return arguments_refuse("--load and --from: give one of them");
	if (options->json + is_stdout(options->dump) + is_stdout(options->svg) > 1)
		return arguments_refuse(
			"standard output can be given one of --json, --dump and --svg");
	return true;
}
