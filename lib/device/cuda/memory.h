/* Memory of devices and of the host: the functions of the table (struct rd_device_ops). */
#ifndef RD_CUDA_MEMORY_H
#define RD_CUDA_MEMORY_H

#include "device/device.h"

bool rd_cuda_find(const void *at, struct rd_allocation *allocation);
bool rd_cuda_pageable(const void *at);
bool rd_cuda_pinned(int device, const void *at, size_t size);
int rd_cuda_alloc(int device, size_t size, void **memory);
int rd_cuda_free(void *memory);
int rd_cuda_export(const void *base, struct rd_handle *handle);
int rd_cuda_import(int device, const struct rd_handle *handle, void **base, size_t *size);
void rd_cuda_drop(int device, void *base);
int rd_cuda_dmabuf(void *base, size_t size, int *fd, size_t *offset);
int rd_cuda_peer(int device, int other);
int rd_cuda_share(int device, void *memory, size_t size);
void rd_cuda_unshare(int device, void *memory);

#endif
