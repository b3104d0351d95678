/* Networks as JSON: links, and routes of pairs of hosts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"
#include "base/json.h"
#include "network.h"

#define HOSTS_MAX 1024
#define HOPS_MAX (64 << 20) /* of all routes */

/* A file that is being read. */
struct reader {
	struct network *network;
	const struct rd_json *json;
	const char *name;
	const struct network_link **sorted; /* by name */
	int hop_count, hop_capacity;
};

static int refuse(const struct reader *reader, const struct rd_json_value *at, const char *wanted)
{
	return rd_fail(RONDO_INVALID, "%s:%d: %s", reader->name, at->line, wanted);
}

/* Reads a member that is a whole number. */
static int read_whole(const struct reader *reader, const struct rd_json_value *object,
	const char *member, int64_t least, int64_t most, int64_t *number)
{
	const struct rd_json_value *value = rd_json_member(reader->json, object, member);
	char wanted[120];

	if (value && rd_json_whole(value, least, most, number))
		return 0;
	snprintf(wanted, sizeof(wanted), "\"%s\" must be a whole number from %lld to %lld", member,
		(long long)least, (long long)most);
	return refuse(reader, value ? value : object, wanted);
}

/* The value behind one element of an array. */
static const struct rd_json_value *after(
	const struct reader *reader, const struct rd_json_value *value)
{
	return &reader->json->values[value->next];
}

static int compare_links(const void *a, const void *b)
{
	const struct network_link *x = *(const struct network_link *const *)a;
	const struct network_link *y = *(const struct network_link *const *)b;

	return strcmp(x->name, y->name);
}

static int compare_name(const void *name, const void *link)
{
	return strcmp(name, (*(const struct network_link *const *)link)->name);
}

/* -1: no link has the name. */
static int find_link(const struct reader *reader, const char *name)
{
	const struct network_link *const *found = bsearch(name, reader->sorted,
		(size_t)reader->network->link_count, sizeof(*reader->sorted), compare_name);

	return found ? (int)(*found - reader->network->links) : -1;
}

/* ---- Links ---------------------------------------------------------------------------------- */

static int read_link(struct reader *reader, const struct rd_json_value *object, int index)
{
	const struct rd_json_value *name = rd_json_member(reader->json, object, "name");
	struct network_link *link = &reader->network->links[index];
	int64_t ns;

	if (!name || name->kind != RD_JSON_STRING || !*name->text ||
		strlen(name->text) >= NETWORK_NAME_SIZE)
		return refuse(reader, name ? name : object, "a \"name\" has 1 to 63 bytes");

	int err = read_whole(reader, object, "mbps", 1, NETWORK_MBPS_MAX, &link->mbps);

	if (!err)
		err = read_whole(reader, object, "ns", 0, NETWORK_NS_MAX, &ns);
	if (err)
		return err;
	link->latency_ps = ns * 1000;
	memcpy(link->name, name->text, strlen(name->text) + 1);
	return 0;
}

static const struct rd_json_value *array_of(const struct reader *reader, const char *member)
{
	const struct rd_json_value *value =
		rd_json_member(reader->json, &reader->json->values[0], member);

	return value && value->kind == RD_JSON_ARRAY ? value : NULL;
}

/* Sorts the names, which differ. */
static int sort_links(struct reader *reader)
{
	struct network *network = reader->network;
	size_t count = (size_t)network->link_count;

	reader->sorted = malloc((count + 1) * sizeof(*reader->sorted));
	if (!reader->sorted)
		return rd_fail(RONDO_MEMORY, "no memory for a network");
	for (size_t i = 0; i < count; i++)
		reader->sorted[i] = &network->links[i];
	qsort(reader->sorted, count, sizeof(*reader->sorted), compare_links);
	for (size_t i = 1; i < count; i++)
		if (strcmp(reader->sorted[i]->name, reader->sorted[i - 1]->name) == 0)
			return rd_fail(RONDO_INVALID, "%s: two links have the name '%s'",
				reader->name, reader->sorted[i]->name);
	return 0;
}

static int read_links(struct reader *reader)
{
	const struct rd_json_value *array = array_of(reader, "links");
	int err;

	if (!array)
		return refuse(reader, &reader->json->values[0], "\"links\" must be an array");
	err = network_links(reader->network, array->count);

	const struct rd_json_value *object = array + 1;

	for (int i = 0; i < array->count && !err; i++, object = after(reader, object))
		err = read_link(reader, object, i);
	return err ? err : sort_links(reader);
}

/* ---- Routes --------------------------------------------------------------------------------- */

static int add_hop(struct reader *reader, int link)
{
	struct network *network = reader->network;

	if (reader->hop_count == HOPS_MAX ||
		!rd_grow(&network->hops, reader->hop_count, &reader->hop_capacity, sizeof(link)))
		return rd_fail(RONDO_MEMORY, "no memory for the routes");
	network->hops[reader->hop_count++] = link;
	return 0;
}

/* A route is its number of hops, and then those. */
static int read_route(struct reader *reader, const struct rd_json_value *object)
{
	struct network *network = reader->network;
	const struct rd_json_value *names = rd_json_member(reader->json, object, "links");
	int64_t from, to;
	int err = read_whole(reader, object, "from", 0, network->hosts - 1, &from);

	if (!err)
		err = read_whole(reader, object, "to", 0, network->hosts - 1, &to);
	if (err)
		return err;

	int *first = &network->firsts[from * network->hosts + to];

	if (from == to || *first >= 0)
		return refuse(reader, object, "a route leads from a host to another, once");
	if (!names || names->kind != RD_JSON_ARRAY || names->count < 1 ||
		names->count > NETWORK_HOPS_MAX)
		return refuse(reader, object, "a route has 1 to 256 \"links\"");
	*first = reader->hop_count;
	err = add_hop(reader, names->count);

	const struct rd_json_value *name = names + 1;

	for (int i = 0; i < names->count && !err; i++, name = after(reader, name)) {
		int link = name->kind == RD_JSON_STRING ? find_link(reader, name->text) : -1;

		err = link < 0 ? refuse(reader, name, "a route's links are those of \"links\"")
			       : add_hop(reader, link);
	}
	return err;
}

static int read_routes(struct reader *reader)
{
	const struct rd_json_value *array = array_of(reader, "routes");
	struct network *network = reader->network;
	size_t pairs = (size_t)network->hosts * (size_t)network->hosts;
	int err = 0;

	if (!array)
		return refuse(reader, &reader->json->values[0], "\"routes\" must be an array");
	network->firsts = malloc(pairs * sizeof(*network->firsts));
	if (!network->firsts)
		return rd_fail(RONDO_MEMORY, "no memory for the routes");
	for (size_t i = 0; i < pairs; i++)
		network->firsts[i] = -1;

	const struct rd_json_value *object = array + 1;

	for (int i = 0; i < array->count && !err; i++, object = after(reader, object))
		err = read_route(reader, object);
	return err;
}

static int file_route(const struct network *network, int a, int b, int *links)
{
	int first = network->firsts[a * network->hosts + b];

	if (first < 0)
		return 0;
	memcpy(links, &network->hops[first + 1], (size_t)network->hops[first] * sizeof(*links));
	return network->hops[first];
}

static int read_all(struct reader *reader)
{
	int64_t hosts;
	int err = read_whole(reader, &reader->json->values[0], "hosts", 1, HOSTS_MAX, &hosts);

	if (err)
		return err;
	reader->network->hosts = (int)hosts;
	reader->network->route = file_route;
	err = read_links(reader);
	return err ? err : read_routes(reader);
}

int network_parse(struct network *network, const char *name, const char *text, size_t size)
{
	struct rd_json json;
	struct reader reader = { .network = network, .json = &json, .name = name };
	int err = rd_json_parse(&json, name, text, size);

	if (err)
		return err;
	err = read_all(&reader);
	free(reader.sorted);
	rd_json_finish(&json);
	return err;
}
