/* Position of a device in the PCI tree: addresses, bridges above it, and distance to another. */
#ifndef RD_PCI_H
#define RD_PCI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RD_BRIDGE_MAX 16
#define RD_PCI_TEXT_SIZE 16
#define RD_PCI_PATH_TEXT_SIZE 256

/*
 * The path from a host bridge to a device. An address is domain << 16 | bus << 8 | device << 3 |
 * function.
 */
struct rd_pci_path {
	bool known;
	uint32_t root; /* the bus below the host bridge: "pci0000:17" is 0x1700 */
	int bridge_count;
	uint32_t bridges[RD_BRIDGE_MAX]; /* from the root port down */
	uint32_t address; /* of the device itself */
};

/*
 * Reads "0000:3b:00.0", in digits of either case. False for any other text, or a domain of more
 * than 16 bits.
 */
bool rd_pci_read(uint32_t *address, const char *text);
void rd_pci_text(char text[RD_PCI_TEXT_SIZE], uint32_t address);

/*
 * Reads "pci0000:17/0000:17:00.0/0000:18:00.0", in the format of sysfs, up to the last address.
 * *rest (may be NULL) is the rest of the text. Returns path->known: false where the text is no
 * path, or has more than RD_BRIDGE_MAX bridges.
 */
bool rd_pci_path_read(struct rd_pci_path *path, const char *text, const char **rest);
void rd_pci_path_text(const struct rd_pci_path *path, char text[RD_PCI_PATH_TEXT_SIZE]);

/* Returns whether both paths are known and begin at one host bridge. */
bool rd_pci_same_root(const struct rd_pci_path *a, const struct rd_pci_path *b);

/*
 * Returns the number of PCIe bridges and switches between two devices of one host bridge. 1: one
 * bridge or one switch joins them. 0: the host bridge alone joins them.
 */
int rd_pci_bridges_between(const struct rd_pci_path *a, const struct rd_pci_path *b);

#endif
