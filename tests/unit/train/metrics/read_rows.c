#include "train/metrics/read_rows.h"

#include <criterion/criterion.h>
#include <string.h>

struct rows read_rows(const char *path)
{
	struct rows rows = { 0 };
	const struct metrics_format *format = metrics_format_of(path);
	char line[1024], *end;
	FILE *file = fopen(path, "r");
	cr_assert(file, "%s", path);
	while (fgets(line, sizeof(line), file) && (end = strchr(line, '\n'))) {
		*end = '\0';
		bool is_head = !rows.size && format->head_line;
		rows.size += end - line + 1;
		if (is_head)
			cr_assert_str_eq(line, format->head_line);
		else
			cr_assert(format->read_row(line, &rows.rows[rows.count++]), "%s", line);
	}
	fclose(file);
	return rows;
}
