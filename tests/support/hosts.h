/*
 * Hosts for tests: network namespaces of this kernel. Each has interfaces of its own (eth0, eth1,
 * ...), a name of its own and names for the others. Interface k of each host is plugged into
 * network k, a bridge. Bridges are in another namespace, which the test itself enters.
 *
 *     host0 eth0 --- h0n0 \            / h1n0 --- eth0 host1
 *                          bridge net0
 *
 * The namespaces have no name outside: only the test's descriptors hold them. So hosts end with
 * their test, however it ends.
 */
#ifndef HOSTS_H
#define HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HOSTS_MAX 4
#define HOSTS_NETWORKS_MAX 3
#define HOSTS_PORT 29500 /* free on every host: each has all ports to itself */

struct hosts_shape {
	int count;
	int networks; /* interfaces that each host has; 0: one */
	bool v6_only; /* addresses of IPv6 alone; else of both kinds */
	bool nameless; /* no host's name can be resolved, not even its own */
};

struct hosts;

/* NULL where hosts cannot be made here: *reason says why, for cr_skip_test(). They last until the
   test's process ends, or makes others. */
struct hosts *hosts_create(const struct hosts_shape *shape, const char **reason);

/* The calling process, which has one thread, moves there for good, and is killed when its parent
   ends. False: it could not. */
bool hosts_enter(const struct hosts *hosts, int host);

/* "10.7.0.1", or "fd07::1" where there is no IPv4. */
const char *hosts_address(const struct hosts *hosts, int host, int network);

/* For any process of the test, in any host. Pulls the cable at the switch: nothing passes, and
   neither side gets an error. */
bool hosts_unplug(const struct hosts *hosts, int host, int network);
/* Plugs it in again. */
bool hosts_plug(const struct hosts *hosts, int host, int network);
/* The host's own side: the interface is switched off, and its routes are gone. */
bool hosts_switch_off(const struct hosts *hosts, int host, int network);
/* Bounds what the cable carries, each way: "100mbit". */
bool hosts_slow(const struct hosts *hosts, int host, int network, const char *rate);

/* Runs lines of `ip -batch` on the host. */
bool hosts_configure(const struct hosts *hosts, int host, const char *lines);

/* Two hosts that both reach all others there, and not each other. */
bool hosts_divide(const struct hosts *hosts, int one, int other, int network);

/* Bytes that an interface of the calling process's host has carried so far, headers and all. */
struct hosts_traffic {
	uint64_t sent, received;
};

bool hosts_traffic(int network, struct hosts_traffic *traffic);

/* A program that runs in a host. */
struct hosts_program {
	pid_t pid;
	int out, err; /* its output, as files */
	int status; /* once finished: 0, its exit status, 128 + signal, or -1: it did not end in
		       time */
};

/* Starts it; arguments[0] is its path, NULL comes last. */
void hosts_start(
	const struct hosts *hosts, int host, char *const *arguments, struct hosts_program *program);
/* Waits until it ends; kills it after limit_ms. */
void hosts_finish(struct hosts_program *program, int limit_ms);
/* Waits until one of these files holds the part; false: not within limit_ms. */
bool hosts_await(int fd, const char *part, int limit_ms);

#endif
