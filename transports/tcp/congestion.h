/*
 * Congestion control of connections. Within a host there is no congestion. But BBR, the default of
 * many hosts, paces there as well: it waits for a timer between packets.
 *
 * A socket paces for good once it is connected by BBR. So where BBR is the default, sockets that
 * may stay within the host have Reno, which does not pace, before they are connected. Connections
 * to other hosts have the host's default, or what their route asks for (`congctl` of `ip route`).
 * Every kernel has Reno, and lets every process use it.
 *
 * Another default stays everywhere. DCTCP would lose by a listener of Reno: its connections from
 * other hosts would begin without ECN, and never have it.
 */
#ifndef RD_TCP_CONGESTION_H
#define RD_TCP_CONGESTION_H

#define RD_TCP_CONGESTION_NAME 16 /* the kernel's TCP_CA_NAME_MAX */

/* Before listen() or connect(): the socket, and all that it accepts, does not pace. */
void rd_tcp_congestion_near(int fd);

/* The algorithm of a socket, "" if unknown. */
void rd_tcp_congestion_read(int fd, char name[RD_TCP_CONGESTION_NAME]);
/* Returns an accepted socket to that algorithm, unless a route has chosen another. */
void rd_tcp_congestion_restore(int fd, const char *name);

#endif
