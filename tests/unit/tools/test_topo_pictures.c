/* rondo-topo's pictures. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file_tree.h"
#include "program.h"
#include "text.h"

#define FIXTURE(name) RONDO_TOPOLOGIES "/" name ".json"

/* Elements end in order, and all coordinates are numbers. */
static void assert_valid_svg(const char *svg)
{
	int open = 0;

	cr_assert(!strncmp(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\"", 38));
	for (const char *at = strchr(svg, '<'); at; at = strchr(at + 1, '<')) {
		const char *end = strchr(at, '>');
		cr_assert_not_null(end);
		open += at[1] == '/' ? -1 : end[-1] == '/' ? 0 : 1;
		cr_assert(open > 0 || !strcmp(at, "</svg>\n"), "outside: %.40s", at);
	}
	cr_assert_eq(open, 0);
	cr_assert_null(strstr(svg, "nan"));
	cr_assert_null(strstr(svg, "inf"));
	cr_assert_eq(count_of(svg, "&"), count_of(svg, "&#"));
}

Test(topo_pictures, a_picture_has_every_device_rank_and_edge, .init = tree_begin, .fini = tree_end)
{
	struct run drawn = run("--load", FIXTURE("dgx"), "--ranks", "8", "--svg", tree_file, NULL);

	assert_went_well(&drawn);
	cr_assert_str_empty(drawn.out);
	char *svg = file_text_at(tree_file);
	assert_valid_svg(svg);
	cr_assert_eq(count_of(svg, "class=\"gpu\""), 8);
	cr_assert_eq(count_of(svg, "class=\"nic\""), 11);
	cr_assert_eq(count_of(svg, "class=\"switch\""), 8);
	cr_assert_eq(count_of(svg, "class=\"bridge\""), 11);
	cr_assert_eq(count_of(svg, "class=\"nvswitch\""), 1);
	cr_assert_eq(count_of(svg, "class=\"numa\""), 2);
	cr_assert_eq(count_of(svg, "class=\"core\""), 112);
	cr_assert_eq(count_of(svg, "class=\"rank\""), 3 * 8);
	/* 8 links to the switch, 8 edges of the ring, 7 of each tree, and one in the legend. */
	cr_assert_eq(count_of(svg, "class=\"d1\""), 8 + 8 + 2 * 7 + 1);
}

Test(topo_pictures, a_card_of_two_functions_is_drawn_without_a_switch)
{
	struct run drawn = run("--load", FIXTURE("two_nodes"), "--svg", "-", NULL);

	assert_went_well(&drawn);
	cr_assert_eq(count_of(drawn.out, "class=\"switch\""), 4, "one for each pair of GPUs");
	cr_assert_eq(count_of(drawn.out, "class=\"bridge\""), 6);
	cr_assert_eq(count_of(drawn.out, "class=\"nic\""), 2);
	cr_assert_eq(count_of(drawn.out, "class=\"off\""), 2);
	cr_assert_eq(count_of(drawn.out, "class=\"network\""), 1);
}

Test(topo_pictures, pictures_of_all_fixtures_are_sound)
{
	static const char *const names[] = { "dgx", "workstation", "two_nodes", "vm" };
	static const char *const ranks[] = { "1", "2", "8", "65" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		for (size_t j = 0; j < sizeof(ranks) / sizeof(*ranks); j++) {
			char path[512];
			snprintf(path, sizeof(path), "%s/%s.json", RONDO_TOPOLOGIES, names[i]);
			struct run drawn =
				run("--load", path, "--ranks", ranks[j], "--svg", "-", NULL);
			assert_went_well(&drawn);
			assert_valid_svg(drawn.out);
		}
	}
}

Test(topo_pictures, what_xml_gives_a_meaning_is_escaped, .init = tree_begin, .fini = tree_end)
{
	static const char text[] =
		"{\"rondo_topology\": 1, \"hosts\": [{\"name\": \"<a&b>\", \"numa\": "
		"[{\"cpus\": \"0\"}]}]}";
	FILE *out = fopen(tree_file, "w");

	fputs(text, out);
	fclose(out);
	struct run drawn = run("--load", tree_file, "--svg", "-", NULL);
	assert_went_well(&drawn);
	assert_valid_svg(drawn.out);
	cr_assert_not_null(strstr(drawn.out, ">&#60;a&#38;b&#62;<"));
}
