/* Kernels for any processor, with the instructions of the whole build (SSE2 on x86-64). */
#if !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define VARIANT rd_reduce_plain
#define VARIANT_NAME "plain"

#include "exec/reduce_kernels.h"
