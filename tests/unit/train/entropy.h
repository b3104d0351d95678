/* The loss of a model that has learnt no more of a text than which bytes are frequent. */
#ifndef TRAIN_ENTROPY_H
#define TRAIN_ENTROPY_H

/* The entropy of a file's bytes, in nats: no model that ignores the bytes before has a mean loss
   below it. */
double entropy_of_bytes(const char *path);

#endif
