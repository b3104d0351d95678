/* Kernels for any processor; the compiler uses what the whole build may use (SSE2, say). */
#if !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define VARIANT rd_reduce_plain
#define VARIANT_NAME "plain"

#include "exec/reduce_kernels.h"
