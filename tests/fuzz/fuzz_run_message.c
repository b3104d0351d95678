/* The messages of rondo-run's agents: each that is accepted is encoded again, to the same. */
#include "fuzz.h"
#include "run_messages.h"

size_t fuzz_seed(int number, uint8_t bytes[FUZZ_SEED_MAX])
{
	struct message message;

	if (MESSAGE_PING + number > MESSAGE_LAST)
		return 0;
	message = longest((enum message_type)(MESSAGE_PING + number));
	return message_encode(&message, bytes);
}

static bool decoded[MESSAGE_LAST + 1]; /* those of today's version */

void fuzz_check_corpus(void)
{
	for (int type = MESSAGE_PING; type <= MESSAGE_LAST; type++)
		FUZZ_CHECK(decoded[type]);
}

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
		if (message.type != MESSAGE_HELLO || message.hello.version == MESSAGE_VERSION)
			decoded[message.type] = true;
		data += taken;
		size -= (size_t)taken;
	}
	return 0;
}
