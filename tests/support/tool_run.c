#include "tool_run.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <unistd.h>

#include "program.h"
#include "text.h"

struct run run_tool(const char *path, ...)
{
	struct program program = program_files();
	va_list args;

	va_start(args, path);
	program_start_list(&program, path, args);
	va_end(args);
	program_finish(&program);

	struct run run = { program.status, file_text(program.out), file_text(program.err) };

	close(program.out);
	close(program.err);
	return run;
}

void assert_went_well(const struct run *run)
{
	cr_assert_eq(run->status, 0, "%s", run->err);
	cr_assert_str_empty(run->err);
}
