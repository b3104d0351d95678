/*
 * GPUs for tests: real ones (tests/gpu.sh), or those of an emulated driver
 * (tests/support/driver), which ctest puts before the loader.
 */
#ifndef TRAIN_GPUS_H
#define TRAIN_GPUS_H

enum gpus { NO_GPU, REAL_GPUS, EMULATED_GPUS };

/* In a process of its own: CUDA does not outlive a fork. */
enum gpus find_gpus(void);
/* Skips the test where there is none. `finish` runs before that, for a skip bypasses the end of a
   test; NULL: nothing. */
void need_gpus(void (*finish)(void));
/* Runs it in a process of its own, which must succeed. */
void expect_success(int (*run)(void));

#endif
