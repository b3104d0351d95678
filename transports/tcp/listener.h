/*
 * The listeners of tcp: one socket an interface, whose connections become strangers.
 */
#ifndef RD_TCP_LISTENER_H
#define RD_TCP_LISTENER_H

#include "transports/event_source.h"
#include "transports/tcp/interface.h"
#include "transports/tcp/strangers.h"

struct rd_tcp_connector;
struct rd_tcp_listeners;

#define RD_TCP_LISTENERS_MAX (2 * RD_INTERFACES_MAX)

struct rd_tcp_listener {
	struct rd_event_source source;
	struct rd_tcp_listeners *all;
	int fd; /* -1: none */
	int64_t until_ms; /* not watched until then; 0: it is */
	int64_t since_ms; /* accept() has failed since then; 0: it works */
};

struct rd_tcp_listeners {
	struct rd_tcp_connector *connector;
	/* One an interface; behind them those that are bound to contested interfaces, at the same
	   ports. They answer where a packet came from; the kernel prefers them there. */
	struct rd_tcp_listener at[RD_TCP_LISTENERS_MAX];
};

/* Initialises without a socket: close() may follow. */
void rd_tcp_listeners_init(struct rd_tcp_listeners *listeners, struct rd_tcp_connector *connector);

/* Listens on the connector's interfaces, and adds their addresses to its card. Removes interfaces
   in reserve where that fails. RONDO_SYSTEM if it fails on a shared one. */
int rd_tcp_listeners_start(struct rd_tcp_listeners *listeners);

/* Watches rested listeners again, and requests the timer for the others. */
void rd_tcp_listeners_wake(struct rd_tcp_listeners *listeners);

void rd_tcp_listeners_close(struct rd_tcp_listeners *listeners);

#endif
