/* This host's address at which its rank 0 meets the others, where nothing gives MASTER_ADDR. */
#ifndef RD_OWN_ADDRESS_H
#define RD_OWN_ADDRESS_H

#include "net/address.h"

/*
 * Finds the address, numeric: of the first interface that RONDO_INTERFACE names, or else that from
 * which packets leave by the default route. Without that route, it takes an interface that is up,
 * first those with a gateway, and no bridge of containers. The last is the loopback, with a
 * warning. RONDO_SETTING; RONDO_SYSTEM: there is none.
 */
int rd_own_address(char text[RD_NUMERIC_ADDRESS]);

#endif
