/* The networks of --model, each as its well-known tutorial defines it. */
#ifndef TRAIN_MODEL_NETWORKS_H
#define TRAIN_MODEL_NETWORKS_H

#include <stdbool.h>
#include <stdint.h>

#include "train/data/data.h"
#include "train/model/model.h"

/* Samples that a network reads. */
struct samples {
	int channels, rows, columns; /* of an image; 0, 0, 0: text */
	int classes; /* of a label */
	int tokens; /* of a text's sample */
};

struct network {
	const char *name; /* of --model */
	const char *title; /* the class in PyTorch */
	const struct data_kind *data; /* that it reads */
	int tokens; /* of a text's sample: the default */
	bool shares_layers; /* with the ranks of --tensor; else each would compute all of them */
	int epochs; /* defaults of training: in all; 0: as most, */
	int batch; /* samples a rank, */
	int optimizer; /* enum optimizer_kind, */
	double learning_rate, momentum, weight_decay; /* of that optimizer */
	/* Adds its layers, after model_open(). Fails for samples that it cannot read. */
	int (*build)(struct model *model, const struct samples *samples);
};

/* All of them; a name of NULL ends the list. */
extern const struct network networks[];
/* NULL: no network has this name. */
const struct network *network_named(const char *name);

/* Opens, builds and finishes a model. config: rows and classes are set here. */
int network_create(struct model **model, const struct network *network, struct device *device,
	const struct samples *samples, const struct model_config *config, uint64_t seed);

/* 1 x 28 x 28: twice convolution 5 x 5, batch norm, ReLU and max-pooling; then linear. */
int convnet_build(struct model *model, const struct samples *samples);
/* 3 x 32 x 32: twice convolution 5 x 5, max-pooling and ReLU; then three linear layers. */
int lenet_build(struct model *model, const struct samples *samples);

/* Linear layers from widths[0] to widths[1], ... with ReLU between them. */
void mlp_layers(struct model *model, const int *widths, int width_count);

#endif
