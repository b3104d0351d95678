/* A broadcast by direct access, in which the root works too. */
#ifndef RD_PUSH_PULL_H
#define RD_PUSH_PULL_H

#include "plan.h"

extern const struct rd_algorithm rd_push_pull;

#endif
