#include "svg.h"

#include <stdarg.h>

void svg_open(FILE *out, double width, double height, const char *style)
{
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
		"viewBox=\"0 0 %.0f %.0f\">\n<style>\n%s</style>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
		width, height, width, height, style);
}

void svg_close(FILE *out)
{
	fprintf(out, "</svg>\n");
}

void svg_box(
	FILE *out, double x, double y, double width, double height, double round, const char *class)
{
	fprintf(out,
		"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%.1f\" "
		"class=\"%s\"/>\n",
		x, y, width, height, round, class);
}

void svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *class)
{
	fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1,
		y1, x2, y2, class);
}

/* A curve of the third degree reaches three quarters of the way to its handles. */
void svg_arc(FILE *out, double from, double to, double y, double depth, const char *class)
{
	double handle = y + depth * 4 / 3, lean = (to - from) * 0.15;

	fprintf(out, "<path d=\"M %.1f %.1f C %.1f %.1f %.1f %.1f %.1f %.1f\" class=\"%s\"/>\n",
		from, y, from + lean, handle, to - lean, handle, to, y, class);
}

void svg_circle(FILE *out, double x, double y, double radius, const char *class)
{
	fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" class=\"%s\"/>\n", x, y, radius,
		class);
}

/* XML gives some characters a meaning, and allows no control characters. */
static void write_escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '<' || *text == '>' || *text == '&')
			fprintf(out, "&#%d;", *text);
		else
			fputc(*text < ' ' || *text > '~' ? '?' : *text, out);
	}
}

void svg_text(FILE *out, double x, double y, const char *anchor, const char *class,
	const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor,
		class);
	write_escaped(out, text);
	fprintf(out, "</text>\n");
}

void svg_text_upwards(FILE *out, double x, double y, const char *class, const char *text)
{
	fprintf(out,
		"<text transform=\"translate(%.1f %.1f) rotate(-90)\" text-anchor=\"middle\" "
		"class=\"%s\">",
		x, y, class);
	write_escaped(out, text);
	fprintf(out, "</text>\n");
}
