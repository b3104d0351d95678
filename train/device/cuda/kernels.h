/* Shared between the kernels and their launches. */
#ifndef TRAIN_CUDA_KERNELS_H
#define TRAIN_CUDA_KERNELS_H

/* Threads of a block, in every kernel; a power of two. */
#ifndef TRAIN_THREADS
#define TRAIN_THREADS 256
#endif

/* Columns of a block that adds up columns, and threads of each column. */
#define TRAIN_SUM_LANES 8
#define TRAIN_SUM_COLUMNS (TRAIN_THREADS / TRAIN_SUM_LANES)

/* X(name): the kernel train_name() */
#define TRAIN_KERNELS(X) \
	/* rows.cuh */ \
	X(scale_matrices) \
	X(pack) \
	X(spread) \
	X(column_sums) \
	X(add) \
	X(scale) \
	X(relu) \
	X(relu_grad) \
	X(gelu) \
	X(gelu_grad) \
	/* images.cuh */ \
	X(im2col) \
	X(col2im) \
	X(conv_bias) \
	X(conv_weight_grad) \
	X(max_pool) \
	X(max_pool_grad) \
	/* norm.cuh */ \
	X(plane_sums) \
	X(norm_sums) \
	X(norm_grad_sums) \
	X(part_sums) \
	X(norm_moments) \
	X(norm_fixed) \
	X(norm) \
	X(norm_weight_grad) \
	X(norm_in_grad) \
	/* text.cuh */ \
	X(embed) \
	X(embed_order) \
	X(embed_token_grad) \
	X(embed_position_grad) \
	X(layer_norm) \
	X(layer_norm_weight_grad) \
	X(layer_norm_in_grad) \
	X(causal_softmax) \
	X(causal_softmax_grad) \
	/* loss.cuh */ \
	X(loss_rows) \
	X(loss) \
	X(loss_grad) \
	/* optim.cuh */ \
	X(square_parts) \
	X(square_sum) \
	X(clip_factor) \
	X(sgd) \
	X(adam) \
	X(narrow) \
	X(widen)

#endif
