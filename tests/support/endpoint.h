/* Endpoints at which agents of a job meet on this host. */
#ifndef ENDPOINT_H
#define ENDPOINT_H

#define ENDPOINT_SIZE 32

/* "HOST:PORT", with a port that is free now. */
void endpoint_choose(const char *host, char endpoint[ENDPOINT_SIZE]);
/* Returns when an agent listens there: from then on no other one becomes the host. Asserts that it
   takes limit_ms at most. */
void endpoint_await(const char *endpoint, int limit_ms);

#endif
