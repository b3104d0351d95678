/*
 * The network between the hosts of a simulation: links with a bandwidth and a latency, which
 * messages share, and a route over some of them for each pair of hosts. docs/rondo-plan.md has the
 * shapes and the format of files.
 */
#ifndef PLAN_NETWORK_H
#define PLAN_NETWORK_H

#include <stddef.h>
#include <stdint.h>

#define NETWORK_NAME_SIZE 64
#define NETWORK_HOPS_MAX 256
#define NETWORK_LINKS_MAX (4 << 20)
/* Bounds of a link: bandwidth in Mbit/s, latency in ns. */
#define NETWORK_MBPS_MAX INT64_C(1000000000000)
#define NETWORK_NS_MAX INT64_C(1000000000)

struct network_link {
	char name[NETWORK_NAME_SIZE];
	int64_t mbps, latency_ps;
};

struct network {
	int hosts; /* that it has room for */
	int link_count;
	struct network_link *links;
	/* Writes the links from host a to host b, at most NETWORK_HOPS_MAX, and returns their
	   number; 0: there is no route. The hosts differ. */
	int (*route)(const struct network *network, int a, int b, int *links);
	/* shapes.c: the parameters of a shape. */
	int shape[4];
	/* network_file.c: [hosts * hosts + 1]: where a pair's route begins in `hops`. */
	int *firsts, *hops;
};

/* Makes the network that the text describes: a shape ("torus:8x8,mbps=100000") or the path of a
   file. Returns 0 or an error with its reason, such as too few hosts. */
int network_create(struct network **network, const char *text, int hosts);
void network_destroy(struct network *network);

/* Multiplies a link's bandwidth by thousandths. RONDO_INVALID, with the reason: there is none of
   this name. */
int network_speed(struct network *network, const char *name, int64_t thousandths);

/* shapes.c. Returns 0, or an error with its reason: the text names a shape, with wrong numbers. */
int network_check(const char *text);

/* The bytes' time on a link, in ps. */
int64_t network_bytes_ps(const struct network_link *link, uint64_t bytes);

/* ---- For its makers ------------------------------------------------------------------------- */

/* shapes.c. Sets *made to whether the text names a shape. */
int network_shape(struct network *network, const char *text, int hosts, int *made);
/* network_file.c: reads the text of a file. `name` stands for it in reasons. */
int network_parse(struct network *network, const char *name, const char *text, size_t size);

/* Makes room for this many links. Returns 0 or an error. */
int network_links(struct network *network, int64_t count);

#endif
