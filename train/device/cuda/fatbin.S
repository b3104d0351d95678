/* The compiled kernels, as they are. */
	.section .rodata
	.globl train_cuda_kernels
	.hidden train_cuda_kernels
	.balign 64
train_cuda_kernels:
	.incbin RONDO_TRAIN_FATBIN
	.section .note.GNU-stack, "", %progbits
