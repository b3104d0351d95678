/* Execution plans of MSCCL++ that are refused. */
#include <criterion/criterion.h>
#include <string.h>

#include "mscclpp_plan.h"
#include "plan/msccl.h"
#include "rondo.h"

TestSuite(plan_mscclpp, .timeout = 120);

static void expect_refused(const char *text, const char *why)
{
	struct rd_plan_file *file;

	cr_expect_eq(import(text, &file), RONDO_INVALID, "%s", text);
	cr_expect_str_eq(rondo_last_error(), why, "%s", rondo_last_error());
}

#define HEAD "{\"name\": \"a\", \"collective\": \"allreduce\", \"inplace\": true,\n"

Test(plan_mscclpp, wrong_documents_are_refused_with_the_place)
{
	expect_refused("{}", "f:1: \"name\" is a string, and is missing");
	expect_refused("{\"name\": \"a\", \"collective\": \"sendrecv\"}",
		"f:1: there is no plan of collective \"sendrecv\"");
	expect_refused("{\"name\": \"a\", \"collective\": \"allreduce\"}",
		"f:1: \"inplace\" is true or false");
	expect_refused(HEAD "\"gpus\": {}}", "f:2: \"gpus\" is an array, not an object");
	expect_refused(HEAD "\"gpus\": [{\"id\": 0, \"input_chunks\": 0, \"output_chunks\": 0}]}",
		"f:2: gpu 0: there are fewer chunks than blocks: 1 of the input, 1 of the output");
	expect_refused(HEAD "\"gpus\": []}", "f:2: \"gpus\" has 1 to 1024 GPUs, not 0");
	expect_refused(HEAD "\"gpus\": [{\"id\": 1}]}",
		"f:2: gpu 0: \"id\" is a whole number from 0 to 0");
	expect_refused(HEAD "\"gpus\": [{\"id\": 0, \"inputChunks\": 1}]}",
		"f:2: gpu 0: \"input_chunks\" is a whole number from 0 to 1048576, and is missing");
	expect_refused(HEAD "\"gpus\": [{\"id\": 0, \"input_chunks\": 1, \"output_chunks\": 2}]}",
		"f:2: gpu 0: \"output_chunks\" is 2, not 1: it has 1 blocks");
	expect_refused(HEAD "\"max_message_size\": 1.5, \"gpus\": [{\"id\": 0, "
			    "\"input_chunks\": 1, \"output_chunks\": 1}]}",
		"f:2: \"max_message_size\" is a whole number from 0 on");
	/* Older compilers called it "type". */
	expect_refused(HEAD "\"gpus\": [{\"id\": 0, \"input_chunks\": 1, \"output_chunks\": 1,\n"
			    "\"channels\": [{\"type\": \"memory\", \"connected_to\": []}]}]}",
		"f:3: gpu 0: \"channel_type\" is a string, and is missing");
}

/* Both GPUs have this operation, behind those that exchange signals. */
static void expect_op_refused(const char *name, const char *members, const char *why)
{
	begin("allreduce", 2, "memory", "true");
	for (int rank = 0; rank < 2; rank++) {
		gpu(2, 2, 2, "i");
		block();
		sync();
		op(name, members);
		end_block();
		end_gpu();
	}
	put("]}");
	expect_refused(plan.text, why);
}

#define BUFFERS(from, into) "\"src_buff\": [" from "], \"dst_buff\": [" into "]"
#define OWN(type, index) "{\"type\": \"" type "\", \"index\": " index ", \"size\": 1}"
#define REMOTE(id, index) "{\"buffer_id\": " id ", \"index\": " index ", \"size\": 1}"
#define PLACE "f:6: gpu 0, tb 0, op 2 " /* found while it is read */
#define TURN "f:11: gpu 1, tb 0, op 2 " /* at its turn: GPU 0 waits for the signal of GPU 1 */

Test(plan_mscclpp, operations_that_no_plan_has_are_refused_with_their_place)
{
	expect_op_refused("glres", "",
		PLACE "(glres): a plan has memory and port channels alone: compile the program "
		      "without switch channels");
	expect_op_refused("putt", "",
		"f:6: gpu 0, tb 0, op 2: there is no plan of an operation \"putt\"; did you mean put?");
	expect_op_refused("put", BUFFERS(OWN("i", "0"), REMOTE("1", "0")),
		PLACE "(put): its tb has no such place in \"remote_buffer_ids\" of this type");
	expect_op_refused("put", BUFFERS(OWN("i", "0"), REMOTE("0", "2")),
		TURN "(put): i[2] is beyond its buffer");
	expect_op_refused("put", BUFFERS(OWN("s", "0"), REMOTE("0", "0")),
		TURN "(put): s[0] has no value yet");
	expect_op_refused("put", BUFFERS(OWN("q", "0"), REMOTE("0", "0")),
		PLACE "(put): \"type\" is i, o or s, not \"q\"");
	expect_op_refused("put", BUFFERS(OWN("i", "0") "," OWN("i", "1"), REMOTE("0", "0")),
		PLACE "(put): \"src_buff\" has 2 buffers, and \"dst_buff\" 1");
	expect_op_refused("put", BUFFERS(REMOTE("0", "0"), REMOTE("0", "0")),
		PLACE "(put): it moves chunks from rank 1 to rank 1: one of both is its own");
	expect_op_refused("re", BUFFERS(OWN("i", "0") "," OWN("i", "1"), OWN("i", "0")),
		TURN "(re): i[1] is no message to add to a value here: a plan adds as it receives");
	expect_op_refused("rre", BUFFERS(OWN("i", "0") "," REMOTE("0", "1"), OWN("i", "0")),
		TURN "(rre): i[1] of the peer is another chunk than the one to which it is added");
	expect_op_refused("re",
		BUFFERS(OWN("i", "0") "," OWN("s", "1"), OWN("i", "0")) ", \"reduce_op\": \"min\"",
		PLACE "(re): \"reduce_op\" is sum: a plan reduces as its call wants, so compile it "
		      "with that");
	expect_op_refused("wait", "\"channel_ids\": [1]",
		PLACE "(wait): its tb has no such place in \"channel_ids\" of this type");
	expect_op_refused("sem_acquire", "\"semaphore_ids\": [1]",
		PLACE "(sem_acquire): its gpu has 1 semaphores");
}

/* A short file could keep the tool busy for hours. */
Test(plan_mscclpp, more_chunks_than_a_plan_may_move_are_refused_with_the_place)
{
	begin("allreduce", 2, "memory", "true");
	for (int rank = 0; rank < 2; rank++) {
		gpu(1 << 20, 1 << 20, 1 << 20, "i");
		block();
		move("copy", "i0", "s0", 1);
		for (int i = 0; i < 8; i++)
			move("copy", "i0", "s0", 1 << 20);
		end_block();
		end_gpu();
	}
	put("]}");
	expect_refused(
		plan.text, "f:23: gpu 1, tb 0: more than 16777216 chunks are moved up to here");
}

/* Each of 400,000 ids was sought behind 40,000 members. */
Test(plan_mscclpp, members_before_a_list_of_ids_are_passed_once, .timeout = 20)
{
	struct rd_plan_file *file;

	begin("allreduce", 2, "memory", "true");
	gpu(1, 1, 0, "i");
	put("{\"id\": 0, \"channels\": [{");
	for (int i = 0; i < 40000; i++)
		put("\"a%d\": 0, ", i);
	put("\"channel_type\": \"memory\", \"channel_ids\": [0]}], \"ops\": [");
	put("{\"name\": \"signal\", \"channel_type\": \"memory\", \"channel_ids\": [");
	for (int i = 0; i < 400000; i++)
		put("0, ");
	put("0]}");
	end_block();
	end_gpu();
	gpu(1, 1, 0, "i");
	end_gpu();
	put("]}");
	cr_assert_eq(import(plan.text, &file), 0, "%s", rondo_last_error());
	rd_plan_file_destroy(file);
}

#define NEVER \
	"never has its turn: it waits in a circle, for a signal or packets that never come, or " \
	"for room in a link"

Test(plan_mscclpp, operations_that_wait_for_ever_are_refused_with_their_place)
{
	expect_op_refused("wait", "\"channel_ids\": [0]", PLACE "(wait): " NEVER);
	expect_op_refused(
		"barrier", "\"barrier_id\": 0, \"num_threadblocks\": 2", PLACE "(barrier): " NEVER);
	expect_op_refused("upkt", BUFFERS(OWN("s", "0"), OWN("i", "0")), PLACE "(upkt): " NEVER);
}

Test(plan_mscclpp, values_that_a_plan_has_no_more_are_refused_with_their_place)
{
	begin("allreduce", 2, "memory", "false");
	for (int rank = 0; rank < 2; rank++) {
		gpu(1, 1, 1, "i");
		block();
		move("rre", "i0 @0:0", "o0", 1);
		end_block();
		end_gpu();
	}
	put("]}");
	expect_refused(plan.text,
		"f:7: gpu 1, tb 0, op 0 (rre): i[0] is an older value of its chunk: a plan has the "
		"newest alone");
}

Test(plan_mscclpp, values_that_stayed_at_their_rank_and_changed_there_are_refused_with_their_place)
{
	begin("allreduce", 2, "memory", "true");
	gpu(3, 3, 3, "i");
	end_gpu();
	gpu(3, 3, 3, "i");
	block();
	move("get", "@0:0", "s0", 3);
	move("put", "i2", "@0:2", 1);
	move("re", "i2 s2", "i2", 1);
	end_block();
	end_gpu();
	put("]}");
	expect_refused(plan.text,
		"f:7: gpu 1, tb 0, op 2 (re): s[2] was put, and its rank has a newer value: a link "
		"holds two messages");
}
