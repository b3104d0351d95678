/* Short texts of one line: lists of hosts and of CPUs, places of devices, address cards. The
   first byte chooses which. */
#include "base/environment.h"
#include "base/launch/slurm.h"
#include "bootstrap/address_card.h"
#include "fuzz.h"
#include "run/hosts/list.h"
#include "topo/cpus.h"
#include "topo/pci.h"

static void read_cpus(const char *text)
{
	struct rd_cpus cpus, again;
	char *written = malloc(RD_CPUS_TEXT_SIZE);

	FUZZ_CHECK(written);
	if (rd_cpus_read(&cpus, text)) {
		rd_cpus_text(&cpus, written, RD_CPUS_TEXT_SIZE);
		FUZZ_CHECK(rd_cpus_read(&again, written));
		FUZZ_CHECK(memcmp(&cpus, &again, sizeof(cpus)) == 0);
	}
	free(written);
}

static void read_pci(const char *text)
{
	struct rd_pci_path path, again;
	char written[RD_PCI_PATH_TEXT_SIZE];
	uint32_t address;
	const char *rest;

	if (rd_pci_read(&address, text)) {
		rd_pci_text(written, address);
		FUZZ_CHECK(rd_pci_read(&address, written));
	}
	if (!rd_pci_path_read(&path, text, &rest))
		return;
	FUZZ_CHECK(rest >= text && rest <= text + strlen(text));
	FUZZ_CHECK(path.bridge_count >= 0 && path.bridge_count <= RD_BRIDGE_MAX);
	rd_pci_path_text(&path, written);
	FUZZ_CHECK(rd_pci_path_read(&again, written, NULL));
	FUZZ_CHECK(again.address == path.address && again.bridge_count == path.bridge_count);
}

static void read_slurm(const char *text)
{
	char host[64];
	int tasks;

	if (rd_slurm_first_host(host, sizeof(host), text)) {
		FUZZ_CHECK(strnlen(host, sizeof(host)) < sizeof(host));
		/* Names without brackets or commas are one host each. */
		if (strcmp(host, text) == 0)
			FUZZ_CHECK(rd_slurm_has_host(text, host));
	}
	rd_slurm_has_host(text, "node07");
	if (rd_slurm_tasks_on_node(&tasks, text, 3))
		FUZZ_CHECK(tasks >= 1 && tasks <= 65536);
}

static void read_address_card(const char *text)
{
	struct rd_address_card card;
	char written[RD_ADDRESS_CARD_TEXT];

	if (rd_address_card_read(&card, text))
		return;
	FUZZ_CHECK(card.port > 0 && card.port <= 65535);
	rd_address_card_print(written, &card);
	FUZZ_CHECK(rd_address_card_read(&card, written) == 0);
}

static void read_hosts(const char *text)
{
	struct host_list list;

	if (!host_list_read(&list, text))
		for (int i = 0; i < list.count; i++)
			FUZZ_CHECK(list.hosts[i].name && list.hosts[i].local_size >= 0);
	host_list_finish(&list);
}

static void read_number(const char *text)
{
	int64_t number;
	char quote[41];
	const char *end = rd_read_number(&number, text);

	FUZZ_CHECK(!end || (end > text && end <= text + strlen(text)));
	FUZZ_CHECK(strlen(rd_quotable(quote, text)) < sizeof(quote));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const readers[])(const char *) = { read_cpus, read_pci, read_slurm,
		read_address_card, read_hosts, read_number };

	if (size == 0)
		return 0;
	char *text = fuzz_text(data + 1, size - 1);

	readers[data[0] % (sizeof(readers) / sizeof(*readers))](text);
	free(text);
	return 0;
}
