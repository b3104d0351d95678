/*
 * rondo-topo: shows the devices of this host, or of a topology in a file, and the distances between
 * them. docs/rondo-topo.md states the contract.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "files.h"
#include "topo/probe.h"
#include "topo/document.h"
#include "topo/matrix.h"
#include "topo/options.h"
#include "topo/topology_file.h"

static int fail(void)
{
	fprintf(stderr, "rondo-topo: %s\n", rondo_last_error());
	return EXIT_FAILURE;
}

/* Without ranks, RONDO_TOPO_FILE is the only setting. */
static int read_debug(void)
{
	const char *text = getenv("RONDO_DEBUG");
	enum rd_log_level level = RD_WARN;
	int err = text && *text ? rd_log_read_level(&level, text) : 0;

	if (!err)
		rd_log_set(level, 1u << RD_PROBE);
	return err;
}

static int probe_here(struct rd_topology *topology)
{
	int err = rd_topology_init(topology, 1);

	if (!err)
		err = rd_probe_host(&topology->hosts[0], &rd_probe_full);
	return err;
}

/* The topology of ranks on this host, unless the arguments name a file. */
static int get_topology(struct rd_topology *topology, const struct topo_options *options)
{
	const char *believed = getenv("RONDO_TOPO_FILE");

	if (options->from)
		return topo_from_load(topology, options->from);
	if (options->load)
		return rd_topology_load(topology, options->load);
	if (!believed || !*believed)
		return probe_here(topology);
	int err = rd_topology_load(topology, believed);
	return err ? rd_fail(err, "RONDO_TOPO_FILE: %s", rondo_last_error()) : 0;
}

/* ---- Files ---- */

static int write_dump(const char *name, const struct rd_topology *topology)
{
	FILE *file = file_create(name);

	if (!file)
		return RONDO_SYSTEM;
	rd_topology_write(topology, file);
	return file_close(file, name);
}

static int write_svg(
	const char *name, const struct rd_topology *topology, const struct topo_paths *paths)
{
	FILE *file = file_create(name);

	if (!file)
		return RONDO_SYSTEM;
	int err = topo_picture_write(topology, paths, file);
	int closed = file_close(file, name);
	return err ? err : closed;
}

static int write_stdout(const struct topo_options *options, const struct rd_topology *topology,
	const struct topo_paths *paths)
{
	if (options->json) {
		topo_document_write(topology, paths, stdout);
	} else if (!options->dump && !options->svg) {
		topo_matrix_write(topology, stdout);
		if (paths)
			topo_ranks_write(paths, topology, stdout);
	}
	return file_close(stdout, "-");
}

static int show(const struct topo_options *options, const struct rd_topology *topology,
	const struct topo_paths *paths)
{
	int err = options->dump ? write_dump(options->dump, topology) : 0;

	if (!err && options->svg)
		err = write_svg(options->svg, topology, paths);
	if (!err)
		err = write_stdout(options, topology, paths);
	return err;
}

int main(int argc, char **argv)
{
	struct topo_options options;
	struct rd_topology topology = { 0 };
	struct topo_paths paths = { 0 };

	rd_stderr_fill();
	if (!topo_options_read(&options, argc, argv))
		return 2;
	int err = read_debug();
	if (!err)
		err = get_topology(&topology, &options);
	if (!err && options.ranks)
		err = topo_paths_init(&paths, &topology, options.ranks);
	if (!err)
		err = show(&options, &topology, options.ranks ? &paths : NULL);
	topo_paths_finish(&paths);
	rd_topology_finish(&topology);
	return err ? fail() : EXIT_SUCCESS;
}
