#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/base/fail.h"
#include "train/data/sets.h"
#include "train/scratch.h"

TestSuite(sets, .init = scratch_make, .fini = scratch_remove);

static void put_files(const char *dir)
{
	char name[128];
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "%s%s.gz", dir, data_idx.files[i]);
		scratch_write(name, "", 0);
	}
}

static void make_dir(const char *name)
{
	cr_assert_eq(mkdir(scratch_path(name), 0755), 0);
}

/* Where set_find() found it; NULL: nowhere. */
static const char *found_at(const char *root, const struct set *set, const struct data_kind *kind)
{
	static struct data_source source;
	cr_assert_eq(set_find(&source, scratch_path(root), set, kind), 0, "%s", failure());
	cr_assert_eq(source.kind, set ? set->kind : kind);
	return source.path[0] ? source.path : NULL;
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
	cr_assert_str_eq(found_at("", NULL, &data_idx), scratch_path("MNIST/raw"));
	cr_assert_str_eq(found_at("", set_named("digits"), NULL), scratch_path("MNIST/raw"));
	cr_assert_null(found_at("", set_named("fashion"), NULL));
	cr_assert_null(found_at("", set_named("drawn"), NULL));
}

Test(sets, files_in_the_directory_itself_are_the_set)
{
	cr_assert_null(found_at("", NULL, &data_idx));
	cr_assert_null(found_at("absent", NULL, &data_idx));
	put_files("");
	cr_assert_str_eq(found_at("", set_named("fashion"), NULL), scratch_path(""));
}

Test(sets, a_set_that_lacks_a_file_is_an_error_that_names_it)
{
	static const char *const dirs[] = { "", "FashionMNIST/", "MNIST/raw/", "drawn/" };
	static const char *const names[] = { "", "FashionMNIST", "MNIST/raw", "drawn" };
	struct data_source source;
	char name[128];
	make_dir("FashionMNIST");
	make_dir("MNIST");
	make_dir("MNIST/raw");
	make_dir("drawn");
	for (int d = 0; d < 4; d++) {
		put_files(dirs[d]);
		for (int i = 0; i < 4; i++) {
			snprintf(name, sizeof(name), "%s%s.gz", dirs[d], data_idx.files[i]);
			unlink(scratch_path(name));
			FAILS(set_find(&source, scratch_path(""), NULL, &data_idx),
				data_idx.files[i], "3 of the 4", scratch_path(names[d]));
			scratch_write(name, "", 0);
		}
		for (int i = 0; i < 4; i++) {
			snprintf(name, sizeof(name), "%s%s.gz", dirs[d], data_idx.files[i]);
			unlink(scratch_path(name));
		}
		cr_assert_null(found_at("", NULL, &data_idx));
	}
}

Test(sets, all_missing_files_of_a_set_are_named)
{
	struct data_source source;
	scratch_write(data_idx.files[1], "", 0);
	FAILS(set_find(&source, scratch_path(""), set_named("fashion"), NULL), "1 of the 4",
		data_idx.files[0], data_idx.files[2], data_idx.files[3], scratch_path(""));
	cr_assert_null(strstr(failure(), data_idx.files[1]));
}

Test(sets, one_that_was_asked_for_is_found_beside_one_that_lacks_a_file)
{
	make_dir("FashionMNIST");
	make_dir("MNIST");
	scratch_write("FashionMNIST/train-images-idx3-ubyte", "", 0);
	put_files("MNIST/");
	cr_assert_str_eq(found_at("", set_named("digits"), NULL), scratch_path("MNIST"));
}

Test(sets, digits_are_drawn_where_nothing_else_lies)
{
	const struct set *drawn = set_named("drawn");
	cr_assert_eq(set_may_draw(drawn, scratch_path("absent")), 0);
	cr_assert_eq(set_may_draw(drawn, scratch_path("absent.d/set")), 0);
	FAILS(set_may_draw(drawn, scratch_path("absent.txt")), "No such file or directory");
	cr_assert_eq(set_may_draw(drawn, scratch_path("")), 0);
	make_dir("drawn.XYZ123");
	make_dir("FashionMNIST");
	scratch_write(".keep", "", 0);
	cr_assert_eq(set_may_draw(drawn, scratch_path("")), 0);
	scratch_write("train-images.idx3-ubyte", "", 0);
	FAILS(set_may_draw(drawn, scratch_path("")), "holds train-images.idx3-ubyte",
		scratch_path(""), "--dataset drawn", data_idx.files[0]);
	FAILS(set_may_draw(drawn, scratch_path(".keep")), "Not a directory");
}

static void put_cifar(const char *dir)
{
	char name[128];
	for (int i = 0; i < 6; i++) {
		snprintf(name, sizeof(name), "%s%s", dir, data_cifar.files[i]);
		scratch_write(name, "", 0);
	}
}

Test(sets, each_kind_finds_its_own_files)
{
	put_files("");
	make_dir("cifar-10-batches-bin");
	put_cifar("cifar-10-batches-bin/");
	make_dir("drawn-text");
	scratch_write("drawn-text/text.txt", "", 0);
	cr_assert_str_eq(found_at("", NULL, &data_idx), scratch_path(""));
	cr_assert_str_eq(found_at("", NULL, &data_cifar), scratch_path("cifar-10-batches-bin"));
	cr_assert_str_eq(found_at("", set_named("cifar10"), &data_idx),
		scratch_path("cifar-10-batches-bin"));
	cr_assert_null(found_at("", set_named("drawn-cifar"), NULL));
	cr_assert_str_eq(found_at("", NULL, &data_text), scratch_path("drawn-text"));
	cr_assert_str_eq(found_at("cifar-10-batches-bin", NULL, &data_cifar),
		scratch_path("cifar-10-batches-bin"));
}

Test(sets, a_cifar_set_that_lacks_a_file_is_an_error_that_names_it)
{
	static const char *const dirs[] = { "", "cifar-10-batches-bin/", "drawn-cifar/" };
	struct data_source source;
	char name[128];
	make_dir("cifar-10-batches-bin");
	make_dir("drawn-cifar");
	for (int d = 0; d < 3; d++) {
		put_cifar(dirs[d]);
		for (int i = 0; i < 6; i++) {
			snprintf(name, sizeof(name), "%s%s", dirs[d], data_cifar.files[i]);
			unlink(scratch_path(name));
			FAILS(set_find(&source, scratch_path(""), NULL, &data_cifar),
				data_cifar.files[i], "holds 5 of the 6 files");
			scratch_write(name, "", 0);
		}
		for (int i = 0; i < 6; i++) {
			snprintf(name, sizeof(name), "%s%s", dirs[d], data_cifar.files[i]);
			unlink(scratch_path(name));
		}
	}
	cr_assert_null(found_at("", NULL, &data_cifar));
}

Test(sets, a_file_is_a_text)
{
	struct data_source source;
	scratch_write("novel", "words", 5);
	cr_assert_str_eq(found_at("novel", NULL, &data_text), scratch_path("novel"));
	cr_assert_str_eq(found_at("novel", set_named("text"), &data_idx), scratch_path("novel"));
	FAILS(set_find(&source, scratch_path("novel"), NULL, &data_idx), scratch_path("novel"),
		"is a file, but a set of IDX images is a directory");
	FAILS(set_find(&source, scratch_path("novel"), set_named("cifar10"), NULL),
		"a set of CIFAR-10 images");
	FAILS(set_find(&source, scratch_path("absent"), set_named("text"), NULL),
		scratch_path("absent"), "is not a file: --dataset text needs one");
	FAILS(set_find(&source, scratch_path(""), set_named("text"), NULL), "is not a file");
}

Test(sets, each_kind_has_a_set_to_draw)
{
	cr_assert_str_eq(set_drawn(&data_idx)->name, "drawn");
	cr_assert_str_eq(set_drawn(&data_cifar)->name, "drawn-cifar");
	cr_assert_str_eq(set_drawn(&data_text)->name, "drawn-text");
	cr_assert_str_eq(set_fetched(&data_idx)->name, "fashion");
	cr_assert_str_eq(set_fetched(&data_cifar)->name, "cifar10");
	cr_assert_null(set_fetched(&data_text));
}
