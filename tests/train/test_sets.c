#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data.h"
#include "fail.h"
#include "hash.h"
#include "scratch.h"
#include "sets.h"

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

Test(sets, a_set_is_found_where_torchvision_puts_it)
{
	char dir[PATH_MAX];
	make_dir("MNIST");
	make_dir("MNIST/raw");
	put_files("MNIST/raw/");
	cr_assert(set_find(dir, sizeof(dir), scratch_path(""), NULL));
	cr_assert_str_eq(dir, scratch_path("MNIST/raw"));
	cr_assert(set_find(dir, sizeof(dir), scratch_path(""), set_named("digits")));
	cr_assert_not(set_find(dir, sizeof(dir), scratch_path(""), set_named("fashion")));
	cr_assert_not(set_find(dir, sizeof(dir), scratch_path(""), set_named("drawn")));
}

Test(sets, files_in_the_directory_itself_are_the_set)
{
	char dir[PATH_MAX];
	cr_assert_not(set_find(dir, sizeof(dir), scratch_path(""), NULL));
	put_files("");
	cr_assert(set_find(dir, sizeof(dir), scratch_path(""), set_named("fashion")));
	cr_assert_str_eq(dir, scratch_path(""));
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
	char mirror[PATH_MAX], hashes[4][33], dir[PATH_MAX];
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
	cr_assert(set_find(dir, sizeof(dir), scratch_path("data"), set_named("fashion")));
	/* From nowhere: what is there and right is enough. */
	cr_assert_eq(set_fetch(&set, scratch_path("data"), NULL), 0, "%s", failure());
	cr_assert_eq(scratch_count(), 5 + 3 + 4);
	scratch_write("data/FashionMNIST/raw/t10k-labels-idx1-ubyte", "wrong", 5);
	cr_assert_neq(set_fetch(&set, scratch_path("data"), NULL), 0);
	cr_assert(strstr(failure(), "cannot be fetched"), "%s", failure());
}
