/*
 * A device holds the model and computes it: the host (cpu.c: OpenBLAS and plain loops), or an
 * NVIDIA GPU (cuda/cuda.c: cuBLAS and kernels of our own). Model, optimizer and ddp use this table
 * alone.
 *
 * Matrices are row-major and dense, in the device's memory. Operations run in the order of their
 * calls; a GPU only queues them, so they return nothing. The first failure sticks: later operations
 * do nothing, and device_failure() and wait() return it.
 *
 * A stream for communication runs beside the computation. join() alone orders the two.
 *
 * One thread uses a device.
 */
#ifndef TRAIN_DEVICE_H
#define TRAIN_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include <rondo.h>

enum device_kind { DEVICE_CPU, DEVICE_CUDA };

/* Whether a factor is [rows][columns], as in the product, or transposed. */
enum layout { AS_IS, TRANSPOSED };

enum track { COMPUTATION, COMMUNICATION };

/* Moments have numbers below this. */
#define DEVICE_MOMENTS 256

struct device_ops;

struct device {
	const struct device_ops *ops;
	int number; /* for rondo_mem_alloc_on() and comms; -1: the host */
	char name[96]; /* "cpu", or the GPU's name */
	int error; /* the first failure, and its reason */
	char reason[512];
};

struct device_ops {
	void (*destroy)(struct device *device);

	/* Zeroed memory at a multiple of 64 bytes. free() takes effect after all queued operations,
	   and accepts NULL. */
	int (*alloc)(struct device *device, void **memory, size_t size);
	void (*free)(struct device *device, void *memory);
	/* Allocates for puts of up to `size` bytes, so that none allocates later. Call it before
	   the stream for communication has work. */
	int (*reserve)(struct device *device, size_t size);
	/* Copies to the device's memory. The caller may change `from` afterwards. */
	void (*put)(struct device *device, void *to, const void *from, size_t size);
	/* Copies from the device's memory. Waits for all operations so far. */
	int (*get)(struct device *device, void *to, const void *from, size_t size);
	/* Waits for all operations so far; returns the first failure. */
	int (*wait)(struct device *device);

	/* c[rows][columns] = a[rows][inner] b[inner][columns] + beta c; inner 0 is a sum of
	 * nothing. */
	void (*product)(struct device *device, int rows, int columns, int inner, const float *a,
		enum layout a_layout, const float *b, enum layout b_layout, float beta, float *c);
	/* Every row of out[rows][columns] = row[columns]. */
	void (*spread)(struct device *device, int rows, int columns, const float *row, float *out);
	/* sums[columns] = the sum of the rows of in[rows][columns]. */
	void (*column_sums)(
		struct device *device, int rows, int columns, const float *in, float *sums);
	/* out[count] = max(in[count], 0) */
	void (*relu)(struct device *device, size_t count, const float *in, float *out);
	/* in_grad[count] = out_grad[count] where in[count] > 0, else 0. */
	void (*relu_grad)(struct device *device, size_t count, const float *in,
		const float *out_grad, float *in_grad);
	/* For logits[rows][columns] and labels[rows]: sums[0] = the sum of the cross-entropies,
	   sums[1] = the number of rows whose largest logit is at the label. */
	void (*loss)(struct device *device, int rows, int columns, const float *logits,
		const uint8_t *labels, double *sums);
	/* grad[rows][columns] = scale times the gradient of sums[0] by the logits. */
	void (*loss_grad)(struct device *device, int rows, int columns, const float *logits,
		const uint8_t *labels, float scale, float *grad);
	/* value[count] -= rate * grad[count] */
	void (*descend)(
		struct device *device, size_t count, float rate, const float *grad, float *value);

	/* Creates the stream for communication, at most one. Destroy it before the device. */
	int (*stream)(struct device *device, rondo_stream **stream);
	/* Later operations on this track wait for all on the other so far. */
	int (*join)(struct device *device, enum track track);
	/* Records the time at which the track gets here. */
	void (*record)(struct device *device, enum track track, int moment);
	/* Seconds between the last records of two moments. Waits for them. */
	double (*between)(struct device *device, int from, int to);
};

/*
 * local_rank modulo the number of GPUs selects one. On failure *device is NULL, and the line names
 * a remedy.
 */
int device_create(struct device **device, enum device_kind kind, int local_rank);
/* Accepts NULL. */
void device_destroy(struct device *device);

/* The first failure, without waiting; 0: none so far. */
int device_failure(const struct device *device);
/* The constructors of all kinds. */
int cpu_create(struct device **device);
int cuda_create(struct device **device, int local_rank);

#endif
