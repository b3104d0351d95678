/*
 * How fast this core is at the moment. A virtual core is one of two threads of a real one, and the
 * other may be somebody else's: while that is busy, system calls take nearly twice as long, and
 * neither the clock nor the distance of the cores shows it.
 */
#ifndef PEERS_PACE_H
#define PEERS_PACE_H

/* Nanoseconds in which the calling thread sends itself a few bytes by a socket: the median of
   several stretches, 0.1 ms in all. NAN where no sockets can be had. */
double peers_pace_ns(void);

#endif
