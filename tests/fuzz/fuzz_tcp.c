/*
 * The bytes of tcp: cards, hellos, and the messages of a stream. The first byte chooses which. A
 * stream's input is a number of bytes to receive at once, and then the bytes of the peer.
 */
#include <netinet/in.h>
#include <sys/socket.h>

#include "fuzz.h"
#include "transports/tcp/card.h"
#include "transports/tcp/stream.h"

#define LONG_MAX 8192
#define SHORT_MAX 512

static size_t seed_card(uint8_t *bytes)
{
	const struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(29500) };
	const struct rd_place place = { .host_id = "host" };
	struct sockaddr_storage storage = { 0 };
	struct rd_tcp_card card;

	memcpy(&storage, &address, sizeof(address));
	rd_tcp_card_init(&card, &place);
	rd_tcp_card_add(&card, &storage);
	card.shared = 1;
	memcpy(bytes, &card, sizeof(card));
	return sizeof(card);
}

size_t fuzz_seed(int number, uint8_t bytes[FUZZ_SEED_MAX])
{
	const struct rd_tcp_hello hello = {
		.magic = RD_TCP_HELLO_MAGIC, .version = RD_TCP_VERSION, .to = 1, .channel = 2
	};

	bytes[0] = (uint8_t)number;
	if (number == 0)
		return 1 + seed_card(bytes + 1);
	memcpy(bytes + 1, &hello, sizeof(hello));
	return number == 1 ? 1 + sizeof(hello) : 0;
}

static bool decoded[3]; /* a card, a hello, a message of a stream */

void fuzz_check_corpus(void)
{
	FUZZ_CHECK(decoded[0] && decoded[1] && decoded[2]);
}

static void read_card(struct fuzz_input *input)
{
	struct rd_tcp_card card;
	struct sockaddr_storage address;

	if (rd_tcp_card_read(&card, input->at, input->left, 1))
		return;
	decoded[0] = true;
	FUZZ_CHECK(card.shared >= 1 && card.shared <= card.count);
	FUZZ_CHECK(card.count <= RD_TCP_ADDRESSES_MAX);
	for (int i = 0; i < card.count; i++)
		rd_tcp_card_address(&card, i, "lo", &address);
}

static void read_hello(struct fuzz_input *input)
{
	struct rd_local local = { .rank = 1, .size = 4 };
	struct rd_tcp_hello hello;

	fuzz_take(input, &hello, sizeof(hello));
	if (!rd_tcp_hello_valid(&hello) || !rd_tcp_hello_fits(&hello, &local))
		return;
	decoded[1] = true;
	FUZZ_CHECK(hello.from >= 0 && hello.from < local.size && hello.to == local.rank);
	FUZZ_CHECK(hello.channel >= 0 && hello.channel < RD_TCP_CHANNELS_MAX);
}

/* Reads each byte of a message: a sanitizer checks the bounds. */
static unsigned touch(const struct rd_message *message)
{
	const unsigned char *bytes = message->data;
	unsigned sum = 0;

	for (size_t i = 0; i < message->size; i++)
		sum += bytes[i];
	return sum;
}

/* The peer's bytes arrive in parts; between them the rank receives, in place or elsewhere. */
static void read_stream(struct fuzz_input *input)
{
	struct rd_tcp_stream stream;
	size_t part = 1 + 64 * (size_t)fuzz_byte(input), expected = 32 * (size_t)fuzz_byte(input);
	int kind = fuzz_byte(input);
	bool lands = kind & 1;
	struct rd_link link = { .message_max = kind & 2 ? SHORT_MAX : LONG_MAX };
	struct rd_settings settings = { .checksum = (kind & 4) != 0 };
	struct rd_local local = { .settings = &settings };
	char *into = malloc(expected + 1);
	unsigned sum = 0;
	int ends[2];

	FUZZ_CHECK(into &&
		   socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
	FUZZ_CHECK(
		rd_tcp_stream_init(&stream, &(struct rd_wire)RD_WIRE(ends[0]), &link, &local) == 0);
	while (!link.error) {
		size_t now = part < input->left ? part : input->left;
		struct rd_message message;

		if (now == 0)
			shutdown(ends[1], SHUT_WR);
		else if (send(ends[1], input->at, now, MSG_NOSIGNAL) != (ssize_t)now)
			break;
		input->at += now;
		input->left -= now;
		if (!lands)
			rd_tcp_stream_read_ahead(&stream);
		while (!link.error &&
			rd_tcp_stream_recv(&stream, lands ? into : NULL, expected, &message)) {
			FUZZ_CHECK(message.size <= link.message_max);
			decoded[2] = true;
			sum += touch(&message);
			rd_tcp_stream_release(&stream);
		}
		rd_tcp_stream_check(&stream);
		/* The peer has ended: each end is an error. */
		FUZZ_CHECK(now > 0 || link.error);
	}
	FUZZ_CHECK(sum + 1 > 0 || link.error);
	rd_tcp_stream_finish(&stream);
	close(ends[1]);
	free(into);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, size };
	static void (*const readers[])(
		struct fuzz_input *) = { read_card, read_hello, read_stream };

	readers[fuzz_below(&input, 3)](&input);
	return 0;
}
