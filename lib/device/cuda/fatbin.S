/* The compiled kernels, as they are. */
	.section .rodata
	.globl rd_cuda_kernels
	.hidden rd_cuda_kernels
	.balign 64
rd_cuda_kernels:
	.incbin RONDO_KERNELS_FATBIN
	.globl rd_cuda_plans
	.hidden rd_cuda_plans
	.balign 64
rd_cuda_plans:
	.incbin RONDO_PLANS_FATBIN
	.globl rd_cuda_transfers
	.hidden rd_cuda_transfers
	.balign 64
rd_cuda_transfers:
	.incbin RONDO_TRANSFERS_FATBIN
	.section .note.GNU-stack, "", %progbits
