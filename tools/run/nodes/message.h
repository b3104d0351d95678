/*
 * The messages of agents. Each is a frame (net/codec.h).
 *
 * An agent connects to the meeting's leader and sends HELLO. The leader answers WELCOME or
 * REFUSED, and one that is not the leader answers MOVED. The agent sends JOIN when it can start
 * ranks, and the leader sends WORLD to each node of a round. The agent then sends FAILED when a
 * rank fails, LEAVE when it is to end, and ENDED when its ranks have ended. After STOP it ends
 * them, and sends ENDED; AGAIN asks for the next JOIN. A STOP may end the job, too. Both sides send
 * PING.
 *
 * A leader away from the endpoint sends MOVED, in place of HELLO, to an agent that listens there.
 */
#ifndef RUN_MESSAGE_H
#define RUN_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "run/failure.h"
#include "run/world.h"

/* All agents of a job have the same. HELLO begins with it, and REFUSED has a reason alone, in every
   version. */
#define MESSAGE_VERSION 3
/* Bytes of a message on the wire, at most. */
#define MESSAGE_MAX ((size_t)32768)
/* Agents that may lead the meeting after its present leader. */
#define CANDIDATES_MAX 64
/* Bytes, the last a zero. */
#define REASON_SIZE 512

enum message_type {
	MESSAGE_PING =
		256, /* above the kinds of control connections (bootstrap/control_message.h) */
	MESSAGE_HELLO,
	MESSAGE_WELCOME,
	MESSAGE_REFUSED,
	MESSAGE_MOVED,
	MESSAGE_JOIN,
	MESSAGE_WORLD,
	MESSAGE_FAILED,
	MESSAGE_LEAVE,
	MESSAGE_STOP,
	MESSAGE_ENDED,
	MESSAGE_AGAIN,
	MESSAGE_LAST = MESSAGE_AGAIN
};

/* A numeric address, and a port where an agent listens. */
struct place {
	char address[ADDRESS_SIZE];
	int port;
};

/* An agent that may become the leader. */
struct candidate {
	int id;
	struct place place;
};

struct candidates {
	int count;
	struct candidate list[CANDIDATES_MAX]; /* the next leader first */
};

struct hello {
	uint32_t version; /* where it differs, the rest is not read */
	char run_id[RUN_ID_SIZE];
	char host[HOST_SIZE];
	int node; /* the wanted number; -1: any */
	int local_size;
	int nodes_min, nodes; /* as in struct options, equal on all nodes */
	int max_restarts;
	int port; /* where it would lead; 0: it does not */
	/* The history of the job, as far as it knows: 0 and -1 for a newcomer. */
	int attempts; /* groups of ranks that were started */
	int restarts; /* as in struct world */
	int last_node; /* its number in the last world */
};

struct welcome {
	int id; /* of this agent, among the candidates */
	char host[HOST_SIZE]; /* of the leader */
	bool spare; /* the job runs, and has no place for it now */
	struct candidates candidates; /* empty before the first world */
};

struct join {
	char address[ADDRESS_SIZE]; /* of this node, for rank 0; "": as the leader sees it */
	int port; /* MASTER_PORT, if this becomes node 0 */
	int rondo_port; /* RONDO_PORT then */
};

struct start {
	struct world world;
	struct candidates candidates;
	/* The job could not go on without a node. So one that is silent may come back: a cable may
	   be out for a while. */
	bool patient;
};

struct failed {
	struct failure failure;
	int age_ms; /* when it is sent: hosts have different clocks */
};

struct leave {
	int status; /* exit status of the job, if it cannot go on without this node */
	char reason[REASON_SIZE];
};

/* The end of an attempt, or of the job. */
struct stop {
	bool ends; /* the job, for this agent: no ENDED is awaited */
	bool at_once; /* the ranks have no time for last words */
	int status; /* exit status of the job; -1: it may go on */
	bool failed;
	struct failure failure; /* if failed: the rank that failed first */
	char reason[REASON_SIZE]; /* a line for the user; "": the failure is the reason */
};

struct message {
	enum message_type type;
	union {
		struct hello hello;
		struct welcome welcome;
		char reason[REASON_SIZE]; /* REFUSED */
		struct {
			char run_id[RUN_ID_SIZE]; /* in place of HELLO; else "" */
			struct place leader; /* address "": that of the connection */
		} moved;
		struct join join;
		struct start start; /* WORLD */
		struct failed failed;
		struct leave leave;
		struct stop stop;
		int pause_ms; /* AGAIN: until ranks may start */
	};
};

/* Writes the message to data[MESSAGE_MAX]; returns its size. */
size_t message_encode(const struct message *message, unsigned char *data);

/*
 * Reads one message from the start of data[size]. Returns its size; 0: it is not complete; -1: it
 * is none of ours, or has a value out of range.
 */
long message_decode(struct message *message, const unsigned char *data, size_t size);

#endif
