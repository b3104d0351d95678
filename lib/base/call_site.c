#include "base/call_site.h"

#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "rondo.h"

/* A site that has this bit is the address of a text. No address of a program's has it. */
#define IS_TEXT ((uintptr_t)1 << (8 * sizeof(uintptr_t) - 1))

static _Thread_local const char *set_text;

void rondo_set_call_site(const char *site)
{
	set_text = site;
	if (site)
		atomic_store_explicit(&rd_process.call_sites_set, true, memory_order_relaxed);
}

uintptr_t rd_call_site_set(uintptr_t return_address)
{
	return set_text ? (uintptr_t)set_text | IS_TEXT : return_address;
}

struct search {
	uintptr_t address;
	char *text;
};

static bool holds(const struct dl_phdr_info *file, uintptr_t address)
{
	for (int i = 0; i < file->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &file->dlpi_phdr[i];

		if (part->p_type == PT_LOAD &&
			address - file->dlpi_addr - part->p_vaddr < part->p_memsz)
			return true;
	}
	return false;
}

static int print_if_here(struct dl_phdr_info *file, size_t size, void *argument)
{
	const struct search *search = argument;
	const char *path = file->dlpi_name, *slash;

	(void)size;
	if (!holds(file, search->address))
		return 0;
	/* Only the program itself has no name here. Its argv[0] may name another file. */
	if (!path[0] && getauxval(AT_EXECFN))
		path = (const char *)getauxval(AT_EXECFN);
	slash = strrchr(path, '/');
	snprintf(search->text, RD_CALL_SITE_SIZE, "%.50s+%#zx", slash ? slash + 1 : path,
		(size_t)(search->address - file->dlpi_addr));
	return 1;
}

/* Not by dladdr(): a constructor that runs in dlopen() holds its lock, and may make calls. */
const char *rd_call_site(uintptr_t site, char text[RD_CALL_SITE_SIZE])
{
	/* The call's own instruction ends there, and has the line. */
	struct search search = { site - 1, text };
	const char *set = (const char *)(site & ~IS_TEXT);

	text[0] = '\0';
	if (site & IS_TEXT) {
		size_t length = strlen(set), room = RD_CALL_SITE_SIZE - 1;

		snprintf(text, RD_CALL_SITE_SIZE, "%s", set + (length > room ? length - room : 0));
	} else if (site) {
		dl_iterate_phdr(print_if_here, &search);
	}
	return text;
}
