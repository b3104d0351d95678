#include "float_codes.h"

#include <math.h>

double half_decode(uint16_t bits, int mantissa, int exponent)
{
	int field = bits >> mantissa & ((1 << exponent) - 1);
	int fraction = bits & ((1 << mantissa) - 1);
	int bias = (1 << (exponent - 1)) - 1;
	double value;

	if (field == (1 << exponent) - 1)
		value = fraction ? NAN : INFINITY;
	else if (field == 0)
		value = ldexp(fraction, 1 - bias - mantissa);
	else
		value = ldexp(fraction + (1 << mantissa), field - bias - mantissa);
	return bits & 0x8000 ? -value : value;
}

uint16_t half_encode(double value, int mantissa, int exponent)
{
	int bias = (1 << (exponent - 1)) - 1;
	long infinity = ((1l << exponent) - 1) << mantissa;
	uint16_t sign = signbit(value) ? 0x8000 : 0;
	double size = fabs(value);

	if (isnan(value))
		return (uint16_t)(sign | infinity | 1 << (mantissa - 1));
	if (isinf(value) || size == 0)
		return (uint16_t)(sign | (size == 0 ? 0 : infinity));
	int power = ilogb(size) > 1 - bias ? ilogb(size) : 1 - bias;
	/* In units of the last place, to nearest even; a carry runs into the exponent as it should.
	 */
	double units = rint(ldexp(size, mantissa - power));
	long bits = ((long)(power - (1 - bias)) << mantissa) + (long)units;
	return (uint16_t)(sign | (bits > infinity ? infinity : bits));
}

/* As the specification's table has them: e5m2 is the upper byte of an f16; e4m3 has no infinity,
   and its bias of 7 makes room for as many numbers as fit. */
double f8_decode(uint8_t code, rondo_type type)
{
	int field = code >> 3 & 15, fraction = code & 7;
	double value = field ? ldexp(8 + fraction, field - 10) : ldexp(fraction, -9);

	if (type == RONDO_F8E5M2)
		return half_decode((uint16_t)(code << 8), 10, 5);
	if (field == 15 && fraction == 7)
		value = NAN;
	return code & 0x80 ? -value : value;
}

/* The nearest finite code; of two, the one whose last bit is 0. */
uint8_t f8_encode(double value, rondo_type type)
{
	int finite = type == RONDO_F8E4M3 ? 0x7f : 0x7c;
	uint8_t sign = signbit(value) ? 0x80 : 0, best = 0;

	if (isnan(value))
		return 0x7f;
	/* As far from the greatest as infinity is, all others are no nearer. */
	double size = fmin(fabs(value), 1e6);
	for (int code = 1; code < finite; code++) {
		double far = fabs(f8_decode((uint8_t)code, type) - size);
		double least = fabs(f8_decode(best, type) - size);

		if (far < least || (far == least && code % 2 == 0))
			best = (uint8_t)code;
	}
	return sign | best;
}
