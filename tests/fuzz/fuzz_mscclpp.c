/* Execution plans of MSCCL++, in JSON. */
#include "msccl_again.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_msccl_again(mscclpp_parse, data, size);
	return 0;
}
