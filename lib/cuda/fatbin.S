/* The compiled kernels, as they are. */
	.section .rodata
	.globl rd_cuda_kernels
	.hidden rd_cuda_kernels
	.balign 64
rd_cuda_kernels:
	.incbin RONDO_FATBIN
	.section .note.GNU-stack, "", %progbits
