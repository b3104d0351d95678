#include "train/metrics/report.h"

#include <stdarg.h>
#include <unistd.h>

#include "train/base/clock.h"

#define PROGRESS_EVERY_S 0.1

void report_init(struct report *report, FILE *out)
{
	*report = (struct report){
		.out = out, .terminal = out && isatty(fileno(out)), .unit = "images", .units = 1
	};
}

/* Wipes the progress line off the terminal. */
static void wipe(struct report *report)
{
	if (report->terminal)
		fputs("\r\033[K", report->out);
}

void report_line(struct report *report, const char *format, ...)
{
	va_list arguments;
	if (!report->out)
		return;
	wipe(report);
	va_start(arguments, format);
	vfprintf(report->out, format, arguments);
	va_end(arguments);
	fputc('\n', report->out);
	fflush(report->out);
}

void report_model(struct report *report, const struct model *model)
{
	if (report->out)
		model_print(model, report->out);
}

void report_epoch(struct report *report, uint64_t epoch, size_t done)
{
	report->epoch_start = done;
	report->epoch_start_s = clock_seconds();
	report_line(
		report, "Epoch %llu\n-------------------------------", (unsigned long long)epoch);
}

void report_loss(struct report *report, const struct totals *totals, size_t done, size_t count,
	int64_t step, double speed)
{
	report_line(report, "loss: %7f  [%5zu/%5zu]  step %lld, %.0f %s/s",
		totals->loss / totals->count, done, count, (long long)step,
		speed * (double)report->units, report->unit);
}

/* Labels a second since the epoch began. */
static double epoch_speed(const struct report *report, size_t done, double now_s)
{
	return (double)((done - report->epoch_start) * report->units) /
	       (now_s - report->epoch_start_s);
}

void report_progress(struct report *report, size_t done, size_t count)
{
	if (!report->terminal)
		return;
	double now_s = clock_seconds();
	if (now_s - report->progress_s < PROGRESS_EVERY_S)
		return;
	report->progress_s = now_s;
	wipe(report);
	fprintf(report->out, "  %zu/%zu samples, %.0f %s/s", done, count,
		epoch_speed(report, done, now_s), report->unit);
	fflush(report->out);
}

void report_speed(struct report *report, size_t done, double busy_s, double wait_s)
{
	double speed = epoch_speed(report, done, clock_seconds());
	double hidden = wait_s < busy_s ? 100 * (1 - wait_s / busy_s) : 0;
	if (busy_s > 0)
		report_line(report,
			"%.0f %s/s; communication %.2f s, %.0f %% hidden behind backward", speed,
			report->unit, busy_s, hidden);
	else
		report_line(report, "%.0f %s/s", speed, report->unit);
}

void report_test(struct report *report, const struct totals *totals)
{
	report_line(report, "Test Error: \n Accuracy: %.1f%%, Avg loss: %.6f \n",
		100 * totals->correct / totals->count, totals->loss / totals->count);
}
