#include "bootstrap/control_message.h"

#include <stdbool.h>
#include <string.h>

#include "base/environment.h"
#include "plan/collective.h"

#define HEAD_SIZE 8
#define PAYLOAD_MAX (RD_FRAME_MAX - HEAD_SIZE)

static const unsigned char magic[4] = "RNDO";

_Static_assert(PAYLOAD_MAX >= 32 + 2 + RD_STRING_MAX + sizeof(struct rd_member) + 256,
	"the largest message, HELLO, fits a frame");

/* One walk over the fields serves both ways, so that they cannot disagree. */
struct cursor {
	bool writing;
	bool bad;
	unsigned char *out;
	const unsigned char *in;
	size_t left;
};

static bool cursor_has(struct cursor *at, size_t size)
{
	if (at->left < size)
		at->bad = true;
	return !at->bad;
}

static void walk_bytes(struct cursor *at, void *bytes, size_t size)
{
	if (!cursor_has(at, size))
		return;
	if (at->writing) {
		memcpy(at->out, bytes, size);
		at->out += size;
	} else {
		memcpy(bytes, at->in, size);
		at->in += size;
	}
	at->left -= size;
}

static uint64_t walk_number(struct cursor *at, uint64_t value, size_t size)
{
	unsigned char bytes[8] = { 0 };

	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(value >> (8 * i));
	walk_bytes(at, bytes, size);
	value = 0;
	for (size_t i = 0; i < size; i++)
		value |= (uint64_t)bytes[i] << (8 * i);
	return at->bad ? 0 : value;
}

static void walk_u16(struct cursor *at, uint16_t *value)
{
	*value = (uint16_t)walk_number(at, *value, 2);
}

static void walk_u32(struct cursor *at, uint32_t *value)
{
	*value = (uint32_t)walk_number(at, *value, 4);
}

static void walk_u64(struct cursor *at, uint64_t *value)
{
	*value = walk_number(at, *value, 8);
}

static void walk_i32(struct cursor *at, int32_t *value, int32_t least, int32_t most)
{
	*value = (int32_t)(uint32_t)walk_number(at, (uint32_t)*value, 4);
	if (*value < least || *value > most)
		at->bad = true;
}

static void walk_text(struct cursor *at, char *text, size_t capacity)
{
	uint16_t length = at->writing ? (uint16_t)strnlen(text, capacity - 1) : 0;

	walk_u16(at, &length);
	if (length >= capacity)
		at->bad = true;
	if (!cursor_has(at, length))
		return;
	walk_bytes(at, text, length);
	if (at->writing)
		return;
	text[length] = '\0';
	rd_disarm(text, length);
}

static void walk_place(struct cursor *at, struct rd_place *place)
{
	walk_text(at, place->host_name, sizeof(place->host_name));
	walk_text(at, place->host_id, sizeof(place->host_id));
	walk_i32(at, &place->pid, 0, INT32_MAX);
	walk_u32(at, &place->pid_space);
	walk_u32(at, &place->uid);
	walk_i32(at, &place->numa_node, -1, INT32_MAX);
	walk_i32(at, &place->core, -1, INT32_MAX);
	walk_i32(at, &place->slot, 0, INT32_MAX);
	walk_i32(at, &place->gpu, -1, INT32_MAX);
	walk_u32(at, &place->gpu_pci);
	walk_i32(at, &place->device, -1, INT32_MAX);
	walk_u32(at, &place->device_pci);
	walk_text(at, place->nic, sizeof(place->nic));
}

static void walk_card(struct cursor *at, struct rd_card *card)
{
	walk_text(at, card->transport, sizeof(card->transport));
	walk_u16(at, &card->size);
	if (card->transport[0] == '\0' || card->size > sizeof(card->bytes))
		at->bad = true;
	if (cursor_has(at, card->size))
		walk_bytes(at, card->bytes, card->size);
}

static int count_cards(const struct rd_card *cards)
{
	int count = 0;

	while (count < RD_TRANSPORTS_MAX && cards[count].transport[0] != '\0')
		count++;
	return count;
}

static void walk_rank(struct cursor *at, int32_t *rank, int32_t least)
{
	walk_i32(at, rank, least, RD_SIZE_MAX - 1);
}

static void walk_port(struct cursor *at, uint32_t *port)
{
	walk_u32(at, port);
	if (*port > UINT16_MAX)
		at->bad = true;
}

static void walk_member(struct cursor *at, struct rd_member *member)
{
	unsigned count;

	walk_place(at, &member->place);
	walk_rank(at, &member->lineage.origin, 0);
	walk_text(at, member->lineage.address, sizeof(member->lineage.address));
	walk_port(at, &member->lineage.port);
	count = (unsigned)walk_number(
		at, at->writing ? (uint64_t)count_cards(member->cards) : 0, 1);
	if (count > RD_TRANSPORTS_MAX)
		at->bad = true;
	for (unsigned i = 0; i < count && !at->bad; i++)
		walk_card(at, &member->cards[i]);
}

static void walk_limits(struct cursor *at, struct rd_link_limits *limits)
{
	uint64_t maps;

	walk_u64(at, &limits->piece_size);
	maps = walk_number(at, limits->maps, 1);
	if (maps > 1)
		at->bad = true;
	limits->maps = maps;
	walk_u32(at, &limits->near_rails);
	walk_u32(at, &limits->far_rails);
	if (limits->near_rails == 0 || limits->far_rails == 0)
		at->bad = true;
}

static void walk_error(struct cursor *at, int32_t *error)
{
	walk_i32(at, error, -128, -1);
}

static void walk_hello(struct cursor *at, struct rd_control_message *message)
{
	walk_u32(at, &message->hello.version);
	/* Any number: the coordinator refuses a rank that makes no sense, and names it. */
	walk_i32(at, &message->hello.rank, INT32_MIN, INT32_MAX);
	walk_i32(at, &message->hello.size, INT32_MIN, INT32_MAX);
	if (message->hello.version != RD_WIRE_VERSION) {
		at->left = 0;
		return;
	}
	walk_text(at, message->hello.library, sizeof(message->hello.library));
	walk_u64(at, &message->hello.digest);
	walk_i32(at, &message->hello.channels, 0, INT32_MAX);
	walk_u64(at, &message->hello.piece_size);
	walk_text(at, message->hello.algo, sizeof(message->hello.algo));
	walk_text(at, message->hello.plugins, sizeof(message->hello.plugins));
	walk_text(at, message->hello.job, sizeof(message->hello.job));
	walk_member(at, &message->hello.member);
}

static void walk_signature(struct cursor *at, struct rd_signature *signature)
{
	walk_u64(at, &signature->count);
	walk_u32(at, &signature->number);
	walk_u32(at, &signature->root);
	signature->collective = (uint8_t)walk_number(at, signature->collective, 1);
	signature->type = (uint8_t)walk_number(at, signature->type, 1);
	signature->op = (uint8_t)walk_number(at, signature->op, 1);
	signature->form = (uint8_t)walk_number(at, signature->form, 1);
	if (signature->collective >= RD_COLLECTIVE_COUNT)
		at->bad = true;
}

static void walk_answer(struct cursor *at, struct rd_control_message *message)
{
	walk_u32(at, &message->answer.number);
	walk_u32(at, &message->answer.calls);
	walk_u32(at, &message->answer.done);
	walk_i32(at, &message->answer.collective, -1, RD_COLLECTIVE_COUNT - 1);
	walk_rank(at, &message->answer.waiting_for, -1);
	walk_u32(at, &message->answer.waited_ms);
	walk_signature(at, &message->answer.slept_in);
	walk_text(at, message->answer.called_at, sizeof(message->answer.called_at));
	walk_text(at, message->answer.waits_at, sizeof(message->answer.waits_at));
}

static void walk_link_failure(struct cursor *at, struct rd_link_failure *link_failure)
{
	walk_rank(at, &link_failure->low, 0);
	walk_rank(at, &link_failure->high, 0);
	walk_rank(at, &link_failure->by, 0);
	walk_text(at, link_failure->transport, sizeof(link_failure->transport));
	walk_text(at, link_failure->reason, sizeof(link_failure->reason));
	if (link_failure->low >= link_failure->high ||
		(link_failure->by != link_failure->low && link_failure->by != link_failure->high))
		at->bad = true;
}

static void walk_message(struct cursor *at, struct rd_control_message *message)
{
	switch (message->kind) {
	case RD_CONTROL_HELLO:
		walk_hello(at, message);
		return;
	case RD_CONTROL_HEARTBEAT:
		walk_u32(at, &message->heartbeat.timeout_ms);
		return;
	case RD_CONTROL_MEMBER:
		walk_rank(at, &message->member.rank, 0);
		walk_member(at, &message->member.member);
		return;
	case RD_CONTROL_TABLE:
		walk_u64(at, &message->table.comm_id);
		return;
	case RD_CONTROL_SLOW:
		walk_u32(at, &message->slow.line_ms);
		walk_rank(at, &message->slow.culprit, -1);
		walk_text(at, message->slow.reason, sizeof(message->slow.reason));
		return;
	case RD_CONTROL_REPORT:
		walk_error(at, &message->report.error);
		walk_rank(at, &message->report.culprit, -1);
		walk_text(at, message->report.reason, sizeof(message->report.reason));
		return;
	case RD_CONTROL_QUERY:
		walk_u32(at, &message->query.number);
		return;
	case RD_CONTROL_ANSWER:
		walk_answer(at, message);
		return;
	case RD_CONTROL_VERDICT:
		walk_error(at, &message->verdict.error);
		walk_rank(at, &message->verdict.lost, -1);
		walk_text(at, message->verdict.reason, sizeof(message->verdict.reason));
		return;
	case RD_CONTROL_BYE:
		walk_u32(at, &message->bye.calls);
		walk_u64(at, &message->bye.digest);
		return;
	case RD_CONTROL_LEFT:
		walk_rank(at, &message->left.rank, 0);
		walk_u32(at, &message->left.calls);
		return;
	case RD_CONTROL_READY:
		walk_u32(at, &message->ready.fallbacks);
		walk_limits(at, &message->ready.limits);
		return;
	case RD_CONTROL_LINK_FAILED:
		walk_link_failure(at, &message->link_failed);
		return;
	case RD_CONTROL_FALLBACK:
		walk_link_failure(at, &message->fallback);
		return;
	case RD_CONTROL_GO:
		walk_limits(at, &message->go.limits);
		return;
	case RD_CONTROL_GATHER:
		walk_u64(at, &message->gather.lineage);
		walk_rank(at, &message->gather.origin, 0);
		return;
	case RD_CONTROL_PLAN:
		walk_rank(at, &message->plan.rank, 0);
		walk_i32(at, &message->plan.size, 1, RD_SIZE_MAX);
		walk_port(at, &message->plan.port);
		walk_i32(at, &message->plan.lost, 0, RD_SIZE_MAX);
		return;
	case RD_CONTROL_MADE:
		walk_i32(at, &message->made.error, -128, 0);
		walk_i32(at, &message->made.refuses, 0, 1);
		walk_text(at, message->made.reason, sizeof(message->made.reason));
		return;
	case RD_CONTROL_COMMIT:
	case RD_CONTROL_BYE_ACK:
	case RD_CONTROL_LATE:
	case RD_CONTROL_TRIED:
	case RD_CONTROL_ALL_TRIED:
		return;
	}
	at->bad = true;
}

static void put_u16(unsigned char *bytes, size_t value)
{
	bytes[0] = (unsigned char)value;
	bytes[1] = (unsigned char)(value >> 8);
}

static size_t get_u16(const unsigned char *bytes)
{
	return bytes[0] | (size_t)bytes[1] << 8;
}

size_t rd_control_encode(struct rd_control_message *message, unsigned char frame[RD_FRAME_MAX])
{
	struct cursor at = { .writing = true, .out = frame + HEAD_SIZE, .left = PAYLOAD_MAX };
	size_t size;

	walk_message(&at, message);
	size = (size_t)(at.out - frame);
	memcpy(frame, magic, sizeof(magic));
	put_u16(frame + 4, message->kind);
	put_u16(frame + 6, size - HEAD_SIZE);
	return size;
}

int rd_control_decode(const unsigned char *bytes, size_t size, struct rd_control_message *message)
{
	struct cursor at = { 0 };
	size_t kind;

	if (memcmp(bytes, magic, size < sizeof(magic) ? size : sizeof(magic)) != 0)
		return rd_fail(RONDO_PROTOCOL, "no message starts with these bytes");
	if (size < HEAD_SIZE)
		return 0;
	kind = get_u16(bytes + 4);
	at.left = get_u16(bytes + 6);
	if (kind < RD_CONTROL_HELLO || kind > RD_CONTROL_LAST)
		return rd_fail(RONDO_PROTOCOL, "there is no message of kind %zu", kind);
	if (at.left > PAYLOAD_MAX)
		return rd_fail(RONDO_PROTOCOL, "a message of %zu bytes is too long", at.left);
	if (size < HEAD_SIZE + at.left)
		return 0;
	size = HEAD_SIZE + at.left;
	at.in = bytes + HEAD_SIZE;
	memset(message, 0, sizeof(*message));
	message->kind = (enum rd_control_kind)kind;
	walk_message(&at, message);
	if (at.bad || at.left > 0)
		return rd_fail(RONDO_PROTOCOL, "a message of kind %zu makes no sense", kind);
	return (int)size;
}
