/* The place of a call in the program's code, as text for people. */
#ifndef RD_CALL_SITE_H
#define RD_CALL_SITE_H

#include <stdint.h>

#define RD_CALL_SITE_SIZE 80

/* The site of a call of this thread, as a word: the text of rondo_set_call_site(), else the return
   address. */
uintptr_t rd_call_site_here(uintptr_t return_address);

/*
 * "train+0x11b8": the file of the code that holds the call with this return address, and where in
 * it. `addr2line -fe train 0x11b8` prints its function, file and line. Or the end of the text that
 * the program set. "": no address, or in no file. Neither allocates nor waits.
 */
const char *rd_call_site(uintptr_t site, char text[RD_CALL_SITE_SIZE]);

#endif
