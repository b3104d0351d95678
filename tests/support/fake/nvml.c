/*
 * A fake of NVML, as far as the probe uses it: three GPUs, not in the order of their addresses.
 * 17:00 and 85:00 have two NVLinks to each other and four to a switch each; 18:00 has links of
 * which one leads to a CPU (an NPU, as NVML calls it), and the others are down.
 *
 * FAKE_NVML=silent: the driver does not answer; FAKE_NVML=lame: it does not report the GPU at
 * 18:00.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pci {
	char legacy[16];
	unsigned domain, bus, device, id, subsystem;
	char address[32];
};

struct memory {
	unsigned long long total, free, used;
};

static const char *const addresses[] = { "00000000:85:00.0", "00000000:17:00.0",
	"00000000:18:00.0" };
static char handles[3];

enum { GPU_85, GPU_17, GPU_18, NO_SUCH = 6 };

static int number_of(const void *handle)
{
	return (int)((const char *)handle - handles);
}

static int mode_is(const char *mode)
{
	const char *set = getenv("FAKE_NVML");

	return set && !strcmp(set, mode);
}

int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
	return mode_is("silent") ? 9 : 0;
}

int nvmlShutdown(void);
int nvmlShutdown(void)
{
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = 3;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle)
{
	if (index >= 3)
		return NO_SUCH;
	*handle = &handles[index];
	return 0;
}

int nvmlDeviceGetPciInfo_v3(void *handle, struct pci *pci);
int nvmlDeviceGetPciInfo_v3(void *handle, struct pci *pci)
{
	if (mode_is("lame") && number_of(handle) == GPU_18)
		return NO_SUCH;
	strcpy(pci->address, addresses[number_of(handle)]);
	return 0;
}

int nvmlDeviceGetName(void *handle, char *name, unsigned size);
int nvmlDeviceGetName(void *handle, char *name, unsigned size)
{
	snprintf(name, size, "Fake %d", number_of(handle));
	return 0;
}

int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned size);
int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned size)
{
	snprintf(uuid, size, "GPU-%08d-0000-0000-0000-000000000000", number_of(handle));
	return 0;
}

int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory);
int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory)
{
	(void)handle;
	memory->total = (unsigned long long)40 << 30;
	return 0;
}

/* The second handle alone has memory that is a NUMA node. */
int nvmlDeviceGetNumaNodeId(void *handle, unsigned *node);
int nvmlDeviceGetNumaNodeId(void *handle, unsigned *node)
{
	*node = 9;
	return number_of(handle) == 1 ? 0 : NO_SUCH;
}

int nvmlDeviceGetNvLinkState(void *handle, unsigned link, int *active);
int nvmlDeviceGetNvLinkState(void *handle, unsigned link, int *active)
{
	if (link >= 6)
		return NO_SUCH;
	*active = number_of(handle) != GPU_18 || link == 0;
	return 0;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *handle, unsigned link, struct pci *pci);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *handle, unsigned link, struct pci *pci)
{
	int number = number_of(handle);
	const char *end = number == GPU_18 ? "00000000:01:00.0" : "00000000:c4:00.0";

	if (number != GPU_18 && link < 2)
		end = addresses[number == GPU_85 ? GPU_17 : GPU_85];
	strcpy(pci->address, end);
	return 0;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *handle, unsigned link, int *type);
int nvmlDeviceGetNvLinkRemoteDeviceType(void *handle, unsigned link, int *type)
{
	*type = number_of(handle) == GPU_18 ? 1 : link < 2 ? 0 : 2;
	return 0;
}
