/* The kernels of one variant, which has defined the vectors. */
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* Lanes of a vector that `left` elements fill. */
INLINE int clamp(int left)
{
	return left < 0 ? 0 : left > WIDTH ? WIDTH : left;
}

/* The first `left` elements, and zeros behind them. */
INLINE floats load_left(const float *from, int left)
{
	return left >= WIDTH ? load(from) : load_part(from, 0, clamp(left));
}

INLINE void store_left(float *to, floats x, int left)
{
	if (left >= WIDTH)
		store(to, x);
	else
		store_part(to, x, clamp(left));
}

#include "train/device/cpu_conv_kernels.h"
#include "train/device/cpu_norm_kernels.h"
#include "train/device/cpu_pool_kernels.h"

const struct image_kernels VARIANT = {
	.shift = shift,
	.conv = conv,
	.channel_sums = channel_sums,
	.conv_weight_grad = conv_weight_grad,
	.norm_sums = norm_sums,
	.norm = norm,
	.norm_grad_sums = norm_grad_sums,
	.norm_in_grad = norm_in_grad,
	.max_pool = max_pool,
	.max_pool_grad = max_pool_grad,
};
