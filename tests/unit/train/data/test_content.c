#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train/base/fail.h"
#include "train/base/rng.h"
#include "train/data/content.h"
#include "train/scratch.h"

TestSuite(content, .init = scratch_make, .fini = scratch_remove, .timeout = 60);

#define SIZE 3000000 /* more than two steps of inflation */

static uint8_t *make_bytes(void)
{
	uint8_t *bytes = malloc(SIZE);
	struct rng rng = rng_make(1, 2);
	for (int i = 0; i < SIZE; i++)
		bytes[i] = rng_next(&rng) % 20;
	return bytes;
}

static void expect_refusal(const char *name, const char *reason)
{
	struct content content;
	cr_assert_neq(content_open(&content, scratch_path(name)), 0);
	cr_assert(strstr(failure(), scratch_path(name)), "%s", failure());
	cr_assert(strstr(failure(), reason), "'%s' is not in: %s", reason, failure());
	cr_assert_null(strchr(failure(), '\n'));
}

Test(content, plain_and_compressed_files_have_the_same_bytes)
{
	static const size_t sizes[] = { 0, 1, 2, 4095, 4096, 4097, 1 << 20, (1 << 20) + 1, SIZE };
	static const char *const names[] = { "plain", "packed.gz" };
	uint8_t *bytes = make_bytes();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		scratch_write(names[0], bytes, sizes[i]);
		files_gzip(names[1], bytes, sizes[i]);
		for (int packed = 0; packed < 2; packed++) {
			struct content content;
			cr_assert_eq(content_open(&content, scratch_path(names[packed])), 0, "%s",
				failure());
			cr_assert_eq(content.size, sizes[i]);
			cr_assert(!sizes[i] || !memcmp(content.bytes, bytes, sizes[i]));
			cr_assert_eq(content.inflated, packed);
			cr_assert_eq(content_check(&content), 0);
			content_close(&content);
		}
	}
	free(bytes);
}

Test(content, what_is_no_regular_file_is_refused_at_once)
{
	expect_refusal("absent", "No such file");
	expect_refusal("", "is not a regular file");
	/* No writer comes. */
	cr_assert_eq(mkfifo(scratch_path("fifo"), 0600), 0);
	expect_refusal("fifo", "is not a regular file");
}

Test(content, a_damaged_gzip_file_is_refused_with_its_offset)
{
	uint8_t *bytes = make_bytes();
	files_gzip("packed.gz", bytes, SIZE);
	size_t size = files_read("packed.gz", bytes, SIZE);
	bytes[size / 2] ^= 0x55;
	bytes[size / 2 + 1] ^= 0x55;
	scratch_write("packed.gz", bytes, size);
	expect_refusal("packed.gz", "its compressed data is damaged, at byte ");
	size_t offset = strtoul(strstr(failure(), "at byte ") + 8, NULL, 10);
	cr_assert(offset > size / 3 && offset <= size, "%s", failure());
	scratch_write("packed.gz", bytes, size / 3);
	expect_refusal("packed.gz", "its compressed data ends too early, at byte ");
	scratch_write("packed.gz", "plain text", 10);
	expect_refusal("packed.gz", "is not a gzip file: it begins with 70 6c, at byte 0");
	scratch_write("packed.gz", "", 0);
	expect_refusal("packed.gz", "ends too early, at byte 0");
	free(bytes);
}

Test(content, a_gzip_file_that_unpacks_to_more_than_memory_is_refused, .timeout = 120)
{
	static uint8_t bytes[1 << 24], packed[1 << 16];
	/* Streams of 16 MiB one after the other: 1 GiB, and a byte. */
	files_gzip("stream.gz", bytes, sizeof(bytes));
	files_gzip("end.gz", bytes, 1);
	size_t size = files_read("stream.gz", packed, sizeof(packed));
	FILE *file = fopen(scratch_path("bomb.gz"), "wb");
	for (int i = 0; i < 64; i++)
		cr_assert_eq(fwrite(packed, 1, size, file), size);
	size = files_read("end.gz", packed, sizeof(packed));
	cr_assert_eq(fwrite(packed, 1, size, file), size);
	fclose(file);
	expect_refusal("bomb.gz", "unpacks to more than 1073741824 bytes");
}

static int open_descriptors(void)
{
	int count = 0;
	for (int i = 0; i < 256; i++)
		count += fcntl(i, F_GETFD) >= 0;
	return count;
}

static void open_and_close(const char *name, int times)
{
	struct content content;
	for (int i = 0; i < times; i++) {
		if (!content_open(&content, scratch_path(name)))
			content_close(&content);
	}
}

Test(content, nothing_stays_open)
{
	int before = open_descriptors();
	scratch_write("plain", "abc", 3);
	files_gzip("packed.gz", "abc", 3);
	scratch_write("damaged.gz", "\x1f\x8b\x08zzzzzzzzzzzzzzzz", 19);
	open_and_close("packed.gz", 20);
	open_and_close("damaged.gz", 20);
	open_and_close("", 20);
	/* More often than there is room for mapped files at a time. */
	open_and_close("plain", 5000);
	struct content content;
	cr_assert_eq(content_open(&content, scratch_path("plain")), 0, "%s", failure());
	content_close(&content);
	cr_assert_eq(open_descriptors(), before);
}

Test(content, a_mapped_file_that_is_cut_off_reads_as_zeros_and_is_reported)
{
	struct content content, other;
	uint8_t *bytes = make_bytes();
	unsigned sum = 0;
	memset(bytes, 1, SIZE);
	scratch_write("plain", bytes, SIZE);
	scratch_write("other", bytes, SIZE);
	cr_assert_eq(content_open(&content, scratch_path("plain")), 0);
	cr_assert_eq(content_open(&other, scratch_path("other")), 0);
	cr_assert_eq(truncate(scratch_path("plain"), 65536), 0);
	cr_assert_eq(content_check(&content), 0);
	for (size_t i = 0; i < SIZE; i++)
		sum += content.bytes[i];
	cr_assert_eq(sum, 65536);
	cr_assert_neq(content_check(&content), 0);
	cr_assert(strstr(failure(), "plain: was cut off while it was read, at byte 65536"), "%s",
		failure());
	cr_assert_eq(content_check(&other), 0);
	for (size_t i = 0; i < SIZE; i++)
		sum += other.bytes[i];
	cr_assert_eq(sum, 65536 + SIZE);
	content_close(&content);
	content_close(&other);
	free(bytes);
}

/* In a process of its own: content.c handles SIGBUS from its first mapped file on. */
static void access_lost_page(void)
{
	struct content content;
	signal(SIGBUS, SIG_DFL);
	if (content_open(&content, scratch_path("plain")))
		_exit(1);
	int file = open(scratch_path("mine"), O_RDWR);
	volatile char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
	if (page == MAP_FAILED || ftruncate(file, 0))
		_exit(2);
	_exit(page[0]);
}

Test(content, a_lost_page_of_another_mapping_ends_the_process_as_ever)
{
	int status;
	scratch_write("plain", "abc", 3);
	scratch_write("mine", "abc", 3);
	pid_t pid = fork();
	if (!pid)
		access_lost_page();
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS, "status %x", status);
}
