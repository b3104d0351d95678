/* The messages of rondo-run's agents: each that is accepted is encoded again, to the same. */
#include "fuzz.h"
#include "run/nodes/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct message message, again;
	static unsigned char first[MESSAGE_MAX], second[MESSAGE_MAX];
	long taken;

	while (size > 0 && (taken = message_decode(&message, data, size)) > 0) {
		size_t encoded;

		FUZZ_CHECK((size_t)taken <= size);
		encoded = message_encode(&message, first);
		FUZZ_CHECK(encoded <= MESSAGE_MAX);
		FUZZ_CHECK(message_decode(&again, first, encoded) == (long)encoded);
		FUZZ_CHECK(message_encode(&again, second) == encoded);
		FUZZ_CHECK(memcmp(first, second, encoded) == 0);
		data += taken;
		size -= (size_t)taken;
	}
	return 0;
}
