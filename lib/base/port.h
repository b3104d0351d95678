/* The port at which ranks meet where RONDO_PORT does not give one. */
#ifndef RD_PORT_H
#define RD_PORT_H

#define RD_MASTER_PORT 29500 /* where MASTER_PORT is not set, as in torchrun */

/*
 * Derives the port from MASTER_PORT, which stays free for the program: 2000 below it, wrapped into
 * 1024..32767. There no port is privileged, and the kernel takes none for outgoing connections.
 * Jobs at neighbouring MASTER_PORTs get neighbouring ports.
 */
static inline int rd_port_from_master(int master_port)
{
	int least = 1024, count = 32768 - least;

	return least + (master_port - 2000 - least + count) % count;
}

#endif
