/* Chakra's execution traces: collectives of one that is accepted have sizes and bounded times. */
#include "fuzz.h"
#include "plan/chakra.h"
#include "plan/chakra_node.h"

#define NODES 10000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct chakra_calls calls;
	char path[32];
	int fd = fuzz_file(data, size);
	int64_t sum_ns = 0;

	if (chakra_calls_read(&calls, fuzz_path(path, fd), NODES) == 0) {
		FUZZ_CHECK(calls.count > 0 && calls.count <= calls.nodes && calls.nodes <= NODES);
		for (int i = 0; i < calls.count; i++) {
			const struct chakra_call *call = &calls.list[i];

			FUZZ_CHECK(
				call->comm_type >= 0 && call->comm_type < CHAKRA_COMM_TYPE_COUNT);
			FUZZ_CHECK(call->comm_size >= 0);
			FUZZ_CHECK(call->gap_ns >= 0 && call->duration_ns >= 0);
			sum_ns += call->gap_ns + call->duration_ns;
			FUZZ_CHECK(sum_ns <= CHAKRA_NS_MAX);
		}
		free(calls.list);
	}
	close(fd);
	return 0;
}
