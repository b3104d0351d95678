#include "document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "topo/topology_file.h"
#include "matrix.h"
#include "files.h"
#include "nccl.h"
#include "smi.h"

static void write_labels(const struct rd_host *host, FILE *out)
{
	char label[16];

	fprintf(out, "\"devices\": {");
	for (int i = 0; topo_matrix_device(host, i); i++) {
		topo_matrix_label(label, host, i);
		fprintf(out, "%s\"%s\": ", i ? ", " : "", label);
		rd_json_write_string(out, topo_matrix_device(host, i)->name);
	}
	fprintf(out, "}");
}

static void write_matrix(const struct rd_host *host, FILE *out)
{
	char text[16];
	int nvlinks;

	fprintf(out, "    { \"host\": ");
	rd_json_write_string(out, host->name);
	fprintf(out, ", ");
	write_labels(host, out);
	fprintf(out, ", \"rows\": [");
	for (int row = 0; topo_matrix_device(host, row); row++) {
		fprintf(out, "%s\n      [", row ? "," : "");
		for (int column = 0; topo_matrix_device(host, column); column++) {
			enum rd_distance distance =
				topo_matrix_distance(host, row, column, &nvlinks);
			fprintf(out, "%s\"%s\"", column ? ", " : "",
				rd_distance_text(text, distance, nvlinks));
		}
		fprintf(out, "]");
	}
	fprintf(out, "] }");
}

static void write_numbers(const char *key, const int *numbers, int count, FILE *out)
{
	fprintf(out, ",\n    \"%s\": [", key);
	for (int i = 0; i < count; i++)
		fprintf(out, "%s%d", i ? ", " : "", numbers[i]);
	fprintf(out, "]");
}

static void write_ranks(const struct topo_paths *paths, FILE *out)
{
	fprintf(out, ",\n    \"ranks\": [");
	for (int rank = 0; rank < paths->size; rank++) {
		const struct rd_place *place = &paths->places[rank];
		fprintf(out, "%s\n      { \"rank\": %d, \"host\": ", rank ? "," : "", rank);
		rd_json_write_string(out, place->host_name);
		fprintf(out, ", \"slot\": %d, \"core\": %d, \"numa\": %d, \"gpu\": %d, \"nic\": ",
			place->slot, place->core, place->numa_node, place->gpu);
		rd_json_write_string(out, place->nic);
		fprintf(out, " }");
	}
	fprintf(out, "\n    ]");
	write_numbers("ring_next", paths->ring, paths->size, out);
	write_numbers("tree_0_parents", paths->parents[0], paths->size, out);
	write_numbers("tree_1_parents", paths->parents[1], paths->size, out);
}

void topo_document_write(
	const struct rd_topology *topology, const struct topo_paths *paths, FILE *out)
{
	rd_topology_write_open(topology, out);
	fprintf(out, ",\n  \"derived\": {\n    \"matrices\": [\n");
	for (int i = 0; i < topology->host_count; i++) {
		fprintf(out, "%s", i ? ",\n" : "");
		write_matrix(&topology->hosts[i], out);
	}
	fprintf(out, "\n    ]");
	if (paths)
		write_ranks(paths, out);
	fprintf(out, "\n  }\n}\n");
}

/* ---- Texts of other programs ----------------------------------------------------------------- */

#define SIZE_MAX_READ (1 << 20)

/* text[size + 1] ends with 0. */
static int parse(struct rd_topology *topology, const char *path, char *text, size_t size)
{
	/* A mark of UTF-8. */
	if (strncmp(text, "\xef\xbb\xbf", 3) == 0) {
		text += 3;
		size -= 3;
	}
	if (text[strspn(text, " \t\r\n")] == '<')
		return topo_nccl_parse(topology, path, text, size);
	return topo_smi_parse(topology, path, text, size);
}

int topo_from_load(struct rd_topology *topology, const char *path)
{
	size_t size;
	char *text;
	int err = file_read(path, SIZE_MAX_READ, &text, &size);

	*topology = (struct rd_topology){ 0 };
	if (!err)
		err = parse(topology, path, text, size);
	free(text);
	return err;
}
