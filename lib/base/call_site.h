/* The place of a call in the program's code, as text for people. */
#ifndef RD_CALL_SITE_H
#define RD_CALL_SITE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/hot_call.h"

#define RD_CALL_SITE_SIZE 80

/* The text that this thread has set, as a word; else the return address. */
uintptr_t rd_call_site_set(uintptr_t return_address);

/* The site of a call of this thread, as a word. */
static inline uintptr_t rd_call_site_here(uintptr_t return_address)
{
	if (__builtin_expect(
		    atomic_load_explicit(&rd_process.call_sites_set, memory_order_relaxed), false))
		return rd_call_site_set(return_address);
	return return_address;
}

/*
 * "train+0x11b8": the file of the code that holds the call with this return address, and where in
 * it. `addr2line -fe train 0x11b8` prints its function, file and line. Or the end of the text that
 * the program set. "": no address, or in no file. Neither allocates nor waits.
 */
const char *rd_call_site(uintptr_t site, char text[RD_CALL_SITE_SIZE]);

#endif
