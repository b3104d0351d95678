#include "net/codec.h"

#include <assert.h>
#include <string.h>

#include "base/environment.h"

static const unsigned char magic[4] = "RNDO";

/* The next bytes of the wire; NULL: there are fewer. */
static unsigned char *take(struct rd_codec *codec, size_t size)
{
	unsigned char *at = codec->at;

	if (size > (size_t)(codec->end - at))
		codec->bad = true;
	assert(!(codec->writes && codec->bad));
	if (codec->bad)
		return NULL;
	codec->at += size;
	return at;
}

static uint64_t number(struct rd_codec *codec, uint64_t value, size_t size)
{
	unsigned char *at = take(codec, size);

	if (!at)
		return 0;
	for (size_t i = 0; codec->writes && i < size; i++)
		at[i] = (unsigned char)(value >> 8 * i);
	value = 0;
	for (size_t i = 0; i < size; i++)
		value |= (uint64_t)at[i] << 8 * i;
	return value;
}

void rd_codec_check(struct rd_codec *codec, bool holds)
{
	codec->bad |= !codec->writes && !holds;
}

/* The value that was read, or where it is out of range, the one that was there: callers compute
   with it before they see `bad`. */
static int64_t in_range(
	struct rd_codec *codec, int64_t value, int64_t got, int64_t least, int64_t most)
{
	rd_codec_check(codec, got >= least && got <= most);
	return codec->bad ? value : got;
}

void rd_codec_i32(struct rd_codec *codec, int32_t *value, int32_t least, int32_t most)
{
	int32_t got = (int32_t)number(codec, (uint32_t)*value, sizeof(*value));

	*value = (int32_t)in_range(codec, *value, got, least, most);
}

void rd_codec_i64(struct rd_codec *codec, int64_t *value, int64_t least, int64_t most)
{
	int64_t got = (int64_t)number(codec, (uint64_t)*value, sizeof(*value));

	*value = in_range(codec, *value, got, least, most);
}

void rd_codec_count(struct rd_codec *codec, int *count, int most)
{
	*count = (int)in_range(codec, *count, (int)number(codec, (uint64_t)*count, 1), 0, most);
}

void rd_codec_bool(struct rd_codec *codec, bool *value)
{
	*value = in_range(codec, *value, (int)number(codec, *value, 1), 0, 1) == 1;
}

void rd_codec_u8(struct rd_codec *codec, uint8_t *value)
{
	*value = (uint8_t)number(codec, *value, sizeof(*value));
}

void rd_codec_u32(struct rd_codec *codec, uint32_t *value)
{
	*value = (uint32_t)number(codec, *value, sizeof(*value));
}

void rd_codec_u64(struct rd_codec *codec, uint64_t *value)
{
	*value = number(codec, *value, sizeof(*value));
}

void rd_codec_bytes(struct rd_codec *codec, void *bytes, uint16_t *count, uint16_t most)
{
	unsigned char *at;

	*count = (uint16_t)number(codec, *count, sizeof(*count));
	rd_codec_check(codec, *count <= most);
	at = take(codec, *count);
	if (!at)
		*count = 0;
	else if (codec->writes)
		memcpy(at, bytes, *count);
	else
		memcpy(bytes, at, *count);
}

/* Disarms what lies between bytes that the text may have: newlines and tabs, or none. */
static void disarm(char *text, size_t length, bool lines)
{
	for (size_t from = 0, to = 0; to <= length; to++)
		if (to == length || (lines && (text[to] == '\n' || text[to] == '\t'))) {
			rd_disarm(text + from, to - from);
			from = to + 1;
		}
}

static void walk_text(struct rd_codec *codec, char *text, size_t size, bool lines)
{
	uint16_t length = codec->writes ? (uint16_t)strnlen(text, size - 1) : 0;

	rd_codec_bytes(codec, text, &length, (uint16_t)(size - 1));
	if (codec->writes)
		return;
	text[length] = '\0';
	disarm(text, length, lines);
}

void rd_codec_text(struct rd_codec *codec, char *text, size_t size)
{
	walk_text(codec, text, size, false);
}

void rd_codec_lines(struct rd_codec *codec, char *text, size_t size)
{
	walk_text(codec, text, size, true);
}

void rd_codec_skip_rest(struct rd_codec *codec)
{
	if (!codec->writes)
		codec->at = codec->end;
}

bool rd_codec_is_done(const struct rd_codec *codec)
{
	return !codec->bad && codec->at == codec->end;
}

/* ---- Frames --------------------------------------------------------------------------------- */

long rd_frame_size(const unsigned char *bytes, size_t size)
{
	/* Another protocol is refused by its first bytes, however few they are. */
	if (memcmp(bytes, magic, size < sizeof(magic) ? size : sizeof(magic)) != 0)
		return -1;
	if (size < RD_FRAME_HEAD)
		return RD_FRAME_HEAD;
	return (long)(RD_FRAME_HEAD + (bytes[6] | (size_t)bytes[7] << 8));
}

struct rd_codec rd_frame_read(const unsigned char *frame, size_t size, unsigned *kind)
{
	*kind = frame[4] | (unsigned)frame[5] << 8;
	return (struct rd_codec){ .at = (unsigned char *)frame + RD_FRAME_HEAD,
		.end = (unsigned char *)frame + size };
}

struct rd_codec rd_frame_write(unsigned char *frame, size_t most)
{
	return (struct rd_codec){
		.at = frame + RD_FRAME_HEAD, .end = frame + most, .writes = true
	};
}

size_t rd_frame_end(const struct rd_codec *codec, unsigned char *frame, unsigned kind)
{
	struct rd_codec head = {
		.at = frame + sizeof(magic), .end = frame + RD_FRAME_HEAD, .writes = true
	};
	size_t size = (size_t)(codec->at - frame);

	memcpy(frame, magic, sizeof(magic));
	number(&head, kind, 2);
	number(&head, size - RD_FRAME_HEAD, 2);
	return size;
}
