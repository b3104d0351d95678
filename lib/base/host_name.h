/* The name of this host, for people. */
#ifndef RD_HOST_NAME_H
#define RD_HOST_NAME_H

#define RD_HOST_NAME_SIZE 64

/* RONDO_HOST, or else the host's own name: without control characters, and never empty. Reads the
   environment, which no other thread may change meanwhile. */
void rd_host_name(char name[RD_HOST_NAME_SIZE]);

#endif
