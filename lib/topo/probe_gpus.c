/*
 * GPUs, from NVML or the CUDA driver, which are loaded where they exist. This file declares the
 * parts of their interfaces that it uses, after NVIDIA's reference manuals ("NVML API Reference",
 * "CUDA Driver API").
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "topo/probes.h"
#include "topo/sysfs.h"

/* A GPU as either source finds it, before the GPUs have numbers. */
struct found {
	uint32_t address;
	bool known; /* the address */
	void *handle; /* NVML's */
	int ordinal; /* CUDA's */
};

static int compare_found(const void *a, const void *b)
{
	const struct found *first = a, *second = b;

	return (first->address > second->address) - (first->address < second->address);
}

static void take_address(struct rd_host_gpu *gpu, int number, const struct rd_probe *probe,
	const struct found *found)
{
	char text[RD_PCI_TEXT_SIZE], path[RD_SYSFS_PATH_SIZE] = "";

	snprintf(gpu->device.name, RD_NAME_SIZE, "gpu%d", number);
	gpu->device.numa = -1;
	gpu->memory_numa = -1;
	if (!found->known)
		return;
	rd_pci_text(text, found->address);
	if (!rd_sysfs_device(path, probe->root, "sys/bus/pci/devices/%s", text))
		rd_log(RD_INFO, RD_PROBE,
			"the GPU at %s is not in sysfs: what is near it is not known", text);
	rd_probe_device(&gpu->device, probe, path);
	/* The address remains, by which ranks recognise each other's GPUs. */
	if (!gpu->device.path.known)
		gpu->device.path = (struct rd_pci_path){
			.known = true, .root = found->address & ~0xffu, .address = found->address
		};
}

/* ---- NVML ---- */

#define NVML_LINKS 18

struct nvml_pci {
	char legacy[16];
	unsigned domain, bus, device, id, subsystem;
	char address[32];
};

struct nvml_memory {
	unsigned long long total, free, used;
};

enum { REMOTE_GPU, REMOTE_NPU, REMOTE_SWITCH };

/* X(field, symbol, required, arguments): 0 is success for all of them. */
#define NVML_FUNCTIONS(X) \
	X(init, "nvmlInit_v2", true, (void)) \
	X(shutdown, "nvmlShutdown", true, (void)) \
	X(count, "nvmlDeviceGetCount_v2", true, (unsigned *)) \
	X(handle, "nvmlDeviceGetHandleByIndex_v2", true, (unsigned, void **)) \
	X(pci, "nvmlDeviceGetPciInfo_v3", true, (void *, struct nvml_pci *)) \
	X(name, "nvmlDeviceGetName", false, (void *, char *, unsigned)) \
	X(uuid, "nvmlDeviceGetUUID", false, (void *, char *, unsigned)) \
	X(memory, "nvmlDeviceGetMemoryInfo", false, (void *, struct nvml_memory *)) \
	X(memory_numa, "nvmlDeviceGetNumaNodeId", false, (void *, unsigned *)) \
	X(link_state, "nvmlDeviceGetNvLinkState", false, (void *, unsigned, int *)) \
	X(link_pci, "nvmlDeviceGetNvLinkRemotePciInfo_v2", false, \
		(void *, unsigned, struct nvml_pci *)) \
	X(link_type, "nvmlDeviceGetNvLinkRemoteDeviceType", false, (void *, unsigned, int *))

struct nvml {
	void *library;
#define FIELD(field, symbol, required, arguments) int(*field) arguments;
	NVML_FUNCTIONS(FIELD)
#undef FIELD
};

static bool open_nvml(struct nvml *nvml, const char *path)
{
	nvml->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!nvml->library)
		return false;
#define FIND(field, symbol, required, arguments) \
	nvml->field = (int(*) arguments)dlsym(nvml->library, symbol); \
	if ((required) && !nvml->field) \
		return false;
	NVML_FUNCTIONS(FIND)
#undef FIND
	return true;
}

static bool nvml_address(uint32_t *address, struct nvml_pci *pci)
{
	pci->address[sizeof(pci->address) - 1] = '\0';
	return rd_pci_read(address, pci->address);
}

static int find_by_nvml(struct found found[RD_GPU_MAX], const struct nvml *nvml)
{
	unsigned count = 0;
	int taken = 0;

	if (nvml->count(&count))
		return 0;
	for (unsigned i = 0; i < count && taken < RD_GPU_MAX; i++) {
		struct nvml_pci pci = { 0 };
		struct found *one = &found[taken];
		if (nvml->handle(i, &one->handle) || nvml->pci(one->handle, &pci)) {
			rd_log(RD_INFO, RD_PROBE, "NVML does not tell of GPU %u: left out", i);
			continue;
		}
		one->known = nvml_address(&one->address, &pci);
		taken++;
	}
	return taken;
}

/* Returns the other end of a link: the number of a GPU, `count` for a switch, -1 for any other. */
static int link_end(
	const struct nvml *nvml, void *handle, unsigned link, const struct found *found, int count)
{
	struct nvml_pci pci = { 0 };
	uint32_t address;
	int active = 0, type = REMOTE_SWITCH;

	if (nvml->link_state(handle, link, &active) || !active)
		return -1;
	if (nvml->link_pci(handle, link, &pci) || !nvml_address(&address, &pci))
		return -1;
	for (int i = 0; i < count; i++)
		if (found[i].known && found[i].address == address)
			return i;
	/*
	 * Older drivers do not report the type. An end that is no GPU of this host then counts as a
	 * switch.
	 */
	if (nvml->link_type && nvml->link_type(handle, link, &type))
		type = REMOTE_SWITCH;
	return type == REMOTE_SWITCH ? count : -1;
}

static void take_links(
	struct rd_host *host, int index, const struct nvml *nvml, const struct found *found)
{
	struct rd_host_gpu *gpu = &host->gpus[index];

	for (unsigned link = 0; link < NVML_LINKS && nvml->link_state && nvml->link_pci; link++) {
		int end = link_end(nvml, found[index].handle, link, found, host->gpu_count);
		if (end == host->gpu_count)
			gpu->nvswitch_links++;
		else if (end >= 0)
			gpu->nvlinks[end]++;
	}
}

static void take_nvml_gpu(struct rd_host_gpu *gpu, const struct nvml *nvml, void *handle)
{
	struct nvml_memory memory = { 0 };
	unsigned numa = 0;

	if (nvml->name && nvml->name(handle, gpu->model, sizeof(gpu->model)))
		gpu->model[0] = '\0';
	if (nvml->uuid && nvml->uuid(handle, gpu->uuid, sizeof(gpu->uuid)))
		gpu->uuid[0] = '\0';
	if (nvml->memory && nvml->memory(handle, &memory) == 0)
		gpu->memory_mib = memory.total >> 20;
	if (nvml->memory_numa && nvml->memory_numa(handle, &numa) == 0 && numa <= INT32_MAX)
		gpu->memory_numa = (int)numa;
}

static bool probe_nvml(struct rd_host *host, const struct rd_probe *probe)
{
	struct nvml nvml = { 0 };
	struct found found[RD_GPU_MAX] = { 0 };
	bool there = open_nvml(&nvml, probe->nvml) && nvml.init() == 0;

	if (there) {
		host->gpu_count = find_by_nvml(found, &nvml);
		qsort(found, (size_t)host->gpu_count, sizeof(found[0]), compare_found);
		for (int i = 0; i < host->gpu_count; i++) {
			take_address(&host->gpus[i], i, probe, &found[i]);
			take_nvml_gpu(&host->gpus[i], &nvml, found[i].handle);
			take_links(host, i, &nvml, found);
		}
		nvml.shutdown();
	}
	if (nvml.library)
		dlclose(nvml.library);
	return there;
}

/* ---- CUDA's driver ---- */

struct cuda_uuid {
	unsigned char bytes[16];
};

#define CUDA_FUNCTIONS(X) \
	X(init, "cuInit", true, (unsigned)) \
	X(count, "cuDeviceGetCount", true, (int *)) \
	X(device, "cuDeviceGet", true, (int *, int)) \
	X(pci, "cuDeviceGetPCIBusId", true, (char *, int, int)) \
	X(name, "cuDeviceGetName", false, (char *, int, int)) \
	X(uuid, "cuDeviceGetUuid", false, (struct cuda_uuid *, int)) \
	X(memory, "cuDeviceTotalMem_v2", false, (size_t *, int))

struct cuda {
	void *library;
#define FIELD(field, symbol, required, arguments) int(*field) arguments;
	CUDA_FUNCTIONS(FIELD)
#undef FIELD
};

static bool open_cuda(struct cuda *cuda, const char *path)
{
	cuda->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!cuda->library)
		return false;
#define FIND(field, symbol, required, arguments) \
	cuda->field = (int(*) arguments)dlsym(cuda->library, symbol); \
	if ((required) && !cuda->field) \
		return false;
	CUDA_FUNCTIONS(FIND)
#undef FIND
	return true;
}

static int find_by_cuda(struct found found[RD_GPU_MAX], const struct cuda *cuda)
{
	int count = 0, taken = 0;

	if (cuda->count(&count))
		return 0;
	for (int i = 0; i < count && taken < RD_GPU_MAX; i++) {
		char address[32] = "";
		struct found *one = &found[taken];
		if (cuda->device(&one->ordinal, i) ||
			cuda->pci(address, sizeof(address) - 1, one->ordinal)) {
			rd_log(RD_INFO, RD_PROBE, "CUDA does not tell of GPU %d: left out", i);
			continue;
		}
		one->known = rd_pci_read(&one->address, address);
		taken++;
	}
	return taken;
}

/* In the format of NVML. */
static void uuid_text(char text[RD_NAME_SIZE], const struct cuda_uuid *uuid)
{
	int length = snprintf(text, RD_NAME_SIZE, "GPU");

	for (int i = 0; i < 16; i++)
		length += snprintf(text + length, (size_t)(RD_NAME_SIZE - length), "%s%02x",
			i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid->bytes[i]);
}

static void take_cuda_gpu(struct rd_host_gpu *gpu, const struct cuda *cuda, int ordinal)
{
	struct cuda_uuid uuid;
	size_t memory = 0;

	if (cuda->name && cuda->name(gpu->model, sizeof(gpu->model), ordinal))
		gpu->model[0] = '\0';
	if (cuda->uuid && cuda->uuid(&uuid, ordinal) == 0)
		uuid_text(gpu->uuid, &uuid);
	if (cuda->memory && cuda->memory(&memory, ordinal) == 0)
		gpu->memory_mib = memory >> 20;
}

/* The library stays loaded: a process cannot unload an initialized CUDA driver. */
static bool probe_cuda(struct rd_host *host, const struct rd_probe *probe)
{
	struct cuda cuda = { 0 };
	struct found found[RD_GPU_MAX] = { 0 };

	if (!open_cuda(&cuda, probe->cuda) || cuda.init(0)) {
		if (cuda.library)
			dlclose(cuda.library);
		return false;
	}
	host->gpus_visible_alone = true;
	host->gpu_count = find_by_cuda(found, &cuda);
	qsort(found, (size_t)host->gpu_count, sizeof(found[0]), compare_found);
	for (int i = 0; i < host->gpu_count; i++) {
		take_address(&host->gpus[i], i, probe, &found[i]);
		take_cuda_gpu(&host->gpus[i], &cuda, found[i].ordinal);
	}
	return true;
}

/* ---- Both ---- */

/* Loading NVIDIA's libraries takes long, so the driver's files decide first. */
static bool driver_is_there(const struct rd_probe *probe)
{
	return rd_sysfs_exists(probe->root, "proc/driver/nvidia/version") ||
	       rd_sysfs_exists(probe->root, "dev/nvidiactl");
}

void rd_probe_gpus(struct rd_host *host, const struct rd_probe *probe)
{
	if (!driver_is_there(probe)) {
		rd_log(RD_INFO, RD_PROBE, "no GPUs: no driver of NVIDIA's is loaded");
		return;
	}
	if (probe->nvml && probe_nvml(host, probe))
		return;
	rd_log(RD_INFO, RD_PROBE, "no NVML (%s): asking CUDA's driver, which tells no NVLinks",
		probe->nvml ? probe->nvml : "not asked");
	if (probe->cuda && probe_cuda(host, probe))
		return;
	rd_log(RD_INFO, RD_PROBE, "no GPUs: no driver of CUDA (%s)",
		probe->cuda ? probe->cuda : "not asked");
}
