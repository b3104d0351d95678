/* The reader of RONDO_TRACE's files: events stand on any lines, and a file that lies gets
   one line, with the place. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "plan/trace_events.h"
#include "plan/trace_file.h"
#include "rondo.h"

#define RANK \
	"{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":{\"name\":\"r\",\"comm\":\"0\"," \
	"\"rank\":0,\"ranks\":2}},\n"
#define STEP_OF(ts, place, rest) \
	"{\"name\":\"send\",\"cat\":\"all_reduce\",\"ph\":\"X\",\"pid\":0,\"tid\":1,\"ts\":" ts \
	",\"dur\":1.000,\"args\":{\"call\":3,\"algorithm\":\"ring\",\"root\":0,\"target\":0," \
	"\"block_bytes\":8,\"piece\":" place \
	",\"step\":0,\"chunk\":0,\"peer\":-1,\"to\":1,\"bytes\":4," rest "}},\n"
#define TIMES "\"wait_us\":0.250,\"work_us\":0.750"
#define STEP STEP_OF("12.500", "0", TIMES)

static int read_text(struct plan_trace **trace, const char *text)
{
	char path[] = "/tmp/rondo_trace_file_XXXXXX";
	int fd = mkstemp(path), err;

	cr_assert(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	err = plan_trace_read(trace, path);
	unlink(path);
	return err;
}

Test(plan_trace_file, steps_become_calls_in_the_order_of_their_begin)
{
	struct plan_trace *trace;

	cr_assert_eq(
		read_text(&trace, "[\n" RANK STEP_OF("-0.001", "1", TIMES) STEP
			"{\"name\":\"recv\",\"cat\":\"transfer\",\"ph\":\"X\",\"pid\":0,"
			"\"tid\":0,\"ts\":-5.000,\"dur\":1.000,\"args\":{\"call\":3,"
			"\"algorithm\":\"linear\",\"root\":1,\"target\":0,\"block_bytes\":9,"
			"\"piece\":0,\"step\":0,\"chunk\":0,\"peer\":1,\"to\":-1,\"bytes\":9," TIMES
			"}},\n"),
		0, "%s", rondo_last_error());
	cr_assert_eq(trace->call_count, 2);
	cr_expect_eq(trace->calls[0].key->collective, RD_TRANSFER);
	cr_expect_eq(trace->calls[0].begin_ns, -5000);
	cr_expect_eq(trace->calls[0].slice, 9);

	const struct plan_trace_call *call = &trace->calls[1];

	cr_expect_str_eq(trace->names[call->key->algorithm], "ring");
	cr_expect_eq(call->count, 2);
	cr_expect_eq(call->begin_ns, -1);
	cr_expect_eq(call->end_ns, 13500);
	cr_expect_eq(call->block, 8);
	cr_expect_eq(call->steps[0].begin_ns, 12500);
	cr_expect_eq(call->steps[0].wait_ns, 250);
	cr_expect_eq(call->steps[0].work_ns, 750);
	cr_expect_eq(call->steps[1].piece, 1);
	cr_expect_eq(call->steps[1].channel, 1);
	plan_trace_destroy(trace);
}

/* Ranks that have only their own blocks' lengths record none for the call. */
Test(plan_trace_file, a_v_call_has_blocks_of_its_messages_mean)
{
#define MESSAGE(collective, place, bytes) \
	"{\"name\":\"send\",\"cat\":\"" collective \
	"\",\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":1,\"args\":{\"call\":1,\"algorithm\":" \
	"\"linear\",\"root\":0,\"target\":0,\"block_bytes\":0,\"piece\":" place \
	",\"step\":0,\"chunk\":0,\"peer\":-1,\"to\":1,\"bytes\":" bytes ",\"v_call\":true," TIMES \
	"}},\n"
	struct plan_trace *trace;

	cr_assert_eq(read_text(&trace,
			     "[\n" RANK MESSAGE("all_to_all", "0", "100")
				     MESSAGE("all_to_all", "1", "51") MESSAGE("gather", "0", "30")),
		0, "%s", rondo_last_error());
	cr_assert_eq(trace->call_count, 2);
	for (int i = 0; i < 2; i++)
		cr_expect_eq(trace->calls[i].block,
			trace->calls[i].key->collective == RD_ALL_TO_ALL ? 76 : 30);
	plan_trace_destroy(trace);
}

/* The events are one text, as jq and Python write them: "A" stands for the rank, "S" for a step. */
static void write_shape(char *text, const char *shape)
{
	static const char rank[] = RANK, step[] = STEP, again[] = STEP_OF("13", "1", TIMES);
	int steps = 0;

	for (*text = '\0'; *shape; shape++) {
		const char *event = shape;
		int length = 1;

		if (*shape == 'A')
			event = rank;
		else if (*shape == 'S')
			event = steps++ ? again : step;
		if (event != shape)
			length = (int)strlen(event) - 2; /* without the comma */
		sprintf(text + strlen(text), "%.*s", length, event);
	}
}

Test(plan_trace_file, events_may_stand_on_any_lines)
{
	static const char metadata[] =
		"{\"m\": {\"s\": \"}],\\\"\", \"l\": [[1], {}]}, \"d\":\"ms\",\n"
		"\"traceEvents\" : [A,S] , \"n\":-1.5}\n"
		"{\"traceEvents\":[S,],\"t\": true}";
	static const char *const shapes[] = { "[A,S,S]", "[\nA,\nS,\nS\n]\n", "[\nA,\nS,\nS,\n]",
		"A\nS\nS\n", "A S\r\n[S]", "\xef\xbb\xbf[A,S,S]",
		"\xef\xbb\xbf"
		"A\n\nS\nS",
		"[A,S,\n\xef\xbb\xbf[S,", "[A,S,S,", " [\r\n\tA\n,\n\nS , S,\n",
		"[\nA,\n[\nS,\n[S,", "[A,S][S]", "{\"traceEvents\": [A, S,\nS]}", metadata };

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		char text[2000];
		struct plan_trace *trace;

		write_shape(text, shapes[i]);
		cr_assert_eq(read_text(&trace, text), 0, "%s: %s", shapes[i], rondo_last_error());
		cr_expect_eq(trace->step_count, 2, "%s", shapes[i]);
		cr_expect_eq(trace->calls[0].end_ns, 14000);
		plan_trace_destroy(trace);
	}
}

/* An event of JSON Lines is kept whole until its end. */
Test(plan_trace_file, a_line_may_be_too_long)
{
	char text[5000] = "{\"ph\":\"M\",\"name\":\"";
	struct plan_trace *trace;

	memset(text + strlen(text), 'x', 4500);
	strcat(text, "\"}");
	cr_assert_eq(read_text(&trace, text), RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), ":1: an event has more than 4096 bytes"), "%s",
		rondo_last_error());
}

Test(plan_trace_file, an_event_may_have_lines_of_its_own)
{
	struct plan_trace *trace;

	cr_assert_eq(
		read_text(&trace,
			"[\n" RANK "{\"name\":\"send\",\n\"cat\":\"all_reduce\",\"ph\":\"X\",\n"
			"\"pid\":0,\"tid\":1,\"ts\":1,\"args\": {\n\"call\":3,\"algorithm\":\"ring\","
			"\"root\":0,\"target\":0,\"block_bytes\":8,\"piece\":0,\n\"step\":0,"
			"\"chunk\":0,\"peer\":-1,\"to\":1,\"bytes\":4," TIMES "\n}\n},\n5]"),
		RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), ":10: neither a name"), "%s", rondo_last_error());
}

/* Zeros are left out, and a double may have more digits. */
Test(plan_trace_file, times_are_numbers_of_any_program)
{
	static const struct {
		const char *text;
		int64_t ns;
	} times[] = {
		{ "0", 0 },
		{ "12.5", 12500 },
		{ "-12.25", -12250 },
		{ "0.0004999", 0 },
		{ "0.0005", 1 },
		{ "-0.0016", -2 },
		{ "28857600000000.125", INT64_C(28857600000000125) },
		{ "28857600000000.1236", INT64_C(28857600000000124) },
		{ "999999999999999.9999", INT64_C(1000000000000000000) },
	};

	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
		char text[1000];
		struct plan_trace *trace;

		snprintf(text, sizeof(text), "[" RANK STEP_OF("%s", "0", TIMES), times[i].text);
		cr_assert_eq(read_text(&trace, text), 0, "%s", rondo_last_error());
		cr_expect_eq(trace->steps->begin_ns, times[i].ns, "%s: %lld", times[i].text,
			(long long)trace->steps->begin_ns);
		plan_trace_destroy(trace);
	}
}

/* Each rank's events follow each other. */
Test(plan_trace_file, comms_whose_processes_have_one_number_stay_apart)
{
	struct plan_trace *trace;

	cr_assert_eq(
		read_text(&trace,
			"[\n" RANK STEP
			"{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":{\"comm\":\"3f\","
			"\"rank\":1,\"ranks\":4}},\n" STEP),
		0, "%s", rondo_last_error());
	cr_assert_eq(trace->call_count, 2);
	cr_expect_eq(trace->calls[0].steps->rank, 0);
	cr_expect_str_eq(trace->comms[trace->calls[1].key->comm].name, "3f");
	cr_expect_eq(trace->calls[1].steps->rank, 1);
	plan_trace_destroy(trace);
}

Test(plan_trace_file, a_wrong_file_gets_a_line)
{
	static const struct {
		const char *text, *reason;
	} wrong[] = {
		{ "", " is empty" },
		{ "5", ":1: a trace begins with [" },
		{ "[]\n]", ":2: a trace begins with [" },
		{ "{\n", ":2: the file was cut" },
		{ "{}", ":1: no \"traceEvents\" in the object" },
		{ "{\"a\" 1}", ":1: this is no JSON" },
		{ "{\"a\":\n1]", ":2: this is no JSON" },
		{ "{\"a\":1\n}", ":2: no \"traceEvents\" in the object" },
		{ "{\"traceEvents\":5}", ":1: no \"traceEvents\" in the object" },
		{ "{\"traceEvents\":[\n", ":2: the file was cut" },
		{ "[\n", " has no steps" },
		{ "[\n" RANK "{}\n", ":4: the file was cut" },
		{ "[\n" RANK "{} {}\n,", ":3: this is no JSON" },
		{ "[\n" RANK ",", ":3: this is no JSON" },
		{ "[\n" RANK "]\n" RANK, ":4: the rank is here twice" },
		{ "{\"ph\":\"B\"}\n", ":1: neither a name nor a step" },
		{ "\xef\xbb[]", ":1: this is no JSON" },
		{ "[\n" RANK "{\"ph\":\"M\",\"pid\":0,\"args\":{}}:\n", ":3: a comma or ]" },
		{ "[\n" RANK "{\"a\":},\n", ":3: this is no JSON" },
		{ "[\n" RANK "{\"ph\":\"M\"", ":3: the file was cut" },
		{ "[\n" RANK "{\"ph\":\"B\"},\n", ":3: neither a name nor a step" },
		{ "[\n" RANK "5,\n", ":3: neither a name nor a step" },
		{ "[\n" STEP, ":2: no event names the rank of this \"pid\"" },
		{ "[\n" RANK RANK, ":3: the rank is here twice" },
		{ "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":{}},\n",
			":2: no \"ranks\": an older Rondo wrote this trace" },
		{ "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":{\"comm\":\"0\","
		  "\"rank\":2,\"ranks\":2}},\n",
			":2: \"rank\" must be a whole number from 0 to 1" },
		{ "[\n" RANK
		  "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":8,\"args\":{}},\n",
			":3: \"tid\" must be a whole number from 0 to 7" },
		{ "[\n" RANK STEP STEP,
			":4: line 3 has the same step: rank 0, call 3, piece 0, step 0" },
		{ "[\n" RANK STEP_OF("1e3", "0", TIMES), ":3: \"ts\" must be microseconds" },
		{ "[\n" RANK STEP_OF("9999999999999999.999", "0", TIMES), ":3: \"ts\" must be" },
		{ "[\n" RANK STEP_OF("1.000", "-1", TIMES), ":3: \"piece\" must be a whole" },
		{ "[\n" RANK STEP_OF("1.000", "0", "\"wait_us\":-0.001,\"work_us\":0.000"),
			":3: \"wait_us\" must be" },
		{ "[\n" RANK "{\"name\":\"a\\u001b[2J\",\"cat\":\"barrier\",\"ph\":\"X\",\"pid\":0,"
		  "\"tid\":0,\"args\":{}},\n",
			":3: a wrong \"name\", or too many of them" },
		{ "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":"
		  "{\"comm\":\"0\\t1\",\"rank\":0,\"ranks\":2}},\n",
			":2: a wrong \"comm\", or too many of them" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct plan_trace *trace;

		cr_expect_eq(read_text(&trace, wrong[i].text), RONDO_INVALID, "%s", wrong[i].text);
		cr_expect(strstr(rondo_last_error(), wrong[i].reason), "'%s', not '%s'",
			rondo_last_error(), wrong[i].reason);
		cr_expect_null(trace);
	}
}

Test(plan_trace_file, an_event_beyond_the_bound_is_refused)
{
	char text[2 * PLAN_TRACE_EVENT_BYTES] = "[\n{\"name\":\"";
	struct plan_trace *trace;

	memset(text + strlen(text), 'a', PLAN_TRACE_EVENT_BYTES);
	cr_expect_eq(read_text(&trace, text), RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), ":2: an event has more than 4096 bytes"), "%s",
		rondo_last_error());
}
