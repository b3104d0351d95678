/* A fake of CUDA's driver, as far as the probe uses it: two GPUs, the faster first. Memory of
   fake_device_memory is a device's. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct uuid {
	unsigned char bytes[16];
};

static int started;

int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
	started = 1;
	return flags ? 1 : 0;
}

int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count)
{
	*count = 2;
	return started ? 0 : 3; /* CUDA_ERROR_NOT_INITIALIZED */
}

int cuDeviceGet(int *device, int ordinal);
int cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal + 10;
	return ordinal < 2 ? 0 : 101;
}

int cuDeviceGetPCIBusId(char *address, int size, int device);
int cuDeviceGetPCIBusId(char *address, int size, int device)
{
	snprintf(address, (size_t)size, device == 10 ? "0000:85:00.0" : "0000:17:00.0");
	return device < 10;
}

int cuDeviceGetName(char *name, int size, int device);
int cuDeviceGetName(char *name, int size, int device)
{
	snprintf(name, (size_t)size, "Fake CUDA %d", device);
	return 0;
}

int cuDeviceGetUuid(struct uuid *uuid, int device);
int cuDeviceGetUuid(struct uuid *uuid, int device)
{
	memset(uuid, device, sizeof(*uuid));
	return 0;
}

int cuDeviceTotalMem_v2(size_t *size, int device);
int cuDeviceTotalMem_v2(size_t *size, int device)
{
	(void)device;
	*size = (size_t)8 << 30;
	return 0;
}

char fake_device_memory[4096];

int cuPointerGetAttribute(unsigned *value, int attribute, unsigned long long at);
int cuPointerGetAttribute(unsigned *value, int attribute, unsigned long long at)
{
	unsigned long long base = (unsigned long long)(uintptr_t)fake_device_memory;

	*value = 2;
	return attribute == 2 && at >= base && at < base + sizeof(fake_device_memory) ? 0 : 1;
}
