/* The GPUs: their number, PCI addresses, and which reach each other. */
#ifndef GPUS_H
#define GPUS_H

#include <stdbool.h>
#include <stdint.h>

/* Makes those of EMULATED_GPUS (cuda.c). Those of a host in a topology file (docs/rondo-topo.md),
   the only one or that named by RONDO_HOST, have its PCI addresses. They reach each other where
   there is NVLink between them, or no more than a host bridge. Not 0: the text or the file cannot
   be used. */
int gpus_find(void);
int gpus_count(void);
bool gpus_have(int device);
uint32_t gpus_pci(int device);
/* Whether a device addresses the other's memory. */
bool gpus_reach(int device, int other);

#endif
