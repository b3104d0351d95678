/*
 * Networks of a shape, made of numbers. Links are directed. Every host has a card: a link up into
 * the network and a link down from it, except in a torus, whose hosts are its nodes.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "network.h"

#define DIMENSIONS_MAX 4
#define NUMBER_MAX 65536

/* The numbers behind a shape's name, with their defaults. */
struct numbers {
	int64_t mbps, ns, over, k, p, a, h;
	int dimensions[DIMENSIONS_MAX], dimension_count;
	const char
		*wrong; /* the name of a number that is beyond its range, 1 to `most`; NULL: none */
	int64_t most;
};

static int up(int host)
{
	return 2 * host;
}

static int down(int host)
{
	return 2 * host + 1;
}

static void set_link(struct network *network, int link, const char *name, int64_t mbps, int64_t ns)
{
	struct network_link *it = &network->links[link];

	snprintf(it->name, sizeof(it->name), "%s", name);
	it->mbps = mbps > 0 ? mbps : 1;
	it->latency_ps = ns * 1000;
}

static void set_cards(struct network *network, const struct numbers *numbers, int hosts)
{
	char name[NETWORK_NAME_SIZE];

	for (int host = 0; host < hosts; host++) {
		snprintf(name, sizeof(name), "host %d up", host);
		set_link(network, up(host), name, numbers->mbps, numbers->ns);
		snprintf(name, sizeof(name), "host %d down", host);
		set_link(network, down(host), name, numbers->mbps, numbers->ns);
	}
	network->hosts = hosts;
}

/* ---- Cards, and a switch -------------------------------------------------------------------- */

static int card_route(const struct network *network, int a, int b, int *links)
{
	(void)network;
	links[0] = up(a);
	links[1] = down(b);
	return 2;
}

static int make_card(struct network *network, const struct numbers *numbers, int hosts)
{
	int err = network_links(network, 2 * (int64_t)hosts);

	if (err)
		return err;
	set_cards(network, numbers, hosts);
	network->route = card_route;
	return 0;
}

/* All messages pass one link, the switch's fabric. */
static int switch_route(const struct network *network, int a, int b, int *links)
{
	links[0] = up(a);
	links[1] = 2 * network->hosts;
	links[2] = down(b);
	return 3;
}

static int make_switch(struct network *network, const struct numbers *numbers, int hosts)
{
	int err = network_links(network, 2 * (int64_t)hosts + 1);

	if (err)
		return err;
	set_cards(network, numbers, hosts);
	set_link(network, 2 * hosts, "fabric", hosts * numbers->mbps / numbers->over, 0);
	network->route = switch_route;
	return 0;
}

/* ---- A fat tree ----------------------------------------------------------------------------- */

/*
 * k pods of k/2 leaves and k/2 spines, k/2 hosts a leaf, (k/2)² cores (M. Al-Fares et al., "A
 * scalable, commodity data center network architecture", SIGCOMM 2008). The links above the hosts
 * have 1/over of their bandwidth. The destination chooses the way up.
 */
static int leaf_up(const struct network *network, int leaf, int spine)
{
	int half = network->shape[0] / 2;

	return 2 * network->hosts + 2 * (leaf * half + spine);
}

/* Between spine `spine` of a pod, and its core of this number. */
static int spine_up(const struct network *network, int pod, int spine, int core)
{
	int k = network->shape[0], half = k / 2;

	return leaf_up(network, k * half, 0) + 2 * ((pod * half + spine) * half + core);
}

static int fat_tree_route(const struct network *network, int a, int b, int *links)
{
	int half = network->shape[0] / 2, count = 0;
	int leaf_a = a / half, leaf_b = b / half, pod_a = leaf_a / half, pod_b = leaf_b / half;
	int spine = b % half, core = b / half % half;

	links[count++] = up(a);
	if (leaf_a != leaf_b)
		links[count++] = leaf_up(network, leaf_a, spine);
	if (pod_a != pod_b) {
		links[count++] = spine_up(network, pod_a, spine, core);
		links[count++] = spine_up(network, pod_b, spine, core) + 1;
	}
	if (leaf_a != leaf_b)
		links[count++] = leaf_up(network, leaf_b, spine) + 1;
	links[count++] = down(b);
	return count;
}

static void set_pair(struct network *network, int link, const struct numbers *numbers,
	const char *low, const char *high)
{
	char name[NETWORK_NAME_SIZE];

	snprintf(name, sizeof(name), "%s to %s", low, high);
	set_link(network, link, name, numbers->mbps / numbers->over, numbers->ns);
	snprintf(name, sizeof(name), "%s to %s", high, low);
	set_link(network, link + 1, name, numbers->mbps / numbers->over, numbers->ns);
}

static int make_fat_tree(struct network *network, const struct numbers *numbers, int hosts)
{
	int64_t k = numbers->k, half = k / 2;
	char low[32], high[32];

	(void)hosts;
	if (k % 2)
		return rd_fail(RONDO_INVALID, "a fat tree has an even k, not %lld", (long long)k);

	int err = network_links(network, k * half * half * 6);

	if (err)
		return err;
	network->shape[0] = (int)k;
	set_cards(network, numbers, (int)(k * half * half));
	for (int leaf = 0; leaf < k * half; leaf++)
		for (int spine = 0; spine < half; spine++) {
			snprintf(low, sizeof(low), "leaf %d", leaf);
			snprintf(high, sizeof(high), "spine %d.%d", leaf / (int)half, spine);
			set_pair(network, leaf_up(network, leaf, spine), numbers, low, high);
		}
	for (int pod = 0; pod < k; pod++)
		for (int at = 0; at < half * half; at++) {
			snprintf(low, sizeof(low), "spine %d.%d", pod, (int)(at / half));
			snprintf(high, sizeof(high), "core %d", at);
			set_pair(network, spine_up(network, pod, 0, at), numbers, low, high);
		}
	network->route = fat_tree_route;
	return 0;
}

/* ---- A torus -------------------------------------------------------------------------------- */

/* Each dimension after the other, the shorter way round. */
static int torus_route(const struct network *network, int a, int b, int *links)
{
	int count = 0;

	for (int d = 0, stride = 1; d < DIMENSIONS_MAX; d++) {
		int size = network->shape[d], from = a / stride % size, to = b / stride % size;
		bool back = (to - from + size) % size > size / 2;

		for (; from != to; from = (from + (back ? size - 1 : 1)) % size) {
			links[count++] = 2 * (DIMENSIONS_MAX * a + d) + back;
			a += ((from + (back ? size - 1 : 1)) % size - from) * stride;
		}
		stride *= size;
	}
	return count;
}

static int make_torus(struct network *network, const struct numbers *numbers, int hosts)
{
	int64_t nodes = 1, hops = 0;
	char name[NETWORK_NAME_SIZE];

	(void)hosts;
	for (int d = 0; d < DIMENSIONS_MAX; d++) {
		network->shape[d] = d < numbers->dimension_count ? numbers->dimensions[d] : 1;
		hops += network->shape[d] / 2;
		nodes *= network->shape[d];
		if (hops > NETWORK_HOPS_MAX || nodes > NUMBER_MAX)
			return rd_fail(RONDO_UNSUPPORTED,
				"a torus has at most %d nodes, and %d hops on a way", NUMBER_MAX,
				NETWORK_HOPS_MAX);
	}

	int err = network_links(network, 2 * DIMENSIONS_MAX * nodes);

	if (err)
		return err;
	network->hosts = (int)nodes;
	for (int link = 0; link < network->link_count; link++) {
		snprintf(name, sizeof(name), "node %d %c%c", link / (2 * DIMENSIONS_MAX),
			link % 2 ? '-' : '+', "xyzw"[link / 2 % DIMENSIONS_MAX]);
		set_link(network, link, name, numbers->mbps, numbers->ns);
	}
	network->route = torus_route;
	return 0;
}

/* ---- A dragonfly ---------------------------------------------------------------------------- */

/*
 * Groups of a routers, each with p hosts and h links to other groups. Each pair of routers in a
 * group, and each pair of the a*h+1 groups, has one link (J. Kim et al., "Technology-driven,
 * highly-scalable dragonfly topology", ISCA 2008). Routes are the shortest.
 */
static int local_link(const struct network *network, int group, int from, int to)
{
	int a = network->shape[1];

	return 2 * network->hosts + (group * a + from) * a + to;
}

static int global_link(const struct network *network, int group, int way)
{
	int a = network->shape[1], h = network->shape[2], groups = a * h + 1;

	return local_link(network, groups, 0, 0) + group * a * h + way;
}

/* The number, among the group's links to others, of that to another group. */
static int way_to(const struct network *network, int group, int other)
{
	int groups = network->shape[1] * network->shape[2] + 1;

	return (other - group - 1 + groups) % groups;
}

static int dragonfly_route(const struct network *network, int a, int b, int *links)
{
	int p = network->shape[0], routers = network->shape[1], h = network->shape[2], count = 0;
	int from = a / p, to = b / p, group_a = from / routers, group_b = to / routers;
	int at = from % routers, end = to % routers;

	links[count++] = up(a);
	if (group_a != group_b) {
		int way = way_to(network, group_a, group_b);
		int entry = way_to(network, group_b, group_a) / h;

		if (at != way / h)
			links[count++] = local_link(network, group_a, at, way / h);
		links[count++] = global_link(network, group_a, way);
		at = entry;
	}
	if (at != end)
		links[count++] = local_link(network, group_b, at, end);
	links[count++] = down(b);
	return count;
}

static int make_dragonfly(struct network *network, const struct numbers *numbers, int hosts)
{
	int64_t p = numbers->p, a = numbers->a, h = numbers->h, groups = a * h + 1;
	char name[NETWORK_NAME_SIZE];

	(void)hosts;
	if (p > 1024 || a > 1024 || h > 1024 || p * a * groups > NETWORK_LINKS_MAX)
		return rd_fail(
			RONDO_UNSUPPORTED, "the network has more than %d links", NETWORK_LINKS_MAX);

	int err = network_links(network, 2 * p * a * groups + groups * a * a + groups * a * h);

	if (err)
		return err;
	network->shape[0] = (int)p;
	network->shape[1] = (int)a;
	network->shape[2] = (int)h;
	set_cards(network, numbers, (int)(p * a * groups));
	for (int group = 0; group < groups; group++) {
		for (int at = 0; at < a * a; at++) {
			snprintf(name, sizeof(name), "group %d router %d to %d", group,
				(int)(at / a), (int)(at % a));
			set_link(network, local_link(network, group, 0, at), name, numbers->mbps,
				numbers->ns);
		}
		for (int way = 0; way < a * h; way++) {
			snprintf(name, sizeof(name), "group %d to group %d", group,
				(int)((group + way + 1) % groups));
			set_link(network, global_link(network, group, way), name,
				numbers->mbps / numbers->over, numbers->ns);
		}
	}
	network->route = dragonfly_route;
	return 0;
}

/* ---- Its text ------------------------------------------------------------------------------- */

static const struct shape {
	const char *name;
	int (*make)(struct network *network, const struct numbers *numbers, int hosts);
} shapes[] = {
	{ "card", make_card },
	{ "switch", make_switch },
	{ "fat-tree", make_fat_tree },
	{ "torus", make_torus },
	{ "dragonfly", make_dragonfly },
};

/* A number from 1 on, at the start of the text; false: there is none. */
static bool read_number(const char **text, int64_t most, int64_t *number)
{
	char *end;
	long long value = strtoll(*text, &end, 10);

	if (!isdigit((unsigned char)**text) || value < 1 || value > most)
		return false;
	*text = end;
	*number = value;
	return true;
}

static bool read_dimensions(const char **text, struct numbers *numbers)
{
	int64_t number;

	while (numbers->dimension_count < DIMENSIONS_MAX &&
		read_number(text, NUMBER_MAX, &number)) {
		numbers->dimensions[numbers->dimension_count++] = (int)number;
		if (**text != 'x')
			return true;
		(*text)++;
	}
	return false;
}

/* "mbps=100000"; in a torus, "8x8". */
static bool read_part(const char **text, struct numbers *numbers, bool is_torus)
{
	const struct {
		const char *name;
		int64_t *number, most;
	} known[] = { { "mbps=", &numbers->mbps, NETWORK_MBPS_MAX / NUMBER_MAX },
		{ "ns=", &numbers->ns, NETWORK_NS_MAX }, { "over=", &numbers->over, NUMBER_MAX },
		{ "k=", &numbers->k, 128 }, { "p=", &numbers->p, NUMBER_MAX },
		{ "a=", &numbers->a, NUMBER_MAX }, { "h=", &numbers->h, NUMBER_MAX } };

	if (is_torus && isdigit((unsigned char)**text))
		return read_dimensions(text, numbers);
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		size_t length = strlen(known[i].name);

		if (strncmp(*text, known[i].name, length) == 0) {
			*text += length;
			if (read_number(text, known[i].most, known[i].number))
				return true;
			numbers->wrong = known[i].name;
			numbers->most = known[i].most;
			return false;
		}
	}
	return false;
}

static bool read_numbers(const char *text, struct numbers *numbers, bool is_torus)
{
	if (!*text)
		return true;
	do {
		text++; /* a colon, then commas */
		if (!read_part(&text, numbers, is_torus))
			return false;
	} while (*text == ',');
	return !*text;
}

static int read_shape(const char *text, struct numbers *numbers, const struct shape **shape)
{
	size_t length = strcspn(text, ":");

	*shape = NULL;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		if (strlen(shapes[i].name) == length && !strncmp(text, shapes[i].name, length))
			*shape = &shapes[i];
	if (*shape && !read_numbers(text + length, numbers, (*shape)->make == make_torus))
		return numbers->wrong
			       ? rd_fail(RONDO_INVALID, "'%s': %s wants a number from 1 to %lld",
					 text, numbers->wrong, (long long)numbers->most)
			       : rd_fail(RONDO_INVALID,
					 "'%s' is no shape, such as fat-tree:k=8,over=2 or "
					 "torus:8x8,mbps=100000,ns=500",
					 text);
	if (*shape && (*shape)->make == make_torus && numbers->dimension_count == 0)
		return rd_fail(RONDO_INVALID, "a torus wants its sizes, such as torus:8x8x4");
	return 0;
}

#define NUMBERS \
	{ \
		.mbps = 100000, .ns = 500, .over = 1, .k = 4, .p = 2, .a = 4, .h = 2 \
	}

int network_check(const char *text)
{
	struct numbers numbers = NUMBERS;
	const struct shape *shape;

	return read_shape(text, &numbers, &shape);
}

int network_shape(struct network *network, const char *text, int hosts, int *made)
{
	struct numbers numbers = NUMBERS;
	const struct shape *shape;
	int err = read_shape(text, &numbers, &shape);

	*made = shape != NULL;
	return err || !shape ? err : shape->make(network, &numbers, hosts);
}
