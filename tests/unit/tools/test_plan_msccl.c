/* Programs of MSCCL: in the shapes that its tools emit, and as rondo-plan export writes them. */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/proof.h"
#include "exec/algorithms.h"
#include "plan/calls.h"
#include "plan/msccl.h"
#include "rondo.h"

/* Programs are read where expat is there. */
static void need_expat(void)
{
	struct msccl msccl;
	int err = msccl_parse(&msccl, "", "", 0);

	msccl_finish(&msccl);
	if (err == RONDO_UNSUPPORTED)
		cr_skip_test("rondo-plan was built without expat");
}

TestSuite(plan_msccl, .init = need_expat, .timeout = 120);

static int import(const char *text, size_t size, struct rd_plan_file **file)
{
	struct msccl msccl;
	int err = msccl_parse(&msccl, "f", text, size);

	*file = NULL;
	if (!err)
		err = msccl_to_file(&msccl, file);
	msccl_finish(&msccl);
	return err;
}

/* ---- Out and in ----------------------------------------------------------------------------- */

static char *exported(const struct rd_plan_file *file, size_t *size)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, size);

	cr_assert(out);
	cr_assert_eq(msccl_write(file, out), 0, "%s", rondo_last_error());
	fclose(out);
	return text;
}

static void check_both_ways(const struct rd_algorithm *algorithm, const struct rd_problem *problem)
{
	struct rd_plan_file *file, *again;
	const char *name = rd_collective_name(problem->collective);
	size_t size;

	cr_assert_eq(plan_calls_file(&file, algorithm, problem), 0, "%s", rondo_last_error());
	char *text = exported(file, &size);

	cr_assert_eq(import(text, size, &again), 0, "%s %s of %d: %s", algorithm->name, name,
		problem->size, rondo_last_error());
	cr_assert_str_eq(again->name, file->name);
	cr_assert_eq(again->parts, file->parts);
	cr_assert_eq(again->most_bytes, file->most_bytes);
	cr_assert_eq(again->problem.root, file->problem.root);
	cr_expect_eq(rd_prove(&again->algorithm, &again->problem), 0, "%s %s of %d: %s",
		algorithm->name, name, problem->size, rondo_last_error());
	free(text);
	rd_plan_file_destroy(file);
	rd_plan_file_destroy(again);
}

Test(plan_msccl, programs_of_every_algorithm_that_sends_are_read_and_proved)
{
	int checked = 0;

	for (int size = 2; size <= 9; size++)
		for (int c = 0; c < RD_TRANSFER; c++)
			for (int i = 0; rd_algorithms[i]; i++) {
				struct rd_problem problem = { .collective = c, .size = size };

				if (rd_collective_has_root(c))
					problem.root = size / 2;
				if (rd_algorithms[i]->direct_access ||
					!rd_algorithm_claims(rd_algorithms[i], &problem))
					continue;
				check_both_ways(rd_algorithms[i], &problem);
				checked++;
			}
	cr_assert_gt(checked, 100);
}

/* ---- Shapes of MSCCL's tools ---------------------------------------------------------------- */

/* A program while it is written. */
static struct {
	char text[1 << 18];
	size_t length;
	int blocks, steps; /* of the GPU, of the block */
} program;

static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void put(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	program.length += (size_t)vsnprintf(
		program.text + program.length, sizeof(program.text) - program.length, format, args);
	va_end(args);
	cr_assert_lt(program.length, sizeof(program.text));
}

static void begin(const char *coll, int ranks, int chunks, int in_place)
{
	program.length = 0;
	put("<algo name=\"Own(n=%d)-%s\" proto=\"LL\" nchannels=\"2\" nchunksperloop=\"%d\" ",
		ranks, coll, chunks);
	put("ngpus=\"%d\" coll=\"%s\" inplace=\"%d\">\n", ranks, coll, in_place);
}

static void gpu(int id, int scratch)
{
	program.blocks = 0;
	put(" <gpu id=\"%d\" i_chunks=\"0\" o_chunks=\"0\" s_chunks=\"%d\">\n", id, scratch);
}

static void block(int to, int from, int channel)
{
	program.steps = 0;
	put("  <tb id=\"%d\" send=\"%d\" recv=\"%d\" chan=\"%d\">\n", program.blocks++, to, from,
		channel);
}

/* from and into: a buffer and an offset, "o3". */
static void step(
	const char *type, const char *from, const char *into, int count, int block_id, int after)
{
	put("   <step s=\"%d\" type=\"%s\" srcbuf=\"%c\" srcoff=\"%s\" dstbuf=\"%c\" dstoff=\"%s\" "
	    "cnt=\"%d\" depid=\"%d\" deps=\"%d\" hasdep=\"0\"/>\n",
		program.steps++, type, from[0], from + 1, into[0], into + 1, count, block_id,
		after);
}

static const char *slot(char buffer, int offset)
{
	static char texts[4][16];
	static int next;
	char *text = texts[next++ % 4];

	snprintf(text, 16, "%c%d", buffer, offset);
	return text;
}

static void end_block(void)
{
	put("  </tb>\n");
}

static void end_gpu(void)
{
	put(" </gpu>\n");
}

/* And one of its calls is of this name. */
static void expect_proved(const char *call)
{
	struct rd_plan_file *file;
	bool found = false;
	int err;

	put("</algo>\n");
	err = import(program.text, program.length, &file);
	cr_assert_eq(err, 0, "%s\n%s", rondo_last_error(), program.text);
	cr_expect_eq(rd_prove(&file->algorithm, &file->problem), 0, "%s\n%s", rondo_last_error(),
		program.text);
	for (int i = 0; i < file->step_count; i++)
		found |= !strcmp(rd_file_call_name(file->steps[i].call), call);
	cr_expect(found, "no %s", call);
	rd_plan_file_destroy(file);
}

/* As msccl-tools compiles its ring: fused steps, two instances on channels of their own. */
Test(plan_msccl, a_ring_of_fused_steps_on_two_channels_is_proved)
{
	const int ranks = 4;

	begin("allreduce", ranks, 2 * ranks, 1);
	for (int rank = 0; rank < ranks; rank++) {
		gpu(rank, 0);
		for (int channel = 0; channel < 2; channel++) {
			int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;

			block(next, last, channel);
			step("s", slot('i', rank * 2 + channel), slot('i', rank * 2 + channel), 1,
				-1, -1);
			for (int i = 1; i < ranks; i++) {
				const char *at =
					slot('i', (rank + ranks - i) % ranks * 2 + channel);

				step(i < ranks - 1 ? "rrs" : "rrcs", at, at, 1, -1, -1);
			}
			for (int i = 0; i < ranks - 1; i++) {
				const char *at =
					slot('o', (rank + ranks - i) % ranks * 2 + channel);

				step(i < ranks - 2 ? "rcs" : "r", at, at, 1, -1, -1);
			}
			end_block();
		}
		end_gpu();
	}
	expect_proved("recv_reduce_last");
}

/* All pairs: each rank adds what the others sent into its scratch memory, behind nops. */
Test(plan_msccl, messages_that_are_added_from_scratch_memory_become_a_merge)
{
	const int ranks = 4;

	begin("allreduce", ranks, 1, 1);
	for (int rank = 0; rank < ranks; rank++) {
		gpu(rank, ranks);
		for (int peer = 0; peer < ranks; peer++) {
			if (peer == rank)
				continue;
			block(peer, peer, 0);
			step("s", "i0", slot('s', rank), 1, -1, -1);
			step("r", "i0", slot('s', peer), 1, -1, -1);
			for (int i = 1; i < ranks - 1 && program.blocks == 1; i++)
				step("nop", "i0", "i0", 1, i, 1);
			for (int i = 0; i < ranks && program.blocks == 1; i++)
				if (i != rank)
					step("re", slot('s', i), "i0", 1, -1, -1);
			end_block();
		}
		end_gpu();
	}
	expect_proved("recv_merge");
}

/* As TACCL and SCCL write: a block sends or receives, in the output, and waits for others. */
Test(plan_msccl, blocks_of_one_direction_that_wait_for_others_become_one_order)
{
	const int ranks = 4, parts = 2;

	begin("allgather", ranks, ranks * parts, 1);
	for (int rank = 0; rank < ranks; rank++) {
		int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;

		gpu(rank, 0);
		block(-1, last, 0);
		for (int i = 1; i < ranks; i++) {
			const char *at = slot('o', (rank + ranks - i) % ranks * parts);

			step("r", at, at, parts, -1, -1);
		}
		end_block();
		block(next, -1, 0);
		for (int i = 0; i < ranks - 1; i++) {
			const char *at = slot('o', (rank + ranks - i) % ranks * parts);

			step("s", at, at, parts, i > 0 ? 0 : -1, i > 0 ? i - 1 : -1);
		}
		end_block();
		end_gpu();
	}
	expect_proved("send");
}

/* Two hosts of two: blocks for the other host pass through a neighbour's scratch memory. */
Test(plan_msccl, blocks_that_pass_through_scratch_memory_are_proved)
{
	begin("alltoall", 4, 4, 0);
	for (int rank = 0; rank < 4; rank++) {
		int near = rank ^ 1, far = rank ^ 2, cross = rank ^ 3;

		gpu(rank, 2);
		block(-1, -1, 0);
		step("cpy", slot('i', rank), slot('o', rank), 1, -1, -1);
		end_block();
		block(near, near, 0);
		step("s", slot('i', near), slot('o', rank), 1, -1, -1);
		step("s", slot('i', cross), "s0", 1, -1, -1);
		step("r", "i0", slot('o', near), 1, -1, -1);
		step("r", "i0", "s0", 1, -1, -1);
		end_block();
		block(far, far, 0);
		step("s", slot('i', far), slot('o', rank), 1, -1, -1);
		step("s", "s0", slot('o', near), 1, 1, 3);
		step("r", "i0", slot('o', far), 1, -1, -1);
		step("r", "i0", slot('o', cross), 1, -1, -1);
		end_block();
		end_gpu();
	}
	expect_proved("send");
}

/* Two GPUs send each other this many of 6 chunks, and receive behind that. */
static void exchange(int count)
{
	begin("allgather", 2, 12, 1);
	for (int rank = 0; rank < 2; rank++) {
		gpu(rank, 0);
		block(!rank, !rank, 0);
		for (int at = 0; at < 6; at += count)
			step("s", slot('o', rank * 6 + at), slot('o', rank * 6 + at), count, -1,
				-1);
		for (int at = 0; at < 6; at += count)
			step("r", slot('o', !rank * 6 + at), slot('o', !rank * 6 + at), count, -1,
				-1);
		end_block();
		end_gpu();
	}
}

Test(plan_msccl, chunks_that_all_steps_move_together_become_one)
{
	exchange(6);
	expect_proved("recv");
	exchange(3);
	expect_proved("recv");
}

Test(plan_msccl, more_messages_than_a_link_holds_are_refused_with_the_line)
{
	struct rd_plan_file *file;

	exchange(2);
	put("</algo>\n");
	cr_assert_eq(import(program.text, program.length, &file), RONDO_INVALID);
	cr_expect_str_eq(rondo_last_error(),
		"f:6: this step of gpu 0, tb 0 never has its turn: it waits in a circle, for a "
		"message that nobody sends, or for room in a link");
}

/* The range of an all-gather is that of all blocks. */
Test(plan_msccl, range_and_name_are_taken_over)
{
	static const char text[] =
		"<algo name=\"Big-AllGather, v2.1\" coll=\"allgather\" ngpus=\"2\" "
		"nchunksperloop=\"2\" minBytes=\"1001\" maxBytes=\"4000\" inplace=\"0\">"
		"<gpu id=\"0\"><tb id=\"0\" send=\"1\" recv=\"1\">"
		"<step type=\"s\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\"/>"
		"<step type=\"r\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"1\" cnt=\"1\"/>"
		"</tb></gpu><gpu id=\"1\"><tb id=\"0\" send=\"0\" recv=\"0\">"
		"<step type=\"s\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"1\" cnt=\"1\"/>"
		"<step type=\"r\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\"/>"
		"</tb></gpu></algo>";
	struct rd_plan_file *file;

	cr_assert_eq(import(text, strlen(text), &file), 0, "%s", rondo_last_error());
	cr_expect_str_eq(file->name, "big_allgather__");
	cr_expect_eq(file->least_bytes, 501);
	cr_expect_eq(file->most_bytes, 2000);
	cr_expect_eq(rd_prove(&file->algorithm, &file->problem), 0, "%s", rondo_last_error());
	rd_plan_file_destroy(file);
}

Test(plan_msccl, bytes_that_no_buffer_has_are_written_as_the_most)
{
	struct rd_problem problem = { .collective = RD_ALL_GATHER, .size = 4 };
	struct rd_plan_file *file;
	size_t size;
	int i = 0;

	while (strcmp(rd_algorithms[i]->name, "ring") != 0)
		i++;
	cr_assert_eq(plan_calls_file(&file, rd_algorithms[i], &problem), 0);
	file->least_bytes = INT64_MAX / 2;
	file->most_bytes = INT64_MAX - 1;
	char *text = exported(file, &size);

	cr_expect(strstr(text, " minBytes=\"4611686018427387903\" "
			       "maxBytes=\"4611686018427387903\""),
		"%.200s", text);
	free(text);
	rd_plan_file_destroy(file);
}

/* ---- Programs that are no plans ------------------------------------------------------------- */

#define ALGO "<algo name=\"a\" coll=\"allreduce\" ngpus=\"2\" nchunksperloop=\"2\" inplace=\"1\">\n"

static void expect_refused(const char *text, const char *why)
{
	struct rd_plan_file *file;

	cr_expect_eq(import(text, strlen(text), &file), RONDO_INVALID, "%s", text);
	cr_expect_str_eq(rondo_last_error(), why, "%s", rondo_last_error());
}

Test(plan_msccl, wrong_documents_are_refused_with_the_line)
{
	expect_refused("", "f:1: no element found");
	expect_refused("<algo\n<", "f:2: not well-formed (invalid token)");
	expect_refused("<!DOCTYPE algo [<!ENTITY a \"b\">]>\n<algo name=\"&a;\"/>",
		"f:1: <!DOCTYPE> has no place here");
	expect_refused("<graph/>", "f:1: <graph> has no place here");
	expect_refused("<algo name=\"a\"/>", "f:1: coll is missing");
	expect_refused(
		"<algo name=\"a\" coll=\"custom\"/>", "f:1: there is no plan of coll \"custom\"");
	expect_refused("<algo name=\"a\" coll=\"allgather\" ngpus=\"2\" nchunksperloop=\"3\"/>",
		"f:1: nchunksperloop is a multiple of the 2 blocks, not 3");
	expect_refused(ALGO "\n</algo>", "f:3: here are 0 gpu, not the 2 of ngpus");
	expect_refused(ALGO "<gpu id=\"1\"/></algo>", "f:2: gpu 1 is here, not 0");
	expect_refused(ALGO "<gpu id=\"0\">\n<tb id=\"0\" send=\"0\" recv=\"1\"/></gpu></algo>",
		"f:3: a tb of gpu 0 has itself as a peer");
}

/* Both GPUs have this block. */
static void expect_block_refused(const char *steps, const char *why)
{
	char text[2000];

	snprintf(text, sizeof(text),
		ALGO
		"<gpu id=\"0\" s_chunks=\"1\"><tb id=\"0\" send=\"1\" recv=\"1\">\n%s"
		"</tb></gpu>\n<gpu id=\"1\" s_chunks=\"1\"><tb id=\"0\" send=\"0\" recv=\"0\">\n%s"
		"</tb></gpu></algo>",
		steps, steps);
	expect_refused(text, why);
}

#define STEP(type, source, from, target, into) \
	"<step type=\"" type "\" srcbuf=\"" source "\" srcoff=\"" from "\" dstbuf=\"" target \
	"\" dstoff=\"" into "\" cnt=\"1\" depid=\"-1\" deps=\"-1\"/>\n"

Test(plan_msccl, steps_that_no_plan_has_are_refused_with_the_line)
{
	expect_block_refused(
		"<step type=\"z\"/>\n", "f:3: there is no plan of a step of type \"z\"");
	expect_block_refused(STEP("s", "q", "0", "i", "0"), "f:3: srcbuf is i, o or s, not \"q\"");
	expect_block_refused(STEP("s", "i", "-1", "i", "0"),
		"f:3: srcoff is a whole number from 0 to 1048576, not \"-1\"");
	expect_block_refused(STEP("s", "i", "2", "i", "0"), "f:3: i[2] is beyond its buffer");
	expect_block_refused(STEP("s", "s", "0", "i", "0"), "f:3: s[0] has no value yet");
	expect_block_refused(STEP("s", "i", "0", "i", "0") STEP("rrc", "i", "1", "i", "1"),
		"f:8: i[1] is another chunk than the message");
	expect_block_refused(STEP("re", "i", "0", "i", "0"),
		"f:3: i[0] is no message to add to a value here: a plan adds as it receives");
	expect_block_refused(STEP("cpy", "i", "0", "s", "0") STEP("s", "i", "0", "i", "0")
				     STEP("rrc", "i", "0", "i", "0") STEP("s", "s", "0", "i", "0"),
		"f:6: s[0] is an older value of its chunk: a plan has the newest alone");
}

Test(plan_msccl, steps_that_wait_for_ever_are_refused_with_the_line)
{
	expect_block_refused("<step type=\"nop\" depid=\"0\" deps=\"1\"/>\n",
		"f:3: it waits for step 1 of tb 0, which gpu 0 has not");
	expect_block_refused("<step type=\"nop\" depid=\"0\" deps=\"1\"/>\n<step type=\"nop\"/>\n",
		"f:3: this step of gpu 0, tb 0 never has its turn: it waits in a circle, for a "
		"message that nobody sends, or for room in a link");
	expect_block_refused(STEP("r", "i", "0", "i", "0"),
		"f:3: this step of gpu 0, tb 0 never has its turn: it waits in a circle, for a "
		"message that nobody sends, or for room in a link");
}
