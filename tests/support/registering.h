/*
 * A transport for tests: shm by the name "registers", with attach() and detach(), which only keep
 * records. Any pair prefers it to shm.
 */
#ifndef REGISTERING_H
#define REGISTERING_H

#include <stdbool.h>
#include <stddef.h>

#include "rondo/transport.h"

/* Adds it to the table of transports. */
void registering_add(void);

/* From now on attach() fails, with the reason "no room on the card". */
void registering_refuse(void);

/* Counts, of this process: endpoints to which [base, base + size) is attached now. */
int registering_count(const void *base, size_t size);
/* Calls of attach() and detach() so far. */
int registering_calls(void);
/* The first byte of device memory that was attached last, as read through its dma-buf; -1: none
   was. */
int registering_device_byte(void);

#endif
