/* Plans that read and write peers' memory directly. */
#ifndef RD_MAPPED_H
#define RD_MAPPED_H

#include "plan.h"

extern const struct rd_algorithm rd_mapped;

#endif
