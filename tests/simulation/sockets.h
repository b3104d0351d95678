/*
 * The connections of a simulated world: they open, carry bytes, close and break, each step after a
 * delay that the world draws. Each end of a connection is a socket of one rank. One world at a time
 * has the sockets.
 */
#ifndef SIMULATION_SOCKETS_H
#define SIMULATION_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim.h"
#include "simulated_pipe.h"

#define SOCKETS_MAX 16384

/* The first kinds of a world's events, each of one socket. */
enum socket_event {
	SOCKET_SYN, /* its attempt to connect reaches the other host */
	SOCKET_CONNECTED,
	SOCKET_REFUSED,
	SOCKET_PACKET,
	SOCKET_SILENCE, /* no packet has come for too long, unless the world is whole again */
	SOCKET_EVENTS
};

enum socket_answer {
	SOCKET_ACCEPTS,
	SOCKET_REFUSES,
	SOCKET_LEAVES, /* accepts, says that the rank has left, and closes */
};

struct socket_rules {
	void *context;
	/* When a packet that is sent now arrives. */
	uint64_t (*arrival)(void *context);
	/* Until when these two cannot reach each other; 0: they can. */
	uint64_t (*cut)(void *context, int a, int b);
	/* Whether a packet between them has been missing for so long that a kernel gives up. */
	bool (*silent)(void *context, int a, int b);
	/* The answer of the kernel of `toward` to an attempt to connect. */
	enum socket_answer (*answer)(void *context, int socket);
	/* A connection has come: this end of it. */
	void (*accept)(void *context, int socket);
	/* Something has changed for the socket's owner. */
	void (*touch)(void *context, int socket);
};

struct sim_socket {
	bool open; /* its owner has not closed it */
	int owner; /* the rank */
	int toward; /* the rank at the other end; -1: none, it is foreign */
	int peer; /* the other end; -1: none yet, or it is foreign */
	bool connected;
	int error; /* with which the attempt to connect ended; 0: it has not */
	struct pipe in;
};

/* A world begins: there is no socket. rules: the caller's. */
void sockets_begin(const struct socket_rules *rules);
int sockets_count(void);
struct sim_socket *sockets_at(int socket);

/* Begins to connect. -1: there are too many. */
int sockets_dial(int owner, int toward);
/* A connection of no rank to this one, with these bytes, and its end behind them. */
void sockets_intrude(int toward, const void *bytes, size_t size, bool ends);
/* The other end closes after the bytes that were sent: with this errno; 0: an end of file. */
void sockets_close(int socket, int error);
/* Both ends break by this errno. Bytes that nobody has read are lost. */
void sockets_break(int socket, int error);

/* Whether the other end can be written to, and a message has room. */
bool sockets_have_room(int socket);
/* Writes bytes, which may arrive in two fragments. They are lost where nobody can read them. */
void sockets_write(int socket, const void *bytes, size_t size);
void sockets_send(int socket, const struct rd_control_message *message);
#define SOCKET_ENDED (-1) /* by its pipe's error */
#define SOCKET_BAD (-2) /* the bytes are no message */
/* Takes the next message that has come: 1; 0: none has; SOCKET_ENDED, SOCKET_BAD. */
int sockets_take(int socket, struct rd_control_message *message);
/* Whether this end is closed, or the other one is, or it has failed. */
bool sockets_have_ended(int socket);

void sockets_take_event(enum socket_event kind, int socket);

#endif
