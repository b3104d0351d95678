/* CRC-32C for x86-64. These functions work on the register of the CRC: rd_crc32c() inverts it. */
#ifndef RD_CRC32C_X86_H
#define RD_CRC32C_X86_H

#if defined(__x86_64__)

#include "base/crc32c.h"

/* `crc32` on three streams at once: it takes three cycles, and one can start in each. */
rd_crc32c_function rd_crc32c_sse42;
/* Carry-less products of 64 bytes (VPCLMULQDQ), four at once. */
rd_crc32c_function rd_crc32c_avx512;

#endif
#endif
