/* The lines of a training run. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "train/base/fail.h"
#include "train/metrics/places.h"
#include "train/metrics/report.h"

static char *text; /* rank 0's, shared with the ranks */
#define TEXT_SIZE 8192

static void share(void)
{
	text = mmap(NULL, TEXT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(text, MAP_FAILED);
}

TestSuite(report, .init = share, .timeout = 60);

static FILE *open_report(struct report *report)
{
	FILE *out = fmemopen(text, TEXT_SIZE, "w");
	report_init(report, out);
	return out;
}

Test(report, a_loss_line_counts_as_the_tutorial_does)
{
	struct report report;
	struct totals totals = { .loss = 2.303494 * 64, .count = 64 };
	FILE *out = open_report(&report);
	report_loss(&report, &totals, 6400, 60000, 100, 12345.6);
	report.unit = "tokens";
	report.units = 64;
	report_loss(&report, &totals, 60000, 60000, 1938, 10);
	fclose(out);
	cr_assert_str_eq(text, "loss: 2.303494  [ 6400/60000]  step 100, 12346 images/s\n"
			       "loss: 2.303494  [60000/60000]  step 1938, 640 tokens/s\n");
}

Test(report, the_speed_of_a_resumed_epoch_leaves_out_the_samples_before)
{
	struct report report;
	FILE *out = open_report(&report);
	report_epoch(&report, 2, 5000);
	report.epoch_start_s -= 1e6;
	report_speed(&report, 10005000, 0, 0);
	fclose(out);
	cr_assert(strstr(text, "\n10 images/s\n"), "%s", text);
}

/* ---- Places ---- */

static const char *device_of(int rank)
{
	static char device[32];
	snprintf(device, sizeof(device), "cuda:%d (a GPU)", rank % 4);
	return device;
}

static int run_rank(void *device)
{
	struct train_world world;
	struct report report;
	int err = world_open(&world, -1);
	FILE *out = err || world.rank ? NULL : open_report(&report);
	if (!out)
		report_init(&report, NULL);
	if (!err)
		err = places_report(
			&report, &world, world.rank + 100, device ? device : device_of(world.rank));
	err = world_close(&world, err);
	if (out)
		fclose(out);
	if (err)
		fprintf(stderr, "%s\n", failure());
	return err != 0;
}

static void expect_line(const char *format, const char *host)
{
	char line[512];
	snprintf(line, sizeof(line), format, host);
	cr_assert(strstr(text, line), "'%s' is not in: %s", line, text);
}

static int line_count(void)
{
	int count = 0;
	for (const char *at = text; *at; at++)
		count += *at == '\n';
	return count;
}

Test(report, every_rank_has_a_line_with_its_place)
{
	char host[128];
	gethostname(host, sizeof(host));
	cr_assert_eq(rondo_spawn(3, run_rank, NULL), 0);
	expect_line("[rank 0] host %s local rank 100 device cuda:0 (a GPU)\n[rank 1] ", host);
	expect_line("[rank 2] host %s local rank 102 device cuda:2 (a GPU)\n", host);
	cr_assert_eq(line_count(), 3);
}

Test(report, many_ranks_have_a_line_for_each_host)
{
	char host[128];
	gethostname(host, sizeof(host));
	cr_assert_eq(rondo_spawn(PLACES_LINES + 1, run_rank, "cpu"), 0);
	expect_line("[ranks 0-16] host %s local ranks 100-116 device cpu\n", host);
	cr_assert_eq(line_count(), 1);
	cr_assert_eq(rondo_spawn(PLACES_LINES + 2, run_rank, NULL), 0);
	expect_line("local ranks 100-117 devices cuda:0 (a GPU) to cuda:1 (a GPU)\n", host);
}

Test(report, a_rank_alone_has_a_line)
{
	struct report report;
	struct train_world alone = { .size = 1 };
	FILE *out = open_report(&report);
	cr_assert_eq(places_report(&report, &alone, 0, "cpu (2 threads)"), 0);
	fclose(out);
	expect_line("[rank 0] host ", "");
	expect_line(" local rank 0 device cpu (2 threads)\n", "");
}
