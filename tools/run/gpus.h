/*
 * The GPUs of this node.
 */
#ifndef RUN_GPUS_H
#define RUN_GPUS_H

#define GPUS_REASON_SIZE 160

/*
 * Counts the devices that CUDA programs see, those of CUDA_VISIBLE_DEVICES. A child asks the driver
 * (libcuda.so.1), for at most a minute: this process stays as it is. 0, with the reason, where
 * there is none.
 */
int gpus_count(char reason[GPUS_REASON_SIZE]);

#endif
