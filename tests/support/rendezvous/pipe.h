/* One direction of a connection in the simulated network of rendezvous/net.h. */
#ifndef RENDEZVOUS_PIPE_H
#define RENDEZVOUS_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bootstrap/control_message.h"

struct net_packet {
	struct net_packet *next;
	int64_t at_ms;
	size_t size; /* 0: the end of the connection */
	unsigned char bytes[];
};

struct net_pipe {
	struct net_packet *first, **end;
	int64_t last_ms;
	size_t size; /* bytes that have arrived and make no message yet */
	unsigned char bytes[2 * RD_FRAME_MAX];
};

/* Frees all packets: the pipe is empty. */
void pipe_clear(struct net_pipe *pipe);
/* Appends a packet, which arrives after a random delay. size 0: the end of the connection. */
void pipe_send_bytes(struct net_pipe *pipe, const unsigned char *bytes, size_t size);
/* Sends a message in two fragments; corrupts: with a random error in some messages. */
void pipe_send(struct net_pipe *pipe, struct rd_control_message *message, bool corrupts);
/* The next message of the bytes that have arrived: 1; 0: none; negative: bytes that are none. */
int pipe_take(struct net_pipe *pipe, struct rd_control_message *message);

#endif
