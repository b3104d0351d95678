#include "topo/probes.h"

#include "topo/sysfs.h"

void rd_probe_device(struct rd_device *device, const struct rd_probe *probe, const char *path)
{
	char address[RD_PCI_TEXT_SIZE];

	device->numa = -1;
	if (!rd_pci_path_read(&device->path, path, NULL))
		return;
	rd_pci_text(address, device->path.address);
	device->numa =
		(int)rd_sysfs_number(-1, probe->root, "sys/bus/pci/devices/%s/numa_node", address);
}
