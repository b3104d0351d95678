#include "topo/pci.h"

#include <stdio.h>
#include <string.h>

/*
 * Reads exactly `digits` hexadecimal digits. Returns the rest of the text; NULL if there are fewer.
 */
static const char *read_hex(uint32_t *value, const char *text, int digits)
{
	*value = 0;
	for (; digits > 0; digits--, text++) {
		char c = *text;
		if (c >= '0' && c <= '9')
			*value = *value << 4 | (uint32_t)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			*value = *value << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
		else
			return NULL;
	}
	return text;
}

/* Reads a domain (eight digits in NVML, else four) and a bus; *value is domain << 16 | bus << 8. */
static const char *read_bus(uint32_t *value, const char *text)
{
	uint32_t domain, bus;
	const char *at = read_hex(&domain, text, 4);

	if (at && *at != ':')
		at = read_hex(&domain, text, 8);
	if (!at || *at++ != ':' || domain > 0xffff)
		return NULL;
	at = read_hex(&bus, at, 2);
	*value = domain << 16 | bus << 8;
	return at;
}

static const char *read_address(uint32_t *address, const char *text)
{
	uint32_t bus, device, function;
	const char *at = read_bus(&bus, text);

	if (!at || *at++ != ':')
		return NULL;
	at = read_hex(&device, at, 2);
	if (!at || *at++ != '.')
		return NULL;
	at = read_hex(&function, at, 1);
	if (!at || device > 31 || function > 7)
		return NULL;
	*address = bus | device << 3 | function;
	return at;
}

bool rd_pci_read(uint32_t *address, const char *text)
{
	const char *end = read_address(address, text);

	return end && !*end;
}

void rd_pci_text(char text[RD_PCI_TEXT_SIZE], uint32_t address)
{
	snprintf(text, RD_PCI_TEXT_SIZE, "%04x:%02x:%02x.%x", address >> 16, address >> 8 & 0xff,
		address >> 3 & 0x1f, address & 7);
}

/* Reads the next "/0000:3b:00.0". Returns the rest; NULL for any other text. */
static const char *read_hop(uint32_t *address, const char *text)
{
	const char *end = *text == '/' ? read_address(address, text + 1) : NULL;

	return end && (!*end || *end == '/') ? end : NULL;
}

bool rd_pci_path_read(struct rd_pci_path *path, const char *text, const char **rest)
{
	const char *at = strncmp(text, "pci", 3) ? NULL : read_bus(&path->root, text + 3);
	uint32_t address;

	path->known = false;
	path->bridge_count = 0;
	at = at ? read_hop(&path->address, at) : NULL;
	for (const char *next = at; next && (next = read_hop(&address, next)); at = next) {
		if (path->bridge_count == RD_BRIDGE_MAX)
			return false;
		path->bridges[path->bridge_count++] = path->address;
		path->address = address;
	}
	path->known = at;
	if (rest)
		*rest = at;
	return path->known;
}

void rd_pci_path_text(const struct rd_pci_path *path, char text[RD_PCI_PATH_TEXT_SIZE])
{
	char hop[RD_PCI_TEXT_SIZE];
	int length = snprintf(text, RD_PCI_PATH_TEXT_SIZE, "pci%04x:%02x", path->root >> 16,
		path->root >> 8 & 0xff);

	for (int i = 0; i <= path->bridge_count; i++) {
		rd_pci_text(hop, i < path->bridge_count ? path->bridges[i] : path->address);
		length +=
			snprintf(text + length, RD_PCI_PATH_TEXT_SIZE - (size_t)length, "/%s", hop);
	}
}

_Static_assert(RD_PCI_PATH_TEXT_SIZE > 10 + (RD_BRIDGE_MAX + 1) * 13, "every path fits");

bool rd_pci_same_root(const struct rd_pci_path *a, const struct rd_pci_path *b)
{
	return a->known && b->known && a->root == b->root;
}

/*
 * A switch has a bridge upwards, and one downwards to each device. If each device lies behind at
 * most one bridge below the nearest common bridge, one switch joins them. Otherwise several do.
 */
int rd_pci_bridges_between(const struct rd_pci_path *a, const struct rd_pci_path *b)
{
	int common = 0;

	while (common < a->bridge_count && common < b->bridge_count &&
		a->bridges[common] == b->bridges[common])
		common++;
	if (common == 0 || !rd_pci_same_root(a, b))
		return 0;
	int below_a = a->bridge_count - common, below_b = b->bridge_count - common;
	int deepest = below_a > below_b ? below_a : below_b;
	return deepest <= 1 ? 1 : deepest;
}
