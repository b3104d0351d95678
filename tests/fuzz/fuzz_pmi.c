/*
 * The answers of a PMI process manager. The first byte chooses whether this process puts the
 * address or only gets it; all others are in the socket before the first question.
 */
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "bootstrap/address_card.h"
#include "bootstrap/pmi.h"
#include "fuzz.h"

#define TIMEOUT_MS 5000

static const char mine[] = "192.0.2.1/45123/00c0ffee00c0ffee00c0ffee00c0ffee";

/* The bytes of that many lines; all of them, where there are fewer lines. */
static size_t size_of_lines(const struct fuzz_input *input, int lines)
{
	size_t size = 0;

	for (; size < input->left && lines > 0; size++)
		lines -= input->at[size] == '\n';
	return size;
}

static size_t unread(int fd)
{
	int left = 0;

	FUZZ_CHECK(ioctl(fd, FIONREAD, &left) == 0);
	return (size_t)left;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, size };
	bool puts = fuzz_byte(&input) & 1;
	struct rd_pmi_conversation with = { .timeout_ms = TIMEOUT_MS };
	struct rd_address_card card;
	char *text = malloc(RD_ADDRESS_CARD_TEXT), printed[RD_ADDRESS_CARD_TEXT];
	int ends[2];

	FUZZ_CHECK(text && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	FUZZ_CHECK(send(ends[1], input.at, input.left, 0) == (ssize_t)input.left);
	shutdown(ends[1], SHUT_WR);
	with.fd = ends[0];
	with.deadline_ms = rd_clock_ms() + TIMEOUT_MS;
	if (rd_pmi_exchange(&with, puts ? mine : NULL, text) == 0) {
		/* Bytes behind the last answer may be for the program's MPI library. */
		FUZZ_CHECK(input.left - unread(ends[0]) == size_of_lines(&input, puts ? 4 : 3));
		FUZZ_CHECK(strnlen(text, RD_ADDRESS_CARD_TEXT) < RD_ADDRESS_CARD_TEXT);
		if (rd_address_card_read(&card, text) == 0) {
			rd_address_card_print(printed, &card);
			FUZZ_CHECK(rd_address_card_read(&card, printed) == 0);
		}
	}
	close(ends[0]);
	close(ends[1]);
	free(text);
	return 0;
}
