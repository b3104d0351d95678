/* Orders of rings and trees, on places made by hand and on those of real machines. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "topo/rank_order.h"
#include "topo/topology.h"
#include "topo/topology_file.h"

#define MOST 64

static struct rd_place places[MOST];

static void put(int rank, const char *host, int node, int slot, const char *nic)
{
	struct rd_place *place = &places[rank];

	memset(place, 0, sizeof(*place));
	snprintf(place->host_id, sizeof(place->host_id), "%s", host);
	snprintf(place->nic, sizeof(place->nic), "%s", nic);
	place->numa_node = node;
	place->slot = slot;
	place->core = place->gpu = -1;
}

/* "0 1 2 3 | 4 5": the order, groups apart. */
static const char *order_of(int size, int channel)
{
	static char text[1024];
	struct rd_layout *layout;
	int at = 0;

	cr_assert_eq(rd_order_create(&layout, places, size, channel), 0);
	cr_assert_eq(layout->size, size);
	for (int i = 0; i < size; i++) {
		int rank = layout->order[i];
		bool enters = i > 0 && layout->group[rank] != layout->group[layout->order[i - 1]];

		at += snprintf(text + at, sizeof(text) - at, "%s%s%d", i ? " " : "",
			enters ? "| " : "", rank);
	}
	rd_order_destroy(layout);
	return text;
}

Test(order, ranks_without_places_keep_their_order)
{
	for (int rank = 0; rank < 4; rank++)
		put(rank, "a", -1, 0, "");
	cr_assert_str_eq(order_of(4, 0), "0 1 2 3");
	cr_assert_str_eq(order_of(1, 0), "0");
}

Test(order, hosts_come_by_their_lowest_rank_and_each_is_entered_once)
{
	const char *const hosts[] = { "z", "b", "z", "b", "a", "z" };

	for (int rank = 0; rank < 6; rank++)
		put(rank, hosts[rank], 0, 0, "");
	cr_assert_str_eq(order_of(6, 0), "0 2 5 | 1 3 | 4");
}

Test(order, within_a_host_ranks_follow_by_slot)
{
	const int slots[] = { 3, 1, 2, 0 };

	for (int rank = 0; rank < 4; rank++)
		put(rank, "a", 0, slots[rank], "");
	cr_assert_str_eq(order_of(4, 0), "3 1 2 0");
}

Test(order, ranks_of_one_numa_node_follow_each_other_though_slots_mix_them)
{
	for (int rank = 0; rank < 6; rank++)
		put(rank, "a", rank % 2, rank, "");
	cr_assert_str_eq(order_of(6, 0), "0 2 4 1 3 5");
}

Test(order, of_one_host_every_channel_has_the_same_order)
{
	for (int rank = 0; rank < 4; rank++)
		put(rank, "a", 0, rank, rank < 2 ? "n0" : "n1");
	for (int channel = 1; channel < 8; channel++)
		cr_assert_str_eq(order_of(4, channel), "0 1 2 3");
}

/* Two hosts of four ranks, two NUMA nodes each, a NIC on each node. */
static void put_two_by_four(void)
{
	for (int rank = 0; rank < 8; rank++)
		put(rank, rank < 4 ? "a" : "b", rank % 4 / 2, rank % 4, rank % 4 < 2 ? "n0" : "n1");
}

Test(order, channels_enter_and_leave_hosts_by_each_nic_in_turn)
{
	put_two_by_four();
	cr_assert_str_eq(order_of(8, 0), "0 1 2 3 | 4 5 6 7");
	cr_assert_str_eq(order_of(8, 1), "2 3 0 1 | 6 7 4 5");
	cr_assert_str_eq(order_of(8, 2), "1 0 3 2 | 5 4 7 6");
	cr_assert_str_eq(order_of(8, 3), "3 2 1 0 | 7 6 5 4");
	cr_assert_str_eq(order_of(8, 4), "0 1 2 3 | 4 5 6 7");
}

Test(order, where_nics_are_not_known_channels_enter_by_each_rank_in_turn)
{
	for (int rank = 0; rank < 4; rank++)
		put(rank, rank < 3 ? "a" : "b", -1, rank, "");
	cr_assert_str_eq(order_of(4, 0), "0 1 2 | 3");
	cr_assert_str_eq(order_of(4, 1), "1 2 0 | 3");
	cr_assert_str_eq(order_of(4, 2), "2 0 1 | 3");
	cr_assert_str_eq(order_of(4, 3), "0 1 2 | 3");
}

Test(order, equal_says_whether_two_channels_have_the_same_order)
{
	struct rd_layout *a, *b, *c;

	put_two_by_four();
	cr_assert_eq(rd_order_create(&a, places, 8, 0), 0);
	cr_assert_eq(rd_order_create(&b, places, 8, 4), 0);
	cr_assert_eq(rd_order_create(&c, places, 8, 1), 0);
	cr_assert(rd_order_equal(a, b));
	cr_assert_not(rd_order_equal(a, c));
	rd_order_destroy(a);
	rd_order_destroy(b);
	rd_order_destroy(c);
}

/* ---- Real machines ------------------------------------------------------------------------- */

static void put_ranks(const char *machine, int size)
{
	static struct rd_topology topology;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s.json", RONDO_TOPOLOGIES, machine);
	cr_assert_eq(rd_topology_load(&topology, path), 0, "%s", rondo_last_error());
	rd_topology_places(&topology, size, places);
}

/* How many steps of a ring have ends that are not the same. */
static int crossings(int size, int channel, bool (*same)(int, int))
{
	struct rd_layout *layout;
	int count = 0;

	cr_assert_eq(rd_order_create(&layout, places, size, channel), 0);
	for (int i = 0; i < size; i++)
		count += !same(layout->order[i], layout->order[(i + 1) % size]);
	rd_order_destroy(layout);
	return count;
}

static bool same_host(int a, int b)
{
	return rd_place_same_host(&places[a], &places[b]);
}

static bool same_node(int a, int b)
{
	return same_host(a, b) && places[a].numa_node == places[b].numa_node;
}

/* NICs by which a channel's ring leaves (or enters) the host of rank 0. */
static const char *ring_nics(int size, int channel, bool leaves)
{
	struct rd_layout *layout;
	const char *nic = NULL;

	cr_assert_eq(rd_order_create(&layout, places, size, channel), 0);
	for (int i = 0; i < size; i++) {
		int from = layout->order[i], to = layout->order[(i + 1) % size];
		int inside = leaves ? from : to, outside = leaves ? to : from;

		if (same_host(inside, 0) && !same_host(outside, 0))
			nic = places[inside].nic;
	}
	rd_order_destroy(layout);
	return nic;
}

Test(order, on_a_dgx_each_socket_is_entered_once)
{
	put_ranks("dgx", 8);
	cr_assert_eq(crossings(8, 0, same_host), 0);
	cr_assert_eq(crossings(8, 0, same_node), 2);
}

Test(order, on_a_workstation_ranks_of_a_node_are_neighbours)
{
	put_ranks("workstation", 4);
	cr_assert_eq(crossings(4, 0, same_host), 0);
	cr_assert_leq(crossings(4, 0, same_node), 2);
}

Test(order, of_two_nodes_each_is_entered_once_on_every_channel)
{
	put_ranks("two_nodes", 8);
	for (int channel = 0; channel < 8; channel++) {
		cr_assert_eq(crossings(8, channel, same_host), 2, "channel %d", channel);
		/* Each node's two sockets are one more step each. */
		cr_assert_leq(crossings(8, channel, same_node), 4, "channel %d", channel);
	}
}

/* Two hosts like the one in the file. */
static void put_two(const char *machine, int each)
{
	put_ranks(machine, each);
	for (int rank = each; rank < 2 * each; rank++) {
		places[rank] = places[rank - each];
		places[rank].host_id[0] ^= 1;
	}
}

Test(order, the_nics_of_two_dgx_share_what_crosses_between_them)
{
	put_two("dgx", 8);
	for (int channel = 0; channel < 8; channel++) {
		cr_assert_eq(crossings(16, channel, same_host), 2, "channel %d", channel);
		cr_assert_eq(crossings(16, channel, same_node), 4, "channel %d", channel);
		for (int other = 0; other < channel; other++) {
			cr_assert_str_neq(
				ring_nics(16, channel, false), ring_nics(16, other, false));
			cr_assert_str_neq(ring_nics(16, channel, true), ring_nics(16, other, true));
		}
	}
}
