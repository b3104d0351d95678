/* Leaks of a process: what closing may leave behind. */
#ifndef CONTRACT_LEAKS_H
#define CONTRACT_LEAKS_H

/* Count the open descriptors and the shared mappings of this process. */
int contract_open_files(void);
int contract_shared_maps(void);

#endif
