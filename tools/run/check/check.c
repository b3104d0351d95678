#include "run/check/check.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "printed.h"
#include "run/base/memory.h"
#include "run/check/host.h"

/* ---- Between ranks --------------------------------------------------------------------------- */

/* Bytes: one to open the pair's windows, and one to measure. */
#define WARM_UP ((size_t)1 << 20)
#define STREAM ((size_t)32 << 20)
/* Round trips; the quickest counts. */
#define PINGS 8

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* One side of a stream of `size` bytes, and its answer. */
static int stream(rondo_comm *comm, char *bytes, size_t size, int peer, bool sends)
{
	int err = sends ? rondo_send(comm, bytes, size, RONDO_U8, peer, NULL)
			: rondo_recv(comm, bytes, size, RONDO_U8, peer, NULL);

	if (err)
		return err;
	return sends ? rondo_recv(comm, bytes, 1, RONDO_U8, peer, NULL)
		     : rondo_send(comm, bytes, 1, RONDO_U8, peer, NULL);
}

static int measure(rondo_comm *comm, char *bytes, int peer, double *gbps)
{
	bool first = rondo_comm_rank(comm) < peer;
	double slowest = 0;
	int err = 0;

	for (int way = 0; way < 2 && !err; way++) {
		double start, took;

		err = stream(comm, bytes, WARM_UP, peer, first == (way == 0));
		start = seconds(CLOCK_MONOTONIC);
		if (!err)
			err = stream(comm, bytes, STREAM, peer, first == (way == 0));
		took = seconds(CLOCK_MONOTONIC) - start;
		slowest = took > slowest ? took : slowest;
	}
	if (first && !err)
		*gbps = (double)STREAM / 1e9 / slowest;
	return err;
}

/* The peer in a round of a tournament: each pair meets once. The last place stays. */
static int partner(int rank, int round, int places)
{
	int last = places - 1;

	if (rank == last)
		return round * (places / 2) % last;
	if (2 * rank % last == round)
		return last;
	return (round - rank + last) % last;
}

/* gbps[peer]: GB/s of the slower direction, where this rank is the lower of the pair; else 0. */
static int check_bandwidths(rondo_comm *comm, double *gbps)
{
	int size = rondo_comm_size(comm), places = size + size % 2, err = 0;
	char *bytes = memory_calloc(1, STREAM);

	for (int round = 0; round < places - 1 && !err; round++) {
		int peer = partner(rondo_comm_rank(comm), round, places);

		if (peer < size)
			err = measure(comm, bytes, peer, &gbps[peer]);
	}
	free(bytes);
	return err;
}

static int ping(rondo_comm *comm, int peer, double *skew)
{
	double best = 1e9;

	for (int i = 0; i < PINGS; i++) {
		double start = seconds(CLOCK_REALTIME), other, trip;
		int err = rondo_send(comm, &start, 1, RONDO_F64, peer, NULL);

		if (!err)
			err = rondo_recv(comm, &other, 1, RONDO_F64, peer, NULL);
		if (err)
			return err;
		trip = seconds(CLOCK_REALTIME) - start;
		if (trip < best)
			*skew = other - start - trip / 2;
		best = trip < best ? trip : best;
	}
	return 0;
}

static int answer(rondo_comm *comm)
{
	int err = 0;

	for (int i = 0; i < PINGS && !err; i++) {
		double now;

		err = rondo_recv(comm, &now, 1, RONDO_F64, 0, NULL);
		now = seconds(CLOCK_REALTIME);
		if (!err)
			err = rondo_send(comm, &now, 1, RONDO_F64, 0, NULL);
	}
	return err;
}

/* In rank 0: skew[peer] is the peer's clock minus its own, in seconds. Others take part. */
static int check_clocks(rondo_comm *comm, double *skew)
{
	int err = 0;

	if (rondo_comm_rank(comm) != 0)
		return answer(comm);
	for (int peer = 1; peer < rondo_comm_size(comm) && !err; peer++)
		err = ping(comm, peer, &skew[peer]);
	return err;
}

/* Open files: a job of few ranks needs less than the first, many programs more than the second. */
#define FILES_LEAST 256
#define FILES_WANTED 1024
/* The default of containers, bytes: too little for loaders of data. */
#define SHM_SMALL ((uint64_t)64 << 20)
/* Seconds: logs of two hosts cannot be merged; certificates and Kerberos refuse. */
#define SKEW_SEEN 0.1
#define SKEW_MOST 60.0

/* The values of all ranks: [size], and of pairs [size * size]. */
struct findings {
	int size;
	struct check_host *hosts;
	struct check_route *routes; /* [from * size + to] */
	double *gbps, *skew;
	int failed;
};

enum verdict { OK, WARN, FAIL };

static void print(struct findings *findings, enum verdict verdict, const char *what,
	const char *where, const char *format, ...) __attribute__((format(printf, 5, 6)));

static void print(struct findings *findings, enum verdict verdict, const char *what,
	const char *where, const char *format, ...)
{
	static const char *const names[] = { "ok", "warn", "FAIL" };
	va_list values;

	findings->failed += verdict == FAIL;
	printf("%-4s  %-13s  %-20s  ", names[verdict], what, where);
	va_start(values, format);
	vprintf(format, values);
	va_end(values);
	putchar('\n');
}

/* ---- One host ------------------------------------------------------------------------------- */

static void print_name(struct findings *findings, const struct check_host *host)
{
	if (!host->resolved[0])
		print(findings, WARN, "name", host->name,
			"has no address: add it to /etc/hosts, for programs that resolve it");
	else if (host->is_loopback && findings->size > 1)
		print(findings, WARN, "name", host->name, "is %s here: other hosts cannot use that",
			host->resolved);
	else
		print(findings, OK, "name", host->name, "is %s", host->resolved);
}

static void print_interface(struct findings *findings, const struct check_host *host)
{
	const struct check_route *route = &host->route;
	char address[RD_NUMERIC_ADDRESS], speed[32] = "";

	if (route->from.ss_family == 0) {
		print(findings, FAIL, "interface", host->name, "no way to MASTER_ADDR: %s",
			strerror(route->error));
		return;
	}
	rd_address_print_host(address, (const struct sockaddr *)&route->from);
	if (route->speed)
		snprintf(speed, sizeof(speed), ", %d Mbit/s", route->speed);
	print(findings, OK, "interface", host->name, "%s, %s, MTU %d%s", route->interface, address,
		route->mtu, speed);
}

static void print_memory(struct findings *findings, const struct check_host *host)
{
	double mib = (double)host->shm_free / (1 << 20);

	if (!host->has_memfd)
		print(findings, FAIL, "shared memory", host->name,
			"memfd_create() fails: ranks of this host share no memory");
	else if (host->shm_free <= SHM_SMALL)
		print(findings, WARN, "shared memory", host->name,
			"%.0f MiB are free in /dev/shm: give a container more (--shm-size)", mib);
	else
		print(findings, OK, "shared memory", host->name, "%.0f MiB are free in /dev/shm",
			mib);
}

static void print_limits(struct findings *findings, const struct check_host *host)
{
	unsigned long long files = host->files, locked = host->locked >> 10;
	char number[32] = "unlimited";

	if (host->files != RLIM_INFINITY)
		snprintf(number, sizeof(number), "%llu", files);
	print(findings,
		files < FILES_LEAST    ? FAIL
		: files < FILES_WANTED ? WARN
				       : OK,
		"open files", host->name, "ulimit -n is %s%s", number,
		files < FILES_WANTED ? ": raise it to 1024 or more" : "");
	if (host->locked == RLIM_INFINITY)
		print(findings, OK, "locked memory", host->name, "ulimit -l is unlimited");
	else
		print(findings, host->has_rdma ? FAIL : OK, "locked memory", host->name,
			"ulimit -l is %llu KiB%s", locked,
			host->has_rdma ? ": RDMA needs it unlimited" : "; no RDMA here needs more");
}

static void print_host(struct findings *findings, const struct check_host *host)
{
	print_name(findings, host);
	print_interface(findings, host);
	print_memory(findings, host);
	print_limits(findings, host);
}

static void print_clock(struct findings *findings, int rank)
{
	double skew = findings->skew[rank];

	print(findings,
		fabs(skew) > SKEW_MOST   ? FAIL
		: fabs(skew) > SKEW_SEEN ? WARN
					 : OK,
		"clock", findings->hosts[rank].name, "%+.3f s to %s%s", skew,
		findings->hosts[0].name, fabs(skew) > SKEW_SEEN ? ": run NTP on both" : "");
}

/* ---- Pairs ---------------------------------------------------------------------------------- */

static void print_route(struct findings *findings, const char *pair, int one, int other)
{
	const struct check_route *there = &findings->routes[one * findings->size + other];
	const struct check_route *back = &findings->routes[other * findings->size + one];
	const struct check_route *none = there->from.ss_family == 0 ? there : back;
	char from[RD_NUMERIC_ADDRESS], to[RD_NUMERIC_ADDRESS];

	if (none->from.ss_family == 0) {
		print(findings, FAIL, "route", pair, "none from %s: %s",
			findings->hosts[none == there ? one : other].name, strerror(none->error));
		return;
	}
	rd_address_print_host(from, (const struct sockaddr *)&there->from);
	rd_address_print_host(to, (const struct sockaddr *)&back->from);
	print(findings, OK, "route", pair, "%s (%s) - %s (%s)", there->interface, from,
		back->interface, to);
	if (there->mtu == back->mtu)
		print(findings, OK, "MTU", pair, "%d", there->mtu);
	else
		print(findings, FAIL, "MTU", pair, "%d and %d: long packets may get lost",
			there->mtu, back->mtu);
}

static int compare(const void *a, const void *b)
{
	double one = *(const double *)a, other = *(const double *)b;

	return one < other ? -1 : one > other;
}

/* The median of all pairs; 0 without a pair or memory. */
static double median(const struct findings *findings)
{
	size_t all = (size_t)findings->size * (size_t)findings->size, count = 0;
	double *sorted = calloc(all, sizeof(*sorted)), middle;

	for (size_t i = 0; sorted && i < all; i++)
		if (findings->gbps[i] > 0)
			sorted[count++] = findings->gbps[i];
	if (sorted)
		qsort(sorted, count, sizeof(*sorted), compare);
	middle = count > 0 ? sorted[count / 2] : 0;
	free(sorted);
	return middle;
}

/* A GB/s is 8000 Mbit/s. */
static void print_bandwidth(
	struct findings *findings, const char *pair, int one, int other, double usual)
{
	int speed = findings->routes[one * findings->size + other].speed;
	double gbps = findings->gbps[one * findings->size + other];

	if (gbps < usual / 2)
		print(findings, WARN, "bandwidth", pair,
			"%.3g GB/s, less than half of the usual %.3g", gbps, usual);
	else if (gbps * 8000 < speed / 2)
		print(findings, WARN, "bandwidth", pair,
			"%.3g GB/s, less than half of the interface's %.3g", gbps, speed / 8000.0);
	else
		print(findings, OK, "bandwidth", pair, "%.3g GB/s", gbps);
}

static void print_table(struct findings *findings)
{
	double usual = median(findings);
	const char *port = getenv("RONDO_PORT");

	for (int i = 0; i < findings->size; i++)
		print_host(findings, &findings->hosts[i]);
	/* An agent sets it. */
	if (port)
		print(findings, OK, "port", findings->hosts[0].name,
			"all hosts reach rank 0 at port %s", port);
	for (int i = 1; i < findings->size; i++)
		print_clock(findings, i);
	for (int one = 0; one < findings->size; one++)
		for (int other = one + 1; other < findings->size; other++) {
			char pair[160];

			snprintf(pair, sizeof(pair), "%s - %s", findings->hosts[one].name,
				findings->hosts[other].name);
			print_route(findings, pair, one, other);
			print_bandwidth(findings, pair, one, other, usual);
		}
}

/* ---- The ranks ------------------------------------------------------------------------------ */

static void findings_init(struct findings *findings, int size)
{
	size_t count = (size_t)size;

	findings->size = size;
	findings->hosts = memory_calloc(count, sizeof(*findings->hosts));
	findings->routes = memory_calloc(count * count, sizeof(*findings->routes));
	findings->gbps = memory_calloc(count * count, sizeof(*findings->gbps));
	findings->skew = memory_calloc(count, sizeof(*findings->skew));
}

static void findings_finish(struct findings *findings)
{
	free(findings->hosts);
	free(findings->routes);
	free(findings->gbps);
	free(findings->skew);
}

/* Each rank's part lies in its place already. */
static int exchange(rondo_comm *comm, void *all, size_t part)
{
	return rondo_all_gather(comm, (char *)all + part * (size_t)rondo_comm_rank(comm), all, part,
		RONDO_U8, NULL);
}

static void read_route(struct check_route *route, const struct check_host *host)
{
	/* Without a way to MASTER_ADDR, no address of it is known. */
	if (host->route.from.ss_family)
		check_route_read(route, &host->route.from);
	else
		route->error = ENETUNREACH;
}

static int find(rondo_comm *comm, struct findings *findings, const struct check_host *own)
{
	int rank = rondo_comm_rank(comm), size = findings->size, err;
	struct check_route *routes = &findings->routes[rank * size];
	double *gbps = &findings->gbps[rank * size];

	findings->hosts[rank] = *own;
	err = exchange(comm, findings->hosts, sizeof(*own));
	for (int i = 0; i < size && !err; i++)
		read_route(&routes[i], &findings->hosts[i]);
	if (!err)
		err = exchange(comm, findings->routes, sizeof(*routes) * (size_t)size);
	if (!err)
		err = check_clocks(comm, findings->skew);
	if (!err)
		err = check_bandwidths(comm, gbps);
	return err ? err : exchange(comm, findings->gbps, sizeof(*gbps) * (size_t)size);
}

int check_run(void)
{
	const char *master = getenv("MASTER_ADDR");
	struct findings findings = { 0 };
	struct check_host own;
	rondo_comm *comm = NULL;
	int err, rank;

	check_host_read(&own, master ? master : "127.0.0.1");
	err = rondo_comm_create(&comm, NULL);
	rank = err ? 0 : rondo_comm_rank(comm);
	if (!err) {
		findings_init(&findings, rondo_comm_size(comm));
		err = find(comm, &findings, &own);
	}
	if (err) {
		print_host(&findings, &own);
		print(&findings, FAIL, "connection", own.name, "%s", rondo_last_error());
	} else if (rank == 0) {
		print_table(&findings);
	}
	rondo_comm_destroy(comm);
	findings_finish(&findings);
	return !printed_all("rondo-run") || findings.failed > 0;
}
