/* Ports for tests that run at the same time. */
#ifndef FREE_PORT_H
#define FREE_PORT_H

/*
 * A port that nothing uses now, and neither those that rondo-run derives from it (base/port.h). The
 * kernel gives it to no socket that asks for any port: it is below that range. Processes that run
 * at the same time get different ones. Any thread.
 */
int free_port(void);

/* A socket that listens at a free port of 127.0.0.1; -1: there is none. */
int listen_somewhere(int *port);

/* Endpoints at which agents of a job meet on this host. */
#define ENDPOINT_SIZE 32

/* "HOST:PORT", with a port that is free now. */
void endpoint_choose(const char *host, char endpoint[ENDPOINT_SIZE]);
/* Returns when an agent listens there: from then on no other one becomes the host. Asserts that it
   takes limit_ms at most. */
void endpoint_await(const char *endpoint, int limit_ms);

#endif
