/*
 * A device: where the model lies and is computed. The host is one (cpu.c: OpenBLAS and plain
 * loops), an NVIDIA GPU another (cuda/cuda.c: cuBLAS and kernels of our own). The model, the
 * optimizer and ddp are written to this table, and read the same on all.
 *
 * Matrices are row-major, with nothing between the rows, in the device's memory. Operations come
 * one after the other, as they are called; a GPU only queues them. So they return nothing: the
 * first failure sticks, what comes after it does nothing, and device_failure() and wait() tell.
 *
 * Beside the computation there is a stream for communication. The two know nothing of each other
 * but for join().
 *
 * One thread uses a device.
 */
#ifndef TRAIN_DEVICE_H
#define TRAIN_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include <rondo.h>

enum device_kind { DEVICE_CPU, DEVICE_CUDA };

/* How a factor lies: [rows][columns] as the product wants it, or the other way round. */
enum layout { AS_IS, TRANSPOSED };

enum track { COMPUTATION, COMMUNICATION };

/* Moments are numbered from 0 to this, less 1. */
#define DEVICE_MOMENTS 256

struct device_ops;

struct device {
	const struct device_ops *ops;
	int number; /* for rondo_mem_alloc_on() and comms; -1: the host */
	char name[96]; /* "cpu", or what the GPU calls itself */
	int error; /* the first failure, and its reason */
	char reason[512];
};

struct device_ops {
	void (*destroy)(struct device *device);

	/* Memory, zeroed, at a multiple of 64 bytes. Freed when nothing that is queued uses it;
	 * NULL is fine. */
	int (*alloc)(struct device *device, void **memory, size_t size);
	void (*free)(struct device *device, void *memory);
	/* Room for puts of up to this size: none of them allocates later. Before anything is queued
	   on the stream for communication. */
	int (*reserve)(struct device *device, size_t size);
	/* To the device's memory. `from` may be changed as soon as this returns. */
	void (*put)(struct device *device, void *to, const void *from, size_t size);
	/* From the device's memory, what is computed so far. Waits for it. */
	int (*get)(struct device *device, void *to, const void *from, size_t size);
	/* Until all that was called is done; returns the failure that stuck. */
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
	/* Of the rows of logits[rows][columns], with labels[rows]: sums[0] = the sum of their
	   cross-entropies, sums[1] = how many have their largest logit at the label. */
	void (*loss)(struct device *device, int rows, int columns, const float *logits,
		const uint8_t *labels, double *sums);
	/* grad[rows][columns] = scale times the gradient of sums[0] by the logits. */
	void (*loss_grad)(struct device *device, int rows, int columns, const float *logits,
		const uint8_t *labels, float scale, float *grad);
	/* value[count] -= rate * grad[count] */
	void (*descend)(
		struct device *device, size_t count, float rate, const float *grad, float *value);

	/* The stream for communication. There can be one; it ends before the device does. */
	int (*stream)(struct device *device, rondo_stream **stream);
	/* What comes on this track from now on comes after all that is on the other. */
	int (*join)(struct device *device, enum track track);
	/* Notes when the track gets here. */
	void (*note)(struct device *device, enum track track, int moment);
	/* Seconds between two moments that were noted last. Waits for them. */
	double (*between)(struct device *device, int from, int to);
};

/*
 * local_rank: of several GPUs, the one of this number modulo how many there are. On failure *device
 * is NULL, and the line says what to do.
 */
int device_create(struct device **device, enum device_kind kind, int local_rank);
/* NULL is fine. */
void device_destroy(struct device *device);

/* The failure that stuck, without waiting; 0: none so far. */
int device_failure(const struct device *device);
/* What the kinds are made by. */
int cpu_create(struct device **device);
int cuda_create(struct device **device, int local_rank);

#endif
