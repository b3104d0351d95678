/*
 * The messages of a buffer exchange (comm/buffer_exchange.h): each rank sends one of a cache line
 * to each of the others. The library runs it before calls of direct access; it is not in the table
 * of algorithms.
 */
#ifndef RD_BUFFER_EXCHANGE_PLAN_H
#define RD_BUFFER_EXCHANGE_PLAN_H

#include "plan/plan.h"

extern const struct rd_algorithm rd_buffer_exchange_plan;

#endif
