/* runtime/backend_real.c - the parts of a backend that any real kernel gives, with a ring or without. */
#include "runtime/backend_real.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

int real_fstatx(int fd, unsigned mask, struct statx *stx)
{
	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, mask, stx) ? -errno : 0;
}

int real_shutdown(int fd)
{
	return shutdown(fd, SHUT_RDWR) ? -errno : 0;
}

uint64_t real_mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

struct timespec real_real(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME_COARSE, &ts);
	return ts;
}

void real_random(void *buf, size_t len)
{
	uint8_t *at = buf;

	while (len) {
		ssize_t got = getrandom(at, len, 0);

		ASSERT(got > 0 || errno == EINTR);
		if (got > 0) {
			at += got;
			len -= got;
		}
	}
}

unsigned real_pick(struct reactor *r, unsigned n)
{
	return 0;
}

void real_nudge_fd(int fd)
{
	uint64_t one = 1;
	ssize_t done;

	do
		done = write(fd, &one, sizeof(one));
	while (done < 0 && errno == EINTR);
	/* EAGAIN: the counter is full, so the reactor has been nudged. */
	ASSERT(done == sizeof(one) || errno == EAGAIN);
}
