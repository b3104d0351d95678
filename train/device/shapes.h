/* Shapes and settings of a device's operations (device.h), for the host's code and for kernels. */
#ifndef TRAIN_DEVICE_SHAPES_H
#define TRAIN_DEVICE_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

/* A convolution of stride 1 with a square kernel: PyTorch's Conv2d(in_channels, out_channels,
   kernel, padding=padding), with padding < kernel. The output has rows + 2 padding - kernel + 1
   rows; columns alike. */
struct conv {
	int batch;
	int in_channels, out_channels;
	int rows, columns; /* of the input */
	int kernel, padding;
};

/* Planes of images; for batch norm and pooling. */
struct planes {
	int batch, channels, rows, columns;
};

/* Batch norm, normalised over batch, rows and columns of each channel. */
struct norm {
	struct planes shape;
	float epsilon;
	bool relu; /* the output is max(normalised, 0) */
};

/* Layer norm, normalised over the columns of each row. */
struct layer_norm {
	int rows, columns;
	float epsilon;
};

/* Tokens at positions: row r has position r % positions. */
struct embedding {
	int rows, positions, width;
	int vocabulary;
};

enum optimizer_kind { OPTIMIZER_SGD, OPTIMIZER_ADAM, OPTIMIZER_ADAMW };

/* One step of SGD, as torch.optim.SGD defines it. */
struct sgd {
	float rate, momentum, weight_decay;
	bool nesterov;
	bool first; /* the momentum buffer holds nothing yet */
};

/* One step of Adam, or AdamW, as torch.optim defines them. */
struct adam {
	float rate, beta1, beta2, epsilon, weight_decay;
	bool decoupled; /* AdamW's weight decay */
	int64_t step; /* 1 in the first */
};

#endif
