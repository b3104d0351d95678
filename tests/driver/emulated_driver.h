/* The interface between the parts of the emulated driver in C and in C++. */
#ifndef EMULATED_H
#define EMULATED_H

/* The type of work that is a call of the function in[0] with the argument out[0]. */
#define EMULATED_CALL (-1)

/* The trainer's kernels, at most. */
#define EMULATED_KERNELS 64

#ifdef __cplusplus
extern "C" {
#endif

/* Loads code: waits until nothing runs; not 0 where something runs on for too long. */
int emulated_load(void);

/* The number of the trainer's kernel with this name; -1: there is none. */
int emulated_find(const char *name);
/* A launch of it with these parameters, which are copied; to be run once. */
void *emulated_bind(int number, unsigned blocks, void **parameters);
void emulated_run(void *launch);

#ifdef __cplusplus
}
#endif

#endif
