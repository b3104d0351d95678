/* Programs of MSCCL, in XML. */
#include "msccl_again.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_msccl_again(msccl_parse, data, size);
	return 0;
}
