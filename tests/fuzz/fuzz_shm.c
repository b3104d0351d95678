/*
 * The packets of shm: cards, hellos and greetings with their descriptors, and notices of regions.
 * The first byte chooses which; of packets, the next is the number of descriptors to send along.
 */
#include <fcntl.h>
#include <sys/socket.h>

#include "base/settings.h"
#include "fuzz.h"
#include "transports/shm/card.h"
#include "transports/shm/region.h"
#include "transports/shm/socket.h"

#define REGION_SIZE 4096

static const struct rd_settings settings = { .channels = 1, .piece_size = 128 << 10 };

static const struct rd_shm_card own = { .name = "fuzzing" };

/* A packet begins with 1, the number of descriptors, their kind. */
size_t fuzz_seed(int number, uint8_t bytes[FUZZ_SEED_MAX])
{
	const struct rd_local peer = { .rank = 2, .size = 4, .settings = &settings };
	struct rd_shm_greeting greeting = rd_shm_greeting_to(&peer, 1, 2);
	struct rd_shm_hello hello;
	struct rd_shm_card card;

	FUZZ_CHECK(rd_shm_card_make(&card, 2) == 0);
	memset(card.name, 'n', sizeof(card.name));
	hello = rd_shm_hello_to(&card, &own, true);
	memcpy(bytes, (uint8_t[]){ number > 0, 1, 1 }, 3);
	switch (number) {
	case 0:
		memcpy(bytes + 1, &card, sizeof(card));
		return 1 + sizeof(card);
	case 1:
		memcpy(bytes + 3, &hello, sizeof(hello));
		return 3 + sizeof(hello);
	case 2:
		memcpy(bytes + 3, &greeting, sizeof(greeting));
		return 3 + sizeof(greeting);
	default:
		return 0;
	}
}

static bool decoded[4]; /* a card, a hello, a greeting, a notice */

void fuzz_check_corpus(void)
{
	FUZZ_CHECK(decoded[0] && decoded[1] && decoded[2] && decoded[3]);
}

static void read_card(struct fuzz_input *input)
{
	struct rd_shm_card card;
	struct sockaddr_un address;

	if (rd_shm_card_read(&card, input->at, input->left) == 0) {
		decoded[0] = true;
		FUZZ_CHECK(rd_shm_card_address(&card, &address) <= sizeof(address));
	}
}

/* A sealed region of one page, as a peer would offer it; or one that the peer could still cut. */
static int region_of(int kind)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	FUZZ_CHECK(fd >= 0 && ftruncate(fd, REGION_SIZE) == 0);
	if (kind & 1)
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	return fd;
}

static int ends[2];

static void send_packet(const void *bytes, size_t size, int fd_count, int kind)
{
	int fds[2] = { region_of(kind), region_of(kind >> 1) };

	rd_shm_packet_send(ends[1], bytes, size, fds, (size_t)fd_count);
	close(fds[0]);
	close(fds[1]);
}

static void read_hello(const struct rd_shm_hello *hello)
{
	struct sockaddr_un address;

	if (rd_shm_hello_valid(hello, &own)) {
		decoded[1] = true;
		FUZZ_CHECK(rd_shm_card_address(&hello->from, &address) <= sizeof(address));
	}
}

static void read_greeting(const struct rd_shm_greeting *greeting, int fd)
{
	struct rd_local local = { .rank = 1, .size = 4, .settings = &settings };

	if (rd_shm_greeting_valid(greeting, &local)) {
		decoded[2] = true;
		FUZZ_CHECK(greeting->from < 4 && greeting->slots >= 1 &&
			   (fd < 0 || rd_shm_sealed(fd, 0) == 0));
	}
}

static void read_packet(struct fuzz_input *input)
{
	union rd_shm_packet packet;
	int fds[2], count = fuzz_below(input, 3), kind = fuzz_byte(input);
	ssize_t size;

	send_packet(input->at, input->left, count, kind);
	size = rd_shm_packet_recv(ends[0], &packet, sizeof(packet), fds);
	switch (size > 0 ? rd_shm_packet_kind(&packet, (size_t)size) : RD_SHM_INVALID) {
	case RD_SHM_HELLO:
		read_hello(&packet.hello);
		break;
	case RD_SHM_GREETING:
		read_greeting(&packet.greeting, fds[0]);
		break;
	default:
		break;
	}
	rd_shm_fd_close(&fds[0]);
	rd_shm_fd_close(&fds[1]);
}

/* A region that is mapped here can be read, whatever the notice says about its size. */
static void check_region(const struct rd_shm_region *region)
{
	volatile const unsigned char *bytes = region ? region->base : NULL;

	if (!bytes)
		return;
	FUZZ_CHECK(region->size == REGION_SIZE);
	(void)bytes[0];
	(void)bytes[region->size - 1];
}

static void read_notices(struct fuzz_input *input)
{
	struct rd_shm_region *regions = NULL;

	while (input->left > 0) {
		struct rd_shm_notice sent, notice;
		int count = fuzz_below(input, 3), kind = fuzz_byte(input), fds[2];
		size_t size = fuzz_byte(input) & 1 ? sizeof(sent) : sizeof(sent) - 1;

		fuzz_take(input, &sent, sizeof(sent));
		send_packet(&sent, size, count, kind);
		ssize_t got = rd_shm_packet_recv(ends[0], &notice, sizeof(notice), fds);

		if (got > 0 && rd_shm_notice_valid(&notice, (size_t)got)) {
			decoded[3] = true;
			rd_shm_regions_update(&regions, &notice, fds[0]);
			check_region(rd_shm_region_find(regions, notice.id));
		}
		rd_shm_fd_close(&fds[0]);
		rd_shm_fd_close(&fds[1]);
	}
	rd_shm_regions_finish(&regions);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const readers[])(
		struct fuzz_input *) = { read_card, read_packet, read_notices };
	struct fuzz_input input = { data, size };
	int kind = fuzz_below(&input, 3);

	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	readers[kind](&input);
	close(ends[0]);
	close(ends[1]);
	return 0;
}
