/*
 * CIFAR-10 in its binary version (https://www.cs.toronto.edu/~kriz/cifar.html): each record is the
 * label, then the pixels by channel (red, green, blue), row and column.
 */
#ifndef TRAIN_CIFAR_H
#define TRAIN_CIFAR_H

#define CIFAR_SIDE 32 /* pixels */
#define CIFAR_CHANNELS 3
#define CIFAR_PIXELS (CIFAR_CHANNELS * CIFAR_SIDE * CIFAR_SIDE)
#define CIFAR_RECORD (1 + CIFAR_PIXELS) /* bytes */
#define CIFAR_TRAIN_FILES 5

#endif
