/* Ports for tests that run at the same time. */
#ifndef FREE_PORT_H
#define FREE_PORT_H

/*
 * A port that nothing uses now, and neither those that rondo-run derives from it (base/port.h). The
 * kernel gives it to no socket that asks for any port: it is below that range. Processes that run
 * at the same time get different ones. Any thread.
 */
int free_port(void);

#endif
