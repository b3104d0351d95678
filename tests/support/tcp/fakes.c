#include "fakes.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct card card_of(const struct rank *rank)
{
	struct card card;

	cr_assert_eq(rank->card_size, sizeof(card));
	memcpy(&card, rank->card, sizeof(card));
	return card;
}

int fake_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert(fd >= 0);
	return fd;
}

struct sockaddr_in fake_address(int fd)
{
	struct sockaddr_in address;
	socklen_t size = sizeof(address);

	cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	return address;
}

int fake_peer(int fake)
{
	struct sockaddr_in address = fake_address(fake), other;

	for (int fd = 0; fd < 1024; fd++) {
		socklen_t size = sizeof(other);

		if (getpeername(fd, (struct sockaddr *)&other, &size) == 0 &&
			memcmp(&other, &address, sizeof(other)) == 0)
			return fd;
	}
	cr_assert(false, "nobody holds the other end");
	return -1;
}

int fake_bind(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int fd = fake_socket();

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

int fake_connect(const struct rank *to)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct card card = card_of(to);
	int fd = fake_socket();

	address.sin_port = htons(card.port);
	memcpy(&address.sin_addr, card.address, 4);
	cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

struct card fake_card(int fd)
{
	struct sockaddr_in address = fake_address(fd);
	struct card card = {
		.magic = 0x63646f72, .version = 8, .count = 1, .shared = 1, .family = 4
	};

	card.port = ntohs(address.sin_port);
	memcpy(card.address, &address.sin_addr, 4);
	return card;
}

struct hello fake_hello(const struct rank *to, int from)
{
	struct hello hello = { .magic = 0x68646f72, .version = 8, .from = from, .comm_id = COMM };

	hello.to = to->local.rank;
	memcpy(hello.key, to->local.key, sizeof(hello.key));
	return hello;
}

void fake_write(int fd, const void *bytes, size_t size)
{
	cr_assert_eq(send(fd, bytes, size, MSG_NOSIGNAL), (ssize_t)size, "%m");
}

void fake_read(int fd, struct rank *rank, void *bytes, size_t size)
{
	size_t have = 0;
	ssize_t got;

	while (have < size) {
		AWAIT((got = recv(fd, (char *)bytes + have, size - have, MSG_DONTWAIT)) >= 0,
			rank_advance(rank));
		cr_assert(got > 0, "the connection was closed");
		have += (size_t)got;
	}
}

void fake_is_rejected(int fd, struct rank *rank)
{
	char byte;
	ssize_t got;

	AWAIT((got = recv(fd, &byte, 1, MSG_DONTWAIT)) >= 0 || errno == ECONNRESET,
		rank_advance(rank));
	cr_assert(got <= 0, "a foreign connection was answered");
	close(fd);
}

size_t fake_message(unsigned char *bytes, unsigned number, unsigned key, size_t size)
{
	struct header header = { (uint32_t)size, 0x6f640000u + (number & 0xffff), tag_of(key) };

	memcpy(bytes, &header, sizeof(header));
	fill_bytes(bytes + sizeof(header), size, key);
	return sizeof(header) + size;
}

void staged_open(struct staged *staged)
{
	struct hello hello, answer;
	struct card card;

	cr_assert_eq(rank_listen(&staged->rank, 0, "127.0.0.1", ""), 0, "%s", rondo_last_error());
	staged->listener = fake_bind();
	card = fake_card(staged->listener);
	rank_open(&staged->rank, 1, &card, sizeof(card));
	staged->fd = fake_connect(&staged->rank);
	hello = fake_hello(&staged->rank, 1);
	fake_write(staged->fd, &hello, sizeof(hello));
	fake_read(staged->fd, &staged->rank, &answer, sizeof(answer));
	cr_assert_eq(answer.from, 0);
	cr_assert_eq(answer.to, 1);
	cr_assert(memcmp(answer.key, hello.key, sizeof(hello.key)) == 0, "proves who answers");
	cr_assert(staged->rank.link->ready);
}

void staged_close(struct staged *staged)
{
	rank_close(&staged->rank);
	close(staged->listener);
	close(staged->fd);
}

void staged_fails(struct staged *staged, int error, const char *reason)
{
	struct rd_link *link = staged->rank.link;

	AWAIT(link->error, rank_advance(&staged->rank));
	cr_assert_eq(link->error, error, "%s", rondo_error_name(link->error));
	cr_assert_str_eq(link->reason, reason);
	cr_assert(!rank_has_message(&staged->rank));
	cr_assert_null(link->ops->reserve(link, 8));
}

void staged_recv_fails(struct staged *staged, int error, const char *reason)
{
	AWAIT(staged->rank.link->error, cr_assert(!rank_has_message(&staged->rank)));
	staged_fails(staged, error, reason);
}

void staged_reset(struct staged *staged)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(staged->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(staged->fd);
	staged->fd = -1;
}
