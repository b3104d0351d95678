/*
 * The fields of a message, to a wire and from it. One walk of a protocol over its struct serves
 * both ways, so that they cannot differ. Pure: no system call, no memory of its own.
 *
 * Numbers are little endian, in two's complement. A text is its u16 length and its bytes, without
 * a NUL.
 *
 * A frame holds one message: "RNDO", u16 kind, u16 size of the fields, then the fields. The kinds
 * of all protocols differ. A protocol's hello begins with its u32 version, in every version.
 */
#ifndef RD_CODEC_H
#define RD_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RD_FRAME_HEAD 8 /* bytes before the fields */

struct rd_codec {
	unsigned char *at, *end;
	bool writes; /* which leaves the fields as they are; else it reads into them */
	bool bad; /* bytes were missing, or a value is out of range: further fields are skipped */
};

/* A reader accepts values from `least` to `most`, and stores no other. */
void rd_codec_i32(struct rd_codec *codec, int32_t *value, int32_t least, int32_t most);
void rd_codec_i64(struct rd_codec *codec, int64_t *value, int64_t least, int64_t most);
void rd_codec_u8(struct rd_codec *codec, uint8_t *value);
void rd_codec_u32(struct rd_codec *codec, uint32_t *value);
void rd_codec_u64(struct rd_codec *codec, uint64_t *value);
void rd_codec_bool(struct rd_codec *codec, bool *value);
/* How many elements follow, in a byte: `most` at most. */
void rd_codec_count(struct rd_codec *codec, int *count, int most);
/* Bytes, `most` at most, behind their u16 count. */
void rd_codec_bytes(struct rd_codec *codec, void *bytes, uint16_t *count, uint16_t most);
/* A text of size - 1 bytes at most; a writer cuts a longer one. A reader disarms it
   (base/environment.h). Lines may have newlines and tabs. */
void rd_codec_text(struct rd_codec *codec, char *text, size_t size);
void rd_codec_lines(struct rd_codec *codec, char *text, size_t size);

/* A reader continues only where this holds of the fields. */
void rd_codec_check(struct rd_codec *codec, bool holds);
/* Ends the message here: a reader ignores the bytes that are left. */
void rd_codec_skip_rest(struct rd_codec *codec);

/* How many bytes the frame has that begins so: more than `size` where bytes are missing, as far as
   that is known; -1: no frame begins so. */
long rd_frame_size(const unsigned char *bytes, size_t size);

/* A reader of a whole frame's fields, and its kind. */
struct rd_codec rd_frame_read(const unsigned char *frame, size_t size, unsigned *kind);
/* Whether a reader has found all fields in range, and nothing behind them. */
bool rd_codec_is_done(const struct rd_codec *codec);

/* A writer of fields into frame[most], which has room for them. Then rd_frame_end() writes what
   lies before them, and returns the frame's size. */
struct rd_codec rd_frame_write(unsigned char *frame, size_t most);
size_t rd_frame_end(const struct rd_codec *codec, unsigned char *frame, unsigned kind);

#endif
