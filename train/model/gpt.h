/* GPT-2 (Radford et al.: "Language Models are Unsupervised Multitask Learners", 2019), on bytes. */
#ifndef TRAIN_MODEL_GPT_H
#define TRAIN_MODEL_GPT_H

#include "train/model/model.h"

struct gpt {
	int layers, heads, width;
	int tokens; /* of a sample */
	int vocabulary;
	int used; /* tokens that occur are below this; 0: the vocabulary */
};

/*
 * The layers, names, shapes and first values are those of nanoGPT, without dropout. Adds them after
 * model_open(); fails if the model's tensor group does not divide the heads.
 */
int gpt_layers(struct model *model, const struct gpt *gpt);

#endif
