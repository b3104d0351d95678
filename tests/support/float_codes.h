/*
 * The narrow floats by their definition, slowly: the reference for conversions and kernels.
 */
#ifndef FLOAT_CODES_H
#define FLOAT_CODES_H

#include <stdint.h>

#include "rondo.h"

/* A format by its mantissa and exponent bits: f16 is 10 and 5, bf16 is 7 and 8. */
double half_decode(uint16_t bits, int mantissa, int exponent);
uint16_t half_encode(double value, int mantissa, int exponent);

/* RONDO_F8E4M3 or RONDO_F8E5M2. Encodes to the nearest finite number. */
double f8_decode(uint8_t code, rondo_type type);
uint8_t f8_encode(double value, rondo_type type);

#endif
