#include "topo/rank_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/*
 * A rank, with the first rank on its host, the first near its NUMA node, and the first near its
 * NIC, for sorting by places. Ranks that lie together have the same first rank.
 */
struct entry {
	const struct rd_place *place;
	int rank;
	int host; /* the lowest rank there */
	int node, nic, index; /* places in the host's order by slot */
};

/* Levels: a host has nodes, a node has NICs, and a NIC has ranks near it. */
enum level { NODES, NICS, RANKS };

/* ---- Order by place ------------------------------------------------------------------------ */

static int compare(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int by_place(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;
	int order = strncmp(a->place->host_id, b->place->host_id, RD_HOST_SIZE);

	if (!order)
		order = compare(a->place->slot, b->place->slot);
	if (!order)
		order = compare(a->place->numa_node, b->place->numa_node);
	if (!order)
		order = compare(a->place->core, b->place->core);
	return order ? order : compare(a->rank, b->rank);
}

static int by_entry(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;
	int order = compare(a->host, b->host);

	if (!order)
		order = compare(a->node, b->node);
	if (!order)
		order = compare(a->nic, b->nic);
	return order ? order : compare(a->index, b->index);
}

static bool same_node(const struct entry *a, const struct entry *b)
{
	return a->place->numa_node == b->place->numa_node;
}

static bool same_nic(const struct entry *a, const struct entry *b)
{
	return same_node(a, b) && strncmp(a->place->nic, b->place->nic, RD_NIC_SIZE) == 0;
}

static int find_first(const struct entry *host, const struct entry *entry,
	bool (*same)(const struct entry *, const struct entry *))
{
	int i = 0;

	while (!same(&host[i], entry))
		i++;
	return i;
}

static void index_host(struct entry *host, int count)
{
	int lowest = host[0].rank;

	for (int i = 1; i < count; i++)
		if (host[i].rank < lowest)
			lowest = host[i].rank;
	for (int i = 0; i < count; i++) {
		host[i].host = lowest;
		host[i].node = find_first(host, &host[i], same_node);
		host[i].nic = find_first(host, &host[i], same_nic);
		host[i].index = i;
	}
}

static int host_length(const struct entry *entries, int count)
{
	int length = 1;

	while (length < count && rd_place_same_host(entries[0].place, entries[length].place))
		length++;
	return length;
}

/* Sorts into the order of channel 0. Returns the number of hosts. */
static int sort_entries(struct entry *entries, int count)
{
	int hosts = 0, length;

	qsort(entries, (size_t)count, sizeof(*entries), by_place);
	for (int at = 0; at < count; at += length, hosts++) {
		length = host_length(entries + at, count - at);
		index_host(entries + at, length);
	}
	qsort(entries, (size_t)count, sizeof(*entries), by_entry);
	return hosts;
}

/* ---- Turning ------------------------------------------------------------------------------- */

static int unit_length(const struct entry *entries, int count, enum level level)
{
	int length = 1;

	while (length < count && level != RANKS && entries[length].node == entries[0].node &&
		(level == NODES || entries[length].nic == entries[0].nic))
		length++;
	return length;
}

static void reverse(struct entry *entries, int count)
{
	for (int i = 0, j = count - 1; i < j; i++, j--) {
		struct entry entry = entries[i];

		entries[i] = entries[j];
		entries[j] = entry;
	}
}

/* Moves the entries from `by` on to the front, and those before it to the end. */
static void rotate(struct entry *entries, int count, int by)
{
	reverse(entries, by);
	reverse(entries + by, count - by);
	reverse(entries, count);
}

/*
 * Moves the unit number turns[level], modulo the number of units, to the front, and likewise within
 * each unit.
 */
static void rotate_units(struct entry *entries, int count, enum level level, const int turns[])
{
	int units = 0, by = 0, length;

	for (int at = 0; at < count; at += length, units++) {
		length = unit_length(entries + at, count - at, level);
		if (level != RANKS)
			rotate_units(entries + at, length, level + 1, turns);
	}
	for (int i = 0; i < turns[level] % units; i++)
		by += unit_length(entries + by, count - by, level);
	rotate(entries, count, by);
}

/*
 * Chooses the rank by which a channel enters a host: near each NIC in turn, then near each again,
 * by another rank.
 */
static void rotate_host(struct entry *host, int count, int channel)
{
	int turns[] = { 0, 0, 0 }, nics = 0, length;

	for (int at = 0; at < count; at += length, nics++)
		length = unit_length(host + at, count - at, NICS);
	turns[RANKS] = channel / nics;
	for (int at = 0, nic = 0; nic < channel % nics; nic++) {
		bool leaves_node;

		length = unit_length(host + at, count - at, NICS);
		leaves_node = host[at + length].node != host[at].node;
		turns[NODES] += leaves_node;
		turns[NICS] = leaves_node ? 0 : turns[NICS] + 1;
		at += length;
	}
	rotate_units(host, count, NODES, turns);
}

/* ---- The layout ---------------------------------------------------------------------------- */

static void write_layout(
	struct rd_layout *layout, struct entry *entries, const struct rd_place *places, int channel)
{
	int count = layout->size, group = 0, length;

	for (int rank = 0; rank < count; rank++)
		entries[rank] = (struct entry){ .place = &places[rank], .rank = rank };
	layout->group_count = sort_entries(entries, count);
	for (int at = 0; at < count; at += length, group++) {
		length = host_length(entries + at, count - at);
		if (layout->group_count > 1)
			rotate_host(entries + at, length, channel);
		for (int i = at; i < at + length; i++) {
			layout->order[i] = entries[i].rank;
			layout->group[entries[i].rank] = group;
		}
	}
}

int rd_order_create(
	struct rd_layout **created, const struct rd_place *places, int size, int channel)
{
	struct rd_layout *layout = calloc(1, sizeof(*layout));
	struct entry *entries = calloc((size_t)size, sizeof(*entries));

	if (layout) {
		layout->size = size;
		layout->order = calloc((size_t)size, sizeof(*layout->order));
		layout->group = calloc((size_t)size, sizeof(*layout->group));
	}
	if (!layout || !entries || !layout->order || !layout->group) {
		free(entries);
		rd_order_destroy(layout);
		return rd_fail(RONDO_MEMORY, "no memory for the order of %d ranks", size);
	}
	write_layout(layout, entries, places, channel);
	free(entries);
	*created = layout;
	return 0;
}

void rd_order_destroy(struct rd_layout *layout)
{
	if (!layout)
		return;
	free(layout->order);
	free(layout->group);
	free(layout);
}

bool rd_order_equal(const struct rd_layout *a, const struct rd_layout *b)
{
	size_t size = (size_t)a->size;

	return a->size == b->size && a->group_count == b->group_count &&
	       memcmp(a->order, b->order, size * sizeof(*a->order)) == 0 &&
	       memcmp(a->group, b->group, size * sizeof(*a->group)) == 0;
}
