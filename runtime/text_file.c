/*
 * runtime/text_file.c - reads a regular file into memory.
 *
 * It is opened without waiting (a FIFO without a writer would wait) and looked at once it is open, so that nothing can take its place in between. The size is
 * counted while reading: files of /proc tell 0.
 */
#include "runtime/text_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static bool is_dev_null(const struct stat *st) { return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3); }

/* 0, or why not to read it. */
static int check(const struct stat *st, size_t bytes_max)
{
	if (S_ISDIR(st->st_mode))
		return -EISDIR;
	if (is_dev_null(st))
		return 0;
	if (!S_ISREG(st->st_mode))
		return S_ISFIFO(st->st_mode) ? -ESPIPE : -ENOTSUP;
	return (uint64_t)st->st_size > bytes_max ? -EFBIG : 0;
}

/* What there is, in new memory, also after an error. */
static int read_whole(struct text_file *t, int fd, size_t bytes_max)
{
	size_t room = 0;
	ssize_t n;

	do {
		if (t->len == room) {
			room = room != 0 ? 2 * room : PAGE_BYTES;
			t->bytes = realloc(t->bytes, room);
			ASSERT(t->bytes != NULL);
		}
		n = read(fd, t->bytes + t->len, room - t->len);
		if (n < 0)
			return -errno;
		t->len += (size_t)n;
		if (t->len > bytes_max)
			return -EFBIG;
	} while (n > 0);
	return 0;
}

static int read_fd(struct text_file *t, int fd, size_t bytes_max)
{
	struct stat st;
	int err = fstat(fd, &st) != 0 ? -errno : check(&st, bytes_max);

	if (err != 0)
		return err;
	t->dev = st.st_dev;
	t->ino = st.st_ino;
	err = read_whole(t, fd, bytes_max);
	if (err != 0)
		return err;
	t->f = fmemopen(t->bytes, t->len, "r");
	return t->f != NULL ? 0 : -errno;
}

static const char *error_text(int err)
{
	switch (err) {
	case -ESPIPE: return "it is a pipe, which could not be read again at a reload";
	case -ENOTSUP: return "it is a device, and no file";
	case -EFBIG: return "it has " TEXT_FILE_TOO_LARGE;
	default: return strerror(-err);
	}
}

pool_fn int text_file_open(struct text_file *t, const char *path, size_t bytes_max, const char **why)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int err = fd < 0 ? -errno : 0;

	*t = (struct text_file){ .f = NULL };
	if (err == 0)
		err = read_fd(t, fd, bytes_max);
	if (fd >= 0)
		close(fd);
	if (err == 0)
		return 0;
	free(t->bytes);
	*why = error_text(err);
	return err;
}

void text_file_close(struct text_file *t)
{
	fclose(t->f);
	free(t->bytes);
}
