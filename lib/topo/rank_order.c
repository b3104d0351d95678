#include "topo/rank_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* A rank, and the first one on its host, near its NUMA node, and near its NIC: where all the
   sorting by places began. What lies together has the same first one. */
struct seat {
	const struct rd_place *place;
	int rank;
	int host; /* the lowest rank there */
	int node, nic, index; /* places in the host's order by slot */
};

/* What lies in what: a host's nodes, a node's NICs, the ranks near a NIC. */
enum level { NODES, NICS, RANKS };

/* ---- Order by place ------------------------------------------------------------------------ */

static int compare(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int by_place(const void *left, const void *right)
{
	const struct seat *a = left, *b = right;
	int order = strncmp(a->place->host_id, b->place->host_id, RD_HOST_SIZE);

	if (!order)
		order = compare(a->place->slot, b->place->slot);
	if (!order)
		order = compare(a->place->numa_node, b->place->numa_node);
	if (!order)
		order = compare(a->place->core, b->place->core);
	return order ? order : compare(a->rank, b->rank);
}

static int by_seat(const void *left, const void *right)
{
	const struct seat *a = left, *b = right;
	int order = compare(a->host, b->host);

	if (!order)
		order = compare(a->node, b->node);
	if (!order)
		order = compare(a->nic, b->nic);
	return order ? order : compare(a->index, b->index);
}

static bool same_node(const struct seat *a, const struct seat *b)
{
	return a->place->numa_node == b->place->numa_node;
}

static bool same_nic(const struct seat *a, const struct seat *b)
{
	return same_node(a, b) && strncmp(a->place->nic, b->place->nic, RD_NIC_SIZE) == 0;
}

static int find_first(const struct seat *host, const struct seat *seat,
	bool (*same)(const struct seat *, const struct seat *))
{
	int i = 0;

	while (!same(&host[i], seat))
		i++;
	return i;
}

static void seat_host(struct seat *host, int count)
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

static int host_length(const struct seat *seats, int count)
{
	int length = 1;

	while (length < count && rd_place_same_host(seats[0].place, seats[length].place))
		length++;
	return length;
}

/* In the order of channel 0; returns how many hosts there are. */
static int sort_seats(struct seat *seats, int count)
{
	int hosts = 0, length;

	qsort(seats, (size_t)count, sizeof(*seats), by_place);
	for (int at = 0; at < count; at += length, hosts++) {
		length = host_length(seats + at, count - at);
		seat_host(seats + at, length);
	}
	qsort(seats, (size_t)count, sizeof(*seats), by_seat);
	return hosts;
}

/* ---- Turning ------------------------------------------------------------------------------- */

static int unit_length(const struct seat *seats, int count, enum level level)
{
	int length = 1;

	while (length < count && level != RANKS && seats[length].node == seats[0].node &&
		(level == NODES || seats[length].nic == seats[0].nic))
		length++;
	return length;
}

static void reverse(struct seat *seats, int count)
{
	for (int i = 0, j = count - 1; i < j; i++, j--) {
		struct seat seat = seats[i];

		seats[i] = seats[j];
		seats[j] = seat;
	}
}

/* What is at `by` comes to the front, and what was before it to the end. */
static void rotate(struct seat *seats, int count, int by)
{
	reverse(seats, by);
	reverse(seats + by, count - by);
	reverse(seats, count);
}

/* Brings the unit of that number, of those there are, to the front; likewise within each unit. */
static void turn(struct seat *seats, int count, enum level level, const int turns[])
{
	int units = 0, by = 0, length;

	for (int at = 0; at < count; at += length, units++) {
		length = unit_length(seats + at, count - at, level);
		if (level != RANKS)
			turn(seats + at, length, level + 1, turns);
	}
	for (int i = 0; i < turns[level] % units; i++)
		by += unit_length(seats + by, count - by, level);
	rotate(seats, count, by);
}

/* Where a channel enters a host: near each NIC in turn, then near each again, by another rank. */
static void turn_host(struct seat *host, int count, int channel)
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
	turn(host, count, NODES, turns);
}

/* ---- The layout ---------------------------------------------------------------------------- */

static void write_layout(
	struct rd_layout *layout, struct seat *seats, const struct rd_place *places, int channel)
{
	int count = layout->size, group = 0, length;

	for (int rank = 0; rank < count; rank++)
		seats[rank] = (struct seat){ .place = &places[rank], .rank = rank };
	layout->group_count = sort_seats(seats, count);
	for (int at = 0; at < count; at += length, group++) {
		length = host_length(seats + at, count - at);
		if (layout->group_count > 1)
			turn_host(seats + at, length, channel);
		for (int i = at; i < at + length; i++) {
			layout->order[i] = seats[i].rank;
			layout->group[seats[i].rank] = group;
		}
	}
}

int rd_order_create(
	struct rd_layout **created, const struct rd_place *places, int size, int channel)
{
	struct rd_layout *layout = calloc(1, sizeof(*layout));
	struct seat *seats = calloc((size_t)size, sizeof(*seats));

	if (layout) {
		layout->size = size;
		layout->order = calloc((size_t)size, sizeof(*layout->order));
		layout->group = calloc((size_t)size, sizeof(*layout->group));
	}
	if (!layout || !seats || !layout->order || !layout->group) {
		free(seats);
		rd_order_destroy(layout);
		return rd_fail(RONDO_MEMORY, "no memory for the order of %d ranks", size);
	}
	write_layout(layout, seats, places, channel);
	free(seats);
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
