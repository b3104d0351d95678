/* A line of a simulated world's trace. */
#ifndef SIMULATION_TRACE_H
#define SIMULATION_TRACE_H

#include <stdarg.h>
#include <stdint.h>

/* rank: whose line it is; -1: none's. */
void trace_print(uint64_t event, uint64_t now_ns, int rank, const char *format, va_list args)
	__attribute__((format(printf, 4, 0)));

#endif
