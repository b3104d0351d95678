/* Memory that lasts for a measurement. The system has it back at once: malloc() would keep what it
   once freed, and from then on take as much from the heap. */
#ifndef RD_SCRATCH_H
#define RD_SCRATCH_H

#include <sys/mman.h>

/* NULL: no memory. */
static inline void *rd_scratch_create(size_t size)
{
	void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return bytes == MAP_FAILED ? NULL : bytes;
}

static inline void rd_scratch_destroy(void *bytes, size_t size)
{
	if (bytes)
		munmap(bytes, size);
}

#endif
