/*
 * runtime/text_file.h - a text that an administrator has written, read whole into memory before anybody looks at it.
 *
 * What is read at the start is read again at a reload, by the thread that takes the signals: it must neither wait there, nor run on without an end, nor find
 * nothing where something was. So it has to be a regular file, of no more than so many bytes: a pipe would wait for its writer or be empty the second time, a
 * device may have no end. /dev/null is an empty file.
 */
#ifndef RUNTIME_TEXT_FILE_H
#define RUNTIME_TEXT_FILE_H

#include <stdio.h>

#include "runtime/base.h"

enum { TEXT_FILE_BYTES_MAX = 4 << 20 };
#define TEXT_FILE_TOO_LARGE "more than 4 MiB"

struct text_file {
	FILE *f;     /* reads from the memory */
	char *bytes;
	size_t len;
	dev_t dev;
	ino_t ino;
};

/*
 * Read at most bytes_max. 0, or -errno (-EISDIR, -EFBIG; -ESPIPE for a pipe, -ENOTSUP for a device), and *why is the text of it, good until the next
 * strerror(). Does not wait for anything but the disk. The caller closes what is open.
 */
pool_fn int text_file_open(struct text_file *t, const char *path, size_t bytes_max, const char **why);
void text_file_close(struct text_file *t);

#endif
