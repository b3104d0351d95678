/*
 * The hosts of --hosts: "a,b:4,user@c:8". An address of IPv6 with a number of ranks is in brackets.
 */
#ifndef RUN_HOSTS_LIST_H
#define RUN_HOSTS_LIST_H

#include <stdbool.h>

#include "arguments.h"

#define HOSTS_MAX 1024

struct host {
	char *name; /* as ssh takes it */
	int local_size; /* its ranks; 0: as --nproc-per-node */
};

struct host_list {
	struct host *hosts;
	int count;
};

/* Reads the list. NULL, or the reason why it is refused; then the list is empty. */
const char *host_list_read(struct host_list *list, const char *text);
void host_list_finish(struct host_list *list);

/* Reads the option's value, a const char * that host_list_read() accepts; "" is NULL. */
bool values_hosts(const struct argument *argument, void *target, const char *text);

#endif
