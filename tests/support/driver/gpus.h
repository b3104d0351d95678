/* The emulated GPUs: their number, PCI addresses, and which reach each other. */
#ifndef RD_EMULATED_GPUS_H
#define RD_EMULATED_GPUS_H

#include <stdbool.h>
#include <stdint.h>

/* Makes `count` devices; without handles, no other process can map
   memory that is allocated from now on. */
void rd_emulated_set(int count, bool handles);
/* The GPUs of a host in a topology file (docs/rondo-topo.md): the only one, or that named by
   RONDO_HOST. They have its PCI addresses, and reach each other where there is NVLink between them,
   or no more than a host bridge. An error, with the reason, where the file cannot be used or has no
   GPU. */
int rd_emulated_load(const char *path);
int rd_emulated_count(void);
/* 0, or RONDO_INVALID with the reason: there is no such device. */
int rd_emulated_check_device(int device);
bool rd_emulated_has_handles(void);
uint32_t rd_emulated_pci(int device);
/* 0, or RONDO_UNSUPPORTED with the reason, where one does not address the other's memory. */
int rd_emulated_reach(int device, int other);

#endif
