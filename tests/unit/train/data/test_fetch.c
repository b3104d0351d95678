#include <criterion/criterion.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "train/base/fail.h"
#include "train/base/hash.h"
#include "train/data/fetch.h"
#include "train/scratch.h"

TestSuite(fetch, .init = scratch_make, .fini = scratch_remove, .timeout = 60);

/* curl alone fetches from a file. */
static void need_curl(void)
{
	if (system("command -v curl >/dev/null 2>&1"))
		cr_skip_test("curl is not installed");
}

static void make_dir(const char *name)
{
	cr_assert_eq(mkdir(scratch_path(name), 0755), 0);
}

Test(fetch, a_fetched_file_must_have_its_published_hash)
{
	char mirror[PATH_MAX];
	need_curl();
	make_dir("mirror");
	for (int i = 0; i < 4; i++) {
		char name[128];
		snprintf(name, sizeof(name), "mirror/%s.gz", data_idx.files[i]);
		scratch_write(name, "", 0);
	}
	snprintf(mirror, sizeof(mirror), "file://%s", scratch_path("mirror"));
	cr_assert_neq(fetch_set(set_named("fashion"), scratch_path("data"), mirror), 0);
	cr_assert(strstr(failure(), "not the published file"), "%s", failure());
	cr_assert(strstr(failure(), "8d4fb7e6c68d591d4c3dfef9ec88bf0d"));
	/* The mirror and its files, and the directories made for the set: no file in them. */
	cr_assert_eq(scratch_count(), 5 + 3);
}

Test(fetch, a_fetched_set_is_kept_and_not_fetched_twice)
{
	struct data_source source;
	char mirror[PATH_MAX], hashes[4][33];
	struct set set = { .title = "FashionMNIST", .kind = &data_idx, .url = "file:///nowhere" };
	need_curl();
	signal(SIGCHLD, SIG_IGN); /* as a daemon hands it down */
	make_dir("mirror");
	for (int i = 0; i < 4; i++) {
		char name[128];
		snprintf(name, sizeof(name), "mirror/%s", data_idx.files[i]);
		scratch_write(name, data_idx.files[i], strlen(data_idx.files[i]));
		cr_assert_eq(hash_md5_file(hashes[i], scratch_path(name)), 0);
		set.downloads[i] = (struct set_download){ data_idx.files[i], hashes[i] };
	}
	snprintf(mirror, sizeof(mirror), "file://%s", scratch_path("mirror"));
	cr_assert_eq(fetch_set(&set, scratch_path("data"), mirror), 0, "%s", failure());
	cr_assert_eq(set_find(&source, scratch_path("data"), set_named("fashion"), NULL), 0);
	cr_assert_str_eq(source.path, scratch_path("data/FashionMNIST/raw"));
	/* From no address: complete files are not fetched. */
	cr_assert_eq(fetch_set(&set, scratch_path("data"), NULL), 0, "%s", failure());
	cr_assert_eq(scratch_count(), 5 + 3 + 4);
	scratch_write("data/FashionMNIST/raw/t10k-labels-idx1-ubyte", "wrong", 5);
	cr_assert_neq(fetch_set(&set, scratch_path("data"), NULL), 0);
	cr_assert(strstr(failure(), "cannot be fetched"), "%s", failure());
}

/* Makes mirror/mine.tar.gz of these files of a CIFAR-10 set, and its hash. */
static void make_archive(const char *files, char hash[33])
{
	char command[2 * PATH_MAX];
	make_dir("mirror");
	make_dir("mirror/mine");
	snprintf(command, sizeof(command),
		"cd '%s' && (cd mine && touch readme.html %s) && tar -czf mine.tar.gz mine",
		scratch_path("mirror"), files);
	cr_assert_eq(system(command), 0);
	cr_assert_eq(hash_md5_file(hash, scratch_path("mirror/mine.tar.gz")), 0);
}

Test(fetch, an_archive_is_checked_and_unpacked_to_its_folder)
{
	char mirror[PATH_MAX], hash[33];
	struct set set = { .title = "mine",
		.kind = &data_cifar,
		.url = "file:///nowhere",
		.downloads = { { "mine.tar.gz", hash } } };
	need_curl();
	make_archive("data_batch_1.bin data_batch_2.bin data_batch_3.bin data_batch_4.bin "
		     "data_batch_5.bin test_batch.bin",
		hash);
	snprintf(mirror, sizeof(mirror), "file://%s", scratch_path("mirror"));
	int before = scratch_count();
	cr_assert_eq(fetch_set(&set, scratch_path("data"), mirror), 0, "%s", failure());
	bool found;
	cr_assert_eq(data_find(&found, scratch_path("data/mine"), &data_cifar), 0);
	cr_assert(found);
	/* data, mine and seven files: neither the archive nor a draft. */
	cr_assert_eq(scratch_count() - before, 9);
	/* From no address: it is there already. */
	cr_assert_eq(fetch_set(&set, scratch_path("data"), NULL), 0, "%s", failure());
	hash[0] = hash[0] == '0' ? '1' : '0';
	cr_assert_neq(fetch_set(&set, scratch_path("other"), mirror), 0);
	cr_assert(strstr(failure(), "not the published file"), "%s", failure());
	cr_assert_eq(scratch_count() - before, 9 + 1);
}

Test(fetch, an_archive_that_is_none_leaves_nothing)
{
	char mirror[PATH_MAX], hash[33];
	struct set set = { .title = "mine",
		.kind = &data_cifar,
		.url = "file:///nowhere",
		.downloads = { { "mine.tar.gz", hash } } };
	need_curl();
	make_dir("mirror");
	scratch_write("mirror/mine.tar.gz", "none", 4);
	cr_assert_eq(hash_md5_file(hash, scratch_path("mirror/mine.tar.gz")), 0);
	snprintf(mirror, sizeof(mirror), "file://%s", scratch_path("mirror"));
	cr_assert_neq(fetch_set(&set, scratch_path("data"), mirror), 0);
	cr_assert(strstr(failure(), "mine.tar.gz: tar cannot unpack it"), "%s", failure());
	cr_assert_eq(scratch_count(), 2 + 1);
}
