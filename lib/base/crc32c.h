/*
 * CRC-32C (Castagnoli; iSCSI, RFC 3720), by the processor's instructions where it has them. It
 * detects all bursts of up to 32 bits, and other changes but for one in 2^32.
 */
#ifndef RD_CRC32C_H
#define RD_CRC32C_H

#include <stddef.h>
#include <stdint.h>

typedef uint32_t rd_crc32c_function(uint32_t crc, const void *bytes, size_t size);

/* Continues `crc`, which is 0 before the first byte. */
uint32_t rd_crc32c(uint32_t crc, const void *bytes, size_t size);

/* A variant by its instructions: "avx512", "sse4.2" or "plain". NULL: it does not run here. */
rd_crc32c_function *rd_crc32c_variant(const char *instructions);

#endif
