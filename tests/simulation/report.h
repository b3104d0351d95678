/* A simulated world in words: the ranks that a reason names, and the lines of a trace. */
#ifndef SIMULATION_REPORT_H
#define SIMULATION_REPORT_H

#include <stdarg.h>
#include <stdint.h>

/* Their bits. *first: the first one; -1: none. */
unsigned named_ranks(const char *text, int *first);

/* rank: whose line it is; -1: none's. */
void trace_print(uint64_t event, uint64_t now_ns, int rank, const char *format, va_list args)
	__attribute__((format(printf, 4, 0)));

#endif
