/*
 * The kernels of training (train/device/device.h), in one file for all architectures; cuBLAS does
 * matrix products. A kernel runs in a grid of any size: threads, or blocks, stride over the
 * elements. Sums have the same order in every run, whatever the grid.
 */
#include <stddef.h>
#include <stdint.h>

#include "train/device/cuda/kernels.h"
#include "train/device/half.h"
#include "train/device/shapes.h"

#include "train/device/cuda/threads.cuh"

#include "train/device/cuda/rows.cuh"

#include "train/device/cuda/images.cuh"
#include "train/device/cuda/loss.cuh"
#include "train/device/cuda/norm.cuh"
#include "train/device/cuda/optim.cuh"
#include "train/device/cuda/text.cuh"
