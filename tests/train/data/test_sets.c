#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/data/data.h"
#include "train/base/fail.h"
#include "train/base/hash.h"
#include "train/scratch.h"
#include "train/data/sets.h"

TestSuite(sets, .init = scratch_make, .fini = scratch_remove);

static void put_files(const char *dir)
{
	char name[128];
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "%s%s.gz", dir, data_files[i]);
		scratch_write(name, "", 0);
	}
}

static void make_dir(const char *name)
{
	cr_assert_eq(mkdir(scratch_path(name), 0755), 0);
}

/* Where set_find() found it; NULL: nowhere. */
static const char *found_at(const char *root, const struct set *set)
{
	static char dir[PATH_MAX];
	cr_assert_eq(set_find(dir, sizeof(dir), scratch_path(root), set), 0, "%s", failure());
	return dir[0] ? dir : NULL;
}

/* A failure, in one line with all these words; NULL ends them. */
static void expect_failure(int err, const char *const *words)
{
	cr_assert_neq(err, 0);
	for (; *words; words++)
		cr_assert(strstr(failure(), *words), "'%s' is not in: %s", *words, failure());
	cr_assert_null(strchr(failure(), '\n'));
}

#define FAILS(err, ...) expect_failure(err, (const char *const[]){ __VA_ARGS__, NULL })

Test(sets, a_set_is_found_where_torchvision_puts_it)
{
	make_dir("MNIST");
	make_dir("MNIST/raw");
	put_files("MNIST/raw/");
	cr_assert_str_eq(found_at("", NULL), scratch_path("MNIST/raw"));
	cr_assert_str_eq(found_at("", set_named("digits")), scratch_path("MNIST/raw"));
	cr_assert_null(found_at("", set_named("fashion")));
	cr_assert_null(found_at("", set_named("drawn")));
}

Test(sets, files_in_the_directory_itself_are_the_set)
{
	cr_assert_null(found_at("", NULL));
	cr_assert_null(found_at("absent", NULL));
	put_files("");
	cr_assert_str_eq(found_at("", set_named("fashion")), scratch_path(""));
}

Test(sets, a_set_that_lacks_a_file_is_an_error_that_names_it)
{
	static const char *const dirs[] = { "", "FashionMNIST/", "MNIST/raw/", "drawn/" };
	static const char *const names[] = { "", "FashionMNIST", "MNIST/raw", "drawn" };
	char dir[PATH_MAX], name[128];
	make_dir("FashionMNIST");
	make_dir("MNIST");
	make_dir("MNIST/raw");
	make_dir("drawn");
	for (int d = 0; d < 4; d++) {
		put_files(dirs[d]);
		for (int i = 0; i < 4; i++) {
			snprintf(name, sizeof(name), "%s%s.gz", dirs[d], data_files[i]);
			unlink(scratch_path(name));
			FAILS(set_find(dir, sizeof(dir), scratch_path(""), NULL), data_files[i],
				"3 of the 4", scratch_path(names[d]));
			scratch_write(name, "", 0);
		}
		for (int i = 0; i < 4; i++) {
			snprintf(name, sizeof(name), "%s%s.gz", dirs[d], data_files[i]);
			unlink(scratch_path(name));
		}
		cr_assert_null(found_at("", NULL));
	}
}

Test(sets, all_missing_files_of_a_set_are_named)
{
	char dir[PATH_MAX];
	scratch_write(data_files[1], "", 0);
	FAILS(set_find(dir, sizeof(dir), scratch_path(""), set_named("fashion")), "1 of the 4",
		data_files[0], data_files[2], data_files[3], scratch_path(""));
	cr_assert_null(strstr(failure(), data_files[1]));
}

Test(sets, one_that_was_asked_for_is_found_beside_one_that_lacks_a_file)
{
	make_dir("FashionMNIST");
	make_dir("MNIST");
	scratch_write("FashionMNIST/train-images-idx3-ubyte", "", 0);
	put_files("MNIST/");
	cr_assert_str_eq(found_at("", set_named("digits")), scratch_path("MNIST"));
}

Test(sets, digits_are_drawn_where_nothing_else_lies)
{
	cr_assert_eq(set_may_draw(scratch_path("absent")), 0);
	cr_assert_eq(set_may_draw(scratch_path("")), 0);
	make_dir("drawn.XYZ123");
	make_dir("FashionMNIST");
	scratch_write(".keep", "", 0);
	cr_assert_eq(set_may_draw(scratch_path("")), 0);
	scratch_write("train-images.idx3-ubyte", "", 0);
	FAILS(set_may_draw(scratch_path("")), "holds train-images.idx3-ubyte", scratch_path(""),
		"--dataset drawn", data_files[0]);
	FAILS(set_may_draw(scratch_path(".keep")), "Not a directory");
}

Test(sets, a_fetched_file_must_have_its_published_hash)
{
	char mirror[PATH_MAX];
	/* curl alone fetches from a file. */
	if (system("command -v curl >/dev/null 2>&1"))
		cr_skip_test("curl is not installed");
	make_dir("mirror");
	put_files("mirror/");
	snprintf(mirror, sizeof(mirror), "file://%s", scratch_path("mirror"));
	cr_assert_neq(set_fetch(set_named("fashion"), scratch_path("data"), mirror), 0);
	cr_assert(strstr(failure(), "not the published file"), "%s", failure());
	cr_assert(strstr(failure(), "8d4fb7e6c68d591d4c3dfef9ec88bf0d"));
	/* The mirror and its files, and the directories made for the set: no file in them. */
	cr_assert_eq(scratch_count(), 5 + 3);
}

Test(sets, a_fetched_set_is_kept_and_not_fetched_twice)
{
	char mirror[PATH_MAX], hashes[4][33];
	struct set set = { "mine", "FashionMNIST", "file:///nowhere", { { NULL, NULL } } };
	if (system("command -v curl >/dev/null 2>&1"))
		cr_skip_test("curl is not installed");
	make_dir("mirror");
	for (int i = 0; i < 4; i++) {
		char name[128];
		snprintf(name, sizeof(name), "mirror/%s", data_files[i]);
		scratch_write(name, data_files[i], strlen(data_files[i]));
		cr_assert_eq(hash_md5_file(hashes[i], scratch_path(name)), 0);
		set.files[i] = (struct set_file){ data_files[i], hashes[i] };
	}
	snprintf(mirror, sizeof(mirror), "file://%s", scratch_path("mirror"));
	cr_assert_eq(set_fetch(&set, scratch_path("data"), mirror), 0, "%s", failure());
	cr_assert_not_null(found_at("data", set_named("fashion")));
	/* From no address: complete files are not fetched. */
	cr_assert_eq(set_fetch(&set, scratch_path("data"), NULL), 0, "%s", failure());
	cr_assert_eq(scratch_count(), 5 + 3 + 4);
	scratch_write("data/FashionMNIST/raw/t10k-labels-idx1-ubyte", "wrong", 5);
	cr_assert_neq(set_fetch(&set, scratch_path("data"), NULL), 0);
	cr_assert(strstr(failure(), "cannot be fetched"), "%s", failure());
}
