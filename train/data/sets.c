#include "train/data/sets.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "train/base/fail.h"
#include "train/data/draw.h"
#include "train/data/folder.h"

/* The same set for all: --seed changes the training only. */
#define DRAW_SEED 28

static const struct set sets[] = {
	/* https://github.com/zalandoresearch/fashion-mnist, "Get the Data" */
	{ .name = "fashion",
		.title = "FashionMNIST",
		.kind = &data_idx,
		.url = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
		.downloads = { { "train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d" },
			{ "train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe" },
			{ "t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79" },
			{ "t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310" } } },
	/* http://yann.lecun.com/exdb/mnist/, and the mirror that torchvision uses */
	{ .name = "digits",
		.title = "MNIST",
		.kind = &data_idx,
		.url = "https://ossci-datasets.s3.amazonaws.com/mnist",
		.downloads = { { "train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873" },
			{ "train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432" },
			{ "t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3" },
			{ "t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c" } } },
	{ .name = "drawn",
		.title = "drawn",
		.kind = &data_idx,
		.draw = draw_digits_set,
		.train_count = 60000,
		.test_count = 10000,
		.samples = "digits" },
	/* https://www.cs.toronto.edu/~kriz/cifar.html, "CIFAR-10 binary version" */
	{ .name = "cifar10",
		.title = "cifar-10-batches-bin",
		.kind = &data_cifar,
		.url = "https://www.cs.toronto.edu/~kriz",
		.downloads = { { "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530" } } },
	{ .name = "drawn-cifar",
		.title = "drawn-cifar",
		.kind = &data_cifar,
		.draw = draw_coloured_set,
		.train_count = 50000,
		.test_count = 10000,
		.samples = "images" },
	{ .name = "text", .kind = &data_text },
	{ .name = "drawn-text",
		.title = "drawn-text",
		.kind = &data_text,
		.draw = draw_text_set,
		.train_count = 900000,
		.test_count = 100000,
		.samples = "bytes of text" },
};
#define SET_COUNT ((int)(sizeof(sets) / sizeof(sets[0])))

const char *set_name(int index)
{
	return index < SET_COUNT ? sets[index].name : NULL;
}

const struct set *set_named(const char *name)
{
	for (int i = 0; i < SET_COUNT; i++) {
		if (!strcmp(sets[i].name, name))
			return &sets[i];
	}
	return NULL;
}

const struct set *set_drawn(const struct data_kind *kind)
{
	for (int i = 0; i < SET_COUNT; i++) {
		if (sets[i].kind == kind && sets[i].draw)
			return &sets[i];
	}
	return NULL;
}

const struct set *set_fetched(const struct data_kind *kind)
{
	for (int i = 0; i < SET_COUNT; i++) {
		if (sets[i].kind == kind && sets[i].url)
			return &sets[i];
	}
	return NULL;
}

/* ---- Finding ---- */

/* Sets source->path to dir if that holds the files. */
static int try_folder(struct data_source *source, bool *found, const char *root, const char *title,
	const char *ending)
{
	int length = snprintf(source->path, sizeof(source->path), "%s%s%s%s", root,
		*title ? "/" : "", title, ending);
	if (length >= (int)sizeof(source->path))
		return fail("%s: the name is too long", root);
	int err = data_find(found, source->path, source->kind);
	if (!err && !*found)
		source->path[0] = '\0';
	return err;
}

/* A file of the user's: a text. */
static int take_file(struct data_source *source, const char *root)
{
	if (source->kind != &data_text)
		return fail("--data %s: is a file, but a set of %s images is a directory", root,
			source->kind->name);
	if (snprintf(source->path, sizeof(source->path), "%s", root) >= (int)sizeof(source->path))
		return fail("%s: the name is too long", root);
	return 0;
}

int set_find(struct data_source *source, const char *root, const struct set *set,
	const struct data_kind *kind)
{
	struct stat about;
	bool found;
	source->kind = set ? set->kind : kind;
	source->path[0] = '\0';
	if (!stat(root, &about) && S_ISREG(about.st_mode))
		return take_file(source, root);
	if (set && !set->title)
		return fail("--data %s: is not a file: --dataset %s needs one", root, set->name);
	int err = try_folder(source, &found, root, "", "");
	for (int i = 0; !err && !found && i < SET_COUNT; i++) {
		if (!sets[i].title || sets[i].kind != source->kind || (set && set != &sets[i]))
			continue;
		err = try_folder(source, &found, root, sets[i].title, "");
		if (!err && !found)
			err = try_folder(source, &found, root, sets[i].title, "/raw");
	}
	return err;
}

/* ---- Drawing ---- */

/* Whether it is hidden, or a set's folder, or a draft of one (folder.h). */
static bool is_of_sets(const char *name)
{
	for (int i = 0; i < SET_COUNT; i++) {
		size_t length = sets[i].title ? strlen(sets[i].title) : 0;
		if (length && !strncmp(name, sets[i].title, length) &&
			(!name[length] || name[length] == '.'))
			return true;
	}
	return name[0] == '.';
}

/* "book.txt": a file's name, and probably a misspelt one. */
static bool has_extension(const char *path)
{
	const char *name = strrchr(path, '/');
	name = name ? name + 1 : path;
	return name[0] && name[1] && strchr(name + 1, '.') && strspn(name, ".") < strlen(name);
}

int set_may_draw(const struct set *set, const char *root)
{
	DIR *directory = opendir(root);
	struct dirent *entry;
	int err = 0;
	if (!directory && (errno != ENOENT || has_extension(root)))
		return fail("%s: %s", root, strerror(errno));
	if (!directory)
		return 0;
	while (!err && (entry = readdir(directory))) {
		if (!is_of_sets(entry->d_name))
			err = fail("%s: holds %s, but none of the files of a data set, such as %s "
				   "(--dataset %s draws one there)",
				root, entry->d_name, set->kind->files[0], set->name);
	}
	closedir(directory);
	return err;
}

int set_draw(const struct set *set, const char *root, size_t train_count, size_t test_count)
{
	char draft[PATH_MAX];
	int err = folder_make(root);
	if (!err)
		err = folder_begin(draft, root, set->title);
	if (err)
		return err;
	err = set->draw(draft, train_count, test_count, DRAW_SEED);
	if (!err)
		err = folder_publish(draft, root, set->title, set->kind);
	folder_remove(draft);
	return err;
}
