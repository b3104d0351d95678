/* Shared between the kernels and their launches. */
#ifndef TRAIN_CUDA_KERNELS_H
#define TRAIN_CUDA_KERNELS_H

/* Threads of a block, in every kernel; a power of two. */
#ifndef TRAIN_THREADS
#define TRAIN_THREADS 256
#endif

/* Columns of a block of column_sums(), and threads of each column. */
#define TRAIN_SUM_LANES 8
#define TRAIN_SUM_COLUMNS (TRAIN_THREADS / TRAIN_SUM_LANES)

/* X(name): the kernel train_name() */
#define TRAIN_KERNELS(X) \
	X(spread) \
	X(column_sums) \
	X(relu) \
	X(relu_grad) \
	X(loss) \
	X(loss_grad) \
	X(sgd)

#endif
