/*
 * Writes and reads elements of every type.
 */
#ifndef ELEMENTS_H
#define ELEMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "rondo.h"

/* A float, or a complex number. */
bool element_is_float(rondo_type type);

/* Complex numbers have two parts; others are one, of their own type. */
int element_parts(rondo_type type);
rondo_type element_part(rondo_type type);

/* Stores the integer's low bits, or the nearest float, by the type. A complex number gets the
   imaginary part 0. */
void element_store(void *at, rondo_type type, uint64_t integer, double real);

/* A float of any type; the real part of a complex number. */
double element_float(const void *at, rondo_type type);

struct element_limits {
	double greatest, least; /* finite, and above zero */
	int digits; /* of the mantissa, with the first */
};

/* The limits of a type of floats. */
struct element_limits element_limits(rondo_type type);

/* An integer of any type, sign- or zero-extended. */
uint64_t element_integer(const void *at, rondo_type type);

/* Sign- or zero-extends these bits from the type's width. */
uint64_t element_widen(uint64_t value, rondo_type type);

/* The logical operation that this one is for bools. */
rondo_op element_bool_op(rondo_op op);

/* Applies a bitwise or logical operation. */
uint64_t element_combine_bits(rondo_op op, uint64_t a, uint64_t b);

/* Applies any operation to numbers that a double holds exactly; RONDO_AVG adds. */
double element_combine(rondo_op op, double a, double b);

#endif
