/*
 * The bytes of a connection with a secret. The first byte chooses:
 *
 *   - a peer that has no key: its bytes go to an end that accepts, or to one that connects;
 *   - two ends that have the key, and between them a network that cuts, changes, adds, repeats and
 *     drops bytes: of the handshake, of records behind it, or of plain bytes (RONDO_ENCRYPT=0).
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "fuzz.h"
#include "net/wire.h"

#include <openssl/rand.h>

/* Before its proof, no more of a peer's bytes are read. */
#define UNPROVED_MAX 4096
/* More than a record holds. */
#define STREAM_MAX 18000
#define PART_MAX STREAM_MAX
#define STEPS_MAX 400

static const unsigned char psk[RD_PSK_SIZE] = "the job's key";

/* ---- Numbers that are the same in each run -------------------------------------------------- */

static uint64_t drawn;

static int draw_bytes(unsigned char *into, int size)
{
	for (int i = 0; i < size; i++) {
		drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		into[i] = (unsigned char)(drawn >> 56);
	}
	return 1;
}

static int is_seeded(void)
{
	return 1;
}

/* With OpenSSL's own numbers, a crash could not be repeated. Each kind of input has others: bytes
   recorded in one are no proof in another. */
static void fix_numbers(uint64_t seed)
{
	static const RAND_METHOD method = {
		.bytes = draw_bytes, .pseudorand = draw_bytes, .status = is_seeded
	};
	static bool fixed;

	drawn = seed;
	if (fixed)
		return;
	fixed = true;
	void *library = dlopen(
		OPENSSL_VERSION_NUMBER >= 0x30000000L ? "libcrypto.so.3" : "libcrypto.so.1.1",
		RTLD_NOW);
	int (*use)(const RAND_METHOD *) = NULL;

	if (library)
		*(void **)&use = dlsym(library, "RAND_set_rand_method");
	FUZZ_CHECK(use && use(&method) == 1);
}

/* ---- Sockets -------------------------------------------------------------------------------- */

static void open_pair(int ends[2])
{
	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
}

static size_t unread(int fd)
{
	int left = 0;

	FUZZ_CHECK(ioctl(fd, FIONREAD, &left) == 0);
	return (size_t)left;
}

/* ---- A peer without the key ----------------------------------------------------------------- */

static void meet_foreign(struct fuzz_input *input, bool accepts)
{
	struct rd_wire wire = RD_WIRE(-1);
	size_t part = 1 + 16 * (size_t)fuzz_byte(input), sent = 0;
	int ends[2], result;
	bool ended = false;

	open_pair(ends);
	wire.fd = ends[0];
	FUZZ_CHECK(rd_wire_secure(&wire, accepts, psk) == 0 && !rd_tls_has_shown_key(wire.tls));
	do {
		size_t now = part < input->left ? part : input->left;

		ended = now == 0;
		if (ended)
			shutdown(ends[1], SHUT_WR);
		else
			FUZZ_CHECK(send(ends[1], input->at, now, MSG_NOSIGNAL) == (ssize_t)now);
		input->at += now;
		input->left -= now;
		sent += now;
		result = rd_wire_prove(&wire);
		FUZZ_CHECK(result <= 0 && !wire.keyed);
		FUZZ_CHECK(result < 0 || sent - unread(ends[0]) <= UNPROVED_MAX);
		rd_tls_has_shown_key(wire.tls);
	} while (result == 0 && !ended);
	FUZZ_CHECK(result < 0);
	rd_wire_close(&wire);
	close(ends[1]);
}

/* ---- Two ends with the key ------------------------------------------------------------------ */

/* An end, and the network's socket at it. Each end sends STREAM_MAX bytes of its own pattern. */
struct end {
	struct rd_wire wire;
	int network;
	bool proved, failed;
	size_t sent, received;
};

static struct end two[2];
static bool encrypts, touched;
static unsigned char stream[2][STREAM_MAX];

static void advance_proof(struct end *end)
{
	int result = end->failed || end->proved ? 0 : rd_wire_prove(&end->wire);

	end->failed |= result < 0;
	if (result <= 0)
		return;
	end->proved = true;
	if (!encrypts)
		rd_wire_strip(&end->wire);
}

static void send_part(struct end *end, size_t most)
{
	const unsigned char *from = stream[end - two] + end->sent;
	size_t left = STREAM_MAX - end->sent, size = most < left ? most : left;
	/* In two parts, as a header and a payload are. */
	struct iovec parts[2] = { { (void *)from, size / 3 },
		{ (void *)(from + size / 3), size - size / 3 } };
	ssize_t took = size > 0 ? rd_wire_send(&end->wire, parts, 2) : 0;

	if (took > 0)
		end->sent += (size_t)took;
	FUZZ_CHECK(end->sent <= STREAM_MAX);
	end->failed |= took < 0 && errno != EAGAIN;
}

/* Encrypted bytes are the peer's, in their order, or none at all. */
static void receive_part(struct end *end, size_t most)
{
	static unsigned char bytes[PART_MAX];
	struct iovec parts[2] = { { bytes, most / 2 }, { bytes + most / 2, most - most / 2 } };
	ssize_t peeked = rd_wire_peek(&end->wire), got = rd_wire_recv(&end->wire, parts, 2);

	FUZZ_CHECK(got <= (ssize_t)most && (peeked <= 0 || got > 0));
	end->failed |= got == 0 || (got < 0 && errno != EAGAIN);
	if (got <= 0)
		return;
	if (encrypts || !touched) {
		FUZZ_CHECK(end->received + (size_t)got <= STREAM_MAX);
		FUZZ_CHECK(memcmp(bytes, stream[!(end - two)] + end->received, (size_t)got) == 0);
	}
	end->received += (size_t)got;
}

/* An error stays one. */
static void advance(struct end *end, size_t most)
{
	advance_proof(end);
	if (end->failed || !end->proved)
		return;
	send_part(end, most);
	if (!end->failed)
		receive_part(end, most);
}

static void put(int network, const unsigned char *bytes, size_t size)
{
	/* A network may lose what there is no room for, but these ends then wait. */
	touched |= size > 0 && send(network, bytes, size, MSG_NOSIGNAL) != (ssize_t)size;
}

enum { PASS, CUT, FLIP, ADD, REPEAT, DROP, END, DEEDS };

/* Bytes that go from one end to the other, and a misdeed of the network. */
static void carry(struct fuzz_input *input, const struct end *from, const struct end *to, int deed,
	size_t most)
{
	static unsigned char bytes[PART_MAX];
	ssize_t got = recv(from->network, bytes, most, 0);
	size_t size = got > 0 ? (size_t)got : 0, at = 0;
	unsigned char added[8];
	uint16_t where = 0;

	if (deed > CUT)
		fuzz_take(input, &where, sizeof(where));
	at = size ? where % size : 0;
	touched |= deed > CUT;
	if (deed == FLIP && size > 0)
		bytes[at] ^= (unsigned char)(1 << fuzz_below(input, 8));
	if (deed == ADD) {
		fuzz_take(input, added, sizeof(added));
		put(to->network, bytes, at);
		put(to->network, added, sizeof(added));
		put(to->network, bytes + at, size - at);
	} else if (deed != DROP) {
		put(to->network, bytes, size);
	}
	if (deed == REPEAT)
		put(to->network, bytes + at, size - at);
	if (deed == END)
		shutdown(to->network, SHUT_WR);
}

static bool is_over(const struct end *end)
{
	return end->failed || (end->sent == STREAM_MAX && end->received >= STREAM_MAX);
}

/* The network has stopped its misdeeds: what may come now comes. */
static void settle(struct fuzz_input *input)
{
	for (int i = 0; i < STEPS_MAX && !(is_over(&two[0]) && is_over(&two[1])); i++)
		for (int side = 0; side < 2; side++) {
			advance(&two[side], PART_MAX);
			carry(input, &two[side], &two[!side], PASS, PART_MAX);
		}
	for (int side = 0; side < 2 && !touched; side++)
		FUZZ_CHECK(two[side].proved && !two[side].failed && is_over(&two[side]));
}

static void meet_peer(struct fuzz_input *input, bool with_encryption)
{
	encrypts = with_encryption;
	touched = false;
	for (int side = 0; side < 2; side++) {
		int ends[2];

		open_pair(ends);
		two[side] = (struct end){ RD_WIRE(ends[0]), ends[1], false, false, 0, 0 };
		FUZZ_CHECK(rd_wire_secure(&two[side].wire, side == 1, psk) == 0);
		for (int i = 0; i < STREAM_MAX; i++)
			stream[side][i] = (unsigned char)(i * 7 + (i >> 8) + side);
	}
	for (int i = 0; i < STEPS_MAX && input->left > 0; i++) {
		int byte = fuzz_byte(input), side = byte & 1, deed = byte >> 1 & 7;
		size_t most = 1 + 8 * (size_t)fuzz_byte(input) * (byte >> 4 & 7 ? 1 : 8);

		advance(&two[side], most);
		carry(input, &two[side], &two[!side], deed < DEEDS ? deed : PASS,
			deed == CUT ? 1 + most % 7 : most);
	}
	settle(input);
	for (int side = 0; side < 2; side++) {
		rd_wire_close(&two[side].wire);
		close(two[side].network);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, size };
	int kind = fuzz_below(&input, 4);

	if (rd_tls_load())
		return 0;
	fix_numbers((uint64_t)kind);
	if (kind < 2)
		meet_foreign(&input, kind);
	else
		meet_peer(&input, kind == 2);
	return 0;
}
