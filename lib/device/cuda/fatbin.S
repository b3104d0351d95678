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
	.globl rd_cuda_poison
	.hidden rd_cuda_poison
	.balign 64
rd_cuda_poison:
	.incbin RONDO_POISON_FATBIN
	.section .note.GNU-stack, "", %progbits
