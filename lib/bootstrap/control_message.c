#include "bootstrap/control_message.h"

#include <string.h>

#include "net/codec.h"
#include "plan/collective.h"

_Static_assert(
	RD_FRAME_MAX - RD_FRAME_HEAD >= 32 + 2 + RD_STRING_MAX + sizeof(struct rd_identity) + 256,
	"HELLO fits a frame");
_Static_assert(
	RD_FRAME_MAX - RD_FRAME_HEAD >= 8 + sizeof(struct rd_table_part), "TABLE fits a frame");

static void walk_rank(struct rd_codec *codec, int32_t *rank, int32_t least)
{
	rd_codec_i32(codec, rank, least, RD_SIZE_MAX - 1);
}

static void walk_port(struct rd_codec *codec, uint32_t *port)
{
	rd_codec_u32(codec, port);
	rd_codec_check(codec, *port <= UINT16_MAX);
}

static void walk_part(struct rd_codec *codec, struct rd_table_part *part)
{
	rd_codec_u32(codec, &part->first);
	rd_codec_u32(codec, &part->count);
	rd_codec_check(codec, part->first < RD_SIZE_MAX && part->count > 0);
	rd_codec_bytes(codec, part->bytes, &part->size, sizeof(part->bytes));
}

static void walk_limits(struct rd_codec *codec, struct rd_link_limits *limits)
{
	rd_codec_u64(codec, &limits->piece_size);
	rd_codec_bool(codec, &limits->maps);
	rd_codec_u32(codec, &limits->near_rails);
	rd_codec_u32(codec, &limits->far_rails);
	rd_codec_u32(codec, &limits->cores);
	rd_codec_check(codec, limits->near_rails > 0 && limits->far_rails > 0 && limits->cores > 0);
}

static void walk_error(struct rd_codec *codec, int32_t *error)
{
	rd_codec_i32(codec, error, -128, -1);
}

static void walk_hello(struct rd_codec *codec, struct rd_control_message *message)
{
	rd_codec_u32(codec, &message->hello.version);
	/* Any number: the coordinator refuses a rank that makes no sense, and names it. */
	rd_codec_i32(codec, &message->hello.rank, INT32_MIN, INT32_MAX);
	rd_codec_i32(codec, &message->hello.size, INT32_MIN, INT32_MAX);
	if (message->hello.version != RD_WIRE_VERSION) {
		rd_codec_skip_rest(codec);
		return;
	}
	rd_codec_text(codec, message->hello.library, sizeof(message->hello.library));
	rd_codec_u64(codec, &message->hello.comm);
	rd_codec_u64(codec, &message->hello.digest);
	rd_codec_i32(codec, &message->hello.channels, 0, INT32_MAX);
	rd_codec_u64(codec, &message->hello.piece_size);
	rd_codec_text(codec, message->hello.algo, sizeof(message->hello.algo));
	rd_codec_text(codec, message->hello.plugins, sizeof(message->hello.plugins));
	rd_codec_text(codec, message->hello.job, sizeof(message->hello.job));
	rd_member_walk(codec, &message->hello.identity.member, message->hello.identity.cards);
}

static void walk_signature(struct rd_codec *codec, struct rd_signature *signature)
{
	rd_codec_u64(codec, &signature->count);
	rd_codec_u32(codec, &signature->number);
	rd_codec_u32(codec, &signature->root);
	rd_codec_u8(codec, &signature->collective);
	rd_codec_u8(codec, &signature->type);
	rd_codec_u8(codec, &signature->op);
	rd_codec_u8(codec, &signature->form);
	rd_codec_check(codec, signature->collective < RD_COLLECTIVE_COUNT);
}

static void walk_answer(struct rd_codec *codec, struct rd_control_message *message)
{
	rd_codec_u32(codec, &message->answer.number);
	rd_codec_u32(codec, &message->answer.calls);
	rd_codec_u32(codec, &message->answer.done);
	rd_codec_i32(codec, &message->answer.collective, -1, RD_COLLECTIVE_COUNT - 1);
	walk_rank(codec, &message->answer.waiting_for, -1);
	rd_codec_u32(codec, &message->answer.waited_ms);
	walk_signature(codec, &message->answer.slept_in);
	rd_codec_text(codec, message->answer.called_at, sizeof(message->answer.called_at));
	rd_codec_text(codec, message->answer.waits_at, sizeof(message->answer.waits_at));
}

static void walk_link_failure(struct rd_codec *codec, struct rd_link_failure *link_failure)
{
	walk_rank(codec, &link_failure->low, 0);
	walk_rank(codec, &link_failure->high, 0);
	walk_rank(codec, &link_failure->by, 0);
	rd_codec_text(codec, link_failure->transport, sizeof(link_failure->transport));
	rd_codec_text(codec, link_failure->reason, sizeof(link_failure->reason));
	rd_codec_bool(codec, &link_failure->tagged);
	rd_codec_check(codec, link_failure->low < link_failure->high &&
				      (link_failure->by == link_failure->low ||
					      link_failure->by == link_failure->high));
}

static void walk_open(struct rd_codec *codec, struct rd_control_message *message)
{
	rd_codec_i32(codec, &message->open.count, 1, RD_OPEN_MOST);
	for (int i = 0; i < message->open.count && i < RD_OPEN_MOST; i++)
		rd_codec_i32(codec, &message->open.ranks[i], 0, RD_OPEN_TAGGED + RD_SIZE_MAX - 1);
}

static void walk_stragglers(struct rd_codec *codec, struct rd_control_message *message)
{
	rd_codec_u32(codec, &message->stragglers.first);
	rd_codec_bytes(codec, message->stragglers.bits, &message->stragglers.size,
		sizeof(message->stragglers.bits));
	rd_codec_check(
		codec, message->stragglers.first < RD_SIZE_MAX && message->stragglers.size > 0);
}

static void walk_message(struct rd_codec *codec, struct rd_control_message *message)
{
	switch (message->kind) {
	case RD_CONTROL_HELLO:
		walk_hello(codec, message);
		return;
	case RD_CONTROL_HEARTBEAT:
		rd_codec_u32(codec, &message->heartbeat.timeout_ms);
		return;
	case RD_CONTROL_TABLE:
		rd_codec_u64(codec, &message->table.id.number);
		for (int i = 0; i < RD_COMM_KEY_SIZE; i++)
			rd_codec_u8(codec, &message->table.id.key[i]);
		walk_part(codec, &message->table.part);
		return;
	case RD_CONTROL_SLOW:
		rd_codec_u32(codec, &message->slow.line_ms);
		walk_rank(codec, &message->slow.culprit, -1);
		rd_codec_text(codec, message->slow.reason, sizeof(message->slow.reason));
		return;
	case RD_CONTROL_REPORT:
		walk_error(codec, &message->report.error);
		walk_rank(codec, &message->report.culprit, -1);
		rd_codec_u32(codec, &message->report.done);
		rd_codec_u64(codec, &message->report.comm);
		rd_codec_text(codec, message->report.reason, sizeof(message->report.reason));
		return;
	case RD_CONTROL_QUERY:
		rd_codec_u32(codec, &message->query.number);
		return;
	case RD_CONTROL_ANSWER:
		walk_answer(codec, message);
		return;
	case RD_CONTROL_VERDICT:
		walk_error(codec, &message->verdict.error);
		walk_rank(codec, &message->verdict.lost, -1);
		rd_codec_u32(codec, &message->verdict.spared);
		rd_codec_text(codec, message->verdict.reason, sizeof(message->verdict.reason));
		return;
	case RD_CONTROL_BYE:
		rd_codec_u32(codec, &message->bye.calls);
		rd_codec_u64(codec, &message->bye.digest);
		return;
	case RD_CONTROL_LEFT:
		walk_rank(codec, &message->left.rank, 0);
		rd_codec_u32(codec, &message->left.calls);
		rd_codec_u32(codec, &message->left.leavers);
		return;
	case RD_CONTROL_READY:
		rd_codec_u32(codec, &message->ready.fallbacks);
		walk_limits(codec, &message->ready.limits);
		return;
	case RD_CONTROL_LINK_FAILED:
		walk_link_failure(codec, &message->link_failed);
		return;
	case RD_CONTROL_OPEN:
		walk_open(codec, message);
		return;
	case RD_CONTROL_COSTS:
		rd_codec_bytes(codec, message->costs.text, &message->costs.size,
			sizeof(message->costs.text));
		rd_codec_check(codec, message->costs.size > 0);
		return;
	case RD_CONTROL_GATHER:
		rd_codec_u64(codec, &message->gather.lineage);
		walk_rank(codec, &message->gather.origin, -1);
		return;
	case RD_CONTROL_PLAN:
		walk_rank(codec, &message->plan.rank, 0);
		rd_codec_i32(codec, &message->plan.size, 1, RD_SIZE_MAX);
		walk_port(codec, &message->plan.port);
		rd_codec_i32(codec, &message->plan.lost, 0, RD_SIZE_MAX);
		return;
	case RD_CONTROL_MADE:
		rd_codec_i32(codec, &message->made.error, -128, 0);
		rd_codec_i32(codec, &message->made.refuses, 0, 1);
		rd_codec_text(codec, message->made.reason, sizeof(message->made.reason));
		return;
	case RD_CONTROL_STRAGGLERS:
		walk_stragglers(codec, message);
		return;
	}
	rd_codec_check(codec, false);
}

void rd_control_write_costs(struct rd_control_message *message, const char *costs)
{
	message->kind = RD_CONTROL_COSTS;
	message->costs.size = (uint16_t)strlen(costs);
	memcpy(message->costs.text, costs, message->costs.size);
}

size_t rd_control_encode(struct rd_control_message *message, unsigned char frame[RD_FRAME_MAX])
{
	struct rd_codec codec = rd_frame_write(frame, RD_FRAME_MAX);

	walk_message(&codec, message);
	return rd_frame_end(&codec, frame, message->kind);
}

int rd_control_decode(const unsigned char *bytes, size_t size, struct rd_control_message *message)
{
	long frame = rd_frame_size(bytes, size);
	struct rd_codec codec;
	unsigned kind;

	if (frame < 0 || frame > RD_FRAME_MAX)
		return rd_fail(RONDO_PROTOCOL, "no message starts with these bytes");
	if ((size_t)frame > size)
		return 0;
	codec = rd_frame_read(bytes, (size_t)frame, &kind);
	memset(message, 0, sizeof(*message));
	message->kind = (enum rd_control_kind)kind;
	walk_message(&codec, message);
	if (!rd_codec_is_done(&codec))
		return rd_fail(RONDO_PROTOCOL, "a message of kind %u makes no sense", kind);
	return (int)frame;
}
