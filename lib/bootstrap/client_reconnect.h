/*
 * The participant's connection goes on over another socket, where the network has reset its own.
 * The rank connects to the port of rank 0 that TABLE told, and sends RESUME. Rank 0 answers with
 * its own. A port that refuses shows that rank 0 has ended. A connection that ends without an
 * answer does not: there was no room for it. For the control thread alone.
 */
#ifndef RD_CLIENT_RECONNECT_H
#define RD_CLIENT_RECONNECT_H

#include "bootstrap/connection.h"
#include "bootstrap/socket.h"

struct rd_client;

struct rd_client_reconnect {
	int error; /* errno of the socket that was lost; 0: none is, and the next five are unset */
	uint64_t received; /* bytes, over all sockets so far */
	int64_t since_ms, until_ms; /* then the rank is cut off */
	int64_t next_ms; /* when the present attempt is over, or the next one begins */
	int pause_ms; /* before it */
	struct rd_connection *attempt; /* NULL: none */
	bool connecting; /* it is not established yet */
	uint32_t attempts; /* so far, over all outages */
	unsigned count; /* of sockets lost */
};

/* These return the errno with which rd_client_lose() is due, or 0. */

/* The connection has lost its socket, and is to go on. */
int rd_client_reconnect_begin(struct rd_client *client, int64_t now_ms);
/* After an event of the attempt's socket. The connection goes on where this leaves reconnect.error
   0: messages may have come. */
int rd_client_reconnect_receive(struct rd_client *client, int64_t now_ms);
/* Ends attempts whose time is over, and begins the next. */
int rd_client_reconnect_serve(struct rd_client *client, int64_t now_ms);

int64_t rd_client_reconnect_deadline(const struct rd_client *client);
/* Ends the present attempt, if there is one: the connection is closed. */
void rd_client_reconnect_stop(struct rd_client *client);

#endif
