/*
 * sample.c: counters of the server, the machine and the device, read right before and right after the measured part of a run,
 * inside the load generator: so neither a shell nor the preparation of files is in the figures.
 *
 * A process's times in /proc/PID/stat are those of all its threads, io_uring's workers and threads that have ended included.
 * They come in clock ticks, so a run of a second knows its CPU to a per cent.
 */
#include "tests/bench/sample.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

uint64_t size_arg(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 10);
	const char *units = "KMG", *unit = *end ? strchr(units, *end) : NULL;

	if (end == text || (*end && (!unit || end[1])))
		die("%s is not a size", text);
	return unit ? n << (10 * (unit - units + 1)) : n;
}

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t ticks_us(uint64_t ticks)
{
	return ticks * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

/* The first SIZE-1 bytes of a file of /proc or /sys; empty if it cannot be read. */
static void slurp(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);

	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

static uint64_t process_us(pid_t pid)
{
	unsigned long long user, sys;
	char path[64], text[1024];
	const char *after_name;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	slurp(path, text, sizeof(text));
	after_name = strrchr(text, ')');
	if (!after_name || sscanf(after_name + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &sys) != 2)
		die("process %d is gone", pid);
	return ticks_us(user + sys);
}

/* All but idle, waiting and stolen time. */
static uint64_t machine_us(void)
{
	unsigned long long user, nice, sys, idle, wait, irq, softirq;
	char text[256];

	slurp("/proc/stat", text, sizeof(text));
	if (sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &sys, &idle, &wait, &irq, &softirq) != 7)
		die("/proc/stat is not understood");
	return ticks_us(user + nice + sys + irq + softirq);
}

static void device_counters(const char *device, struct sample *s)
{
	unsigned long long f[17] = { 0 };
	char path[128], text[512], *p = text;
	int i;

	snprintf(path, sizeof(path), "/sys/block/%s/stat", device);
	slurp(path, text, sizeof(text));
	for (i = 0; i < 17; i++)
		f[i] = strtoull(p, &p, 10);
	s->reads = f[0];
	s->read_bytes = f[2] * 512;
	s->writes = f[4];
	s->written_bytes = f[6] * 512;
	s->flushes = f[15];
}

void sample_take(const struct watch *w, struct sample *s)
{
	struct rusage u;

	memset(s, 0, sizeof(*s));
	getrusage(RUSAGE_SELF, &u);
	s->client_us = (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
	if (w->pid)
		s->server_us = process_us(w->pid);
	s->machine_us = machine_us();
	if (w->device)
		device_counters(w->device, s);
	s->wall_ns = now_ns();
}

/* --- latency --- */

static unsigned latency_bucket(uint64_t ns)
{
	unsigned top = 63 - (unsigned)__builtin_clzll(ns | 1);

	if (top < LATENCY_SHIFT)
		return (unsigned)ns;
	return ((top - LATENCY_SHIFT + 1) << LATENCY_SHIFT) | ((ns >> (top - LATENCY_SHIFT)) & ((1 << LATENCY_SHIFT) - 1));
}

static uint64_t latency_value(unsigned bucket)
{
	unsigned octave = bucket >> LATENCY_SHIFT;
	uint64_t low = bucket & ((1 << LATENCY_SHIFT) - 1);

	return octave ? (low | 1 << LATENCY_SHIFT) << (octave - 1) : low;
}

void latency_add(struct latency *l, uint64_t ns)
{
	l->count[latency_bucket(ns)]++;
	l->total++;
}

void progress_add(struct progress *p, uint64_t now)
{
	uint64_t slot;

	if (!p->begin_ns)
		p->begin_ns = now;
	slot = (now - p->begin_ns) / PROGRESS_SLOT_NS;
	if (slot >= PROGRESS_SLOTS)
		return;
	p->count[slot]++;
	p->slots = slot + 1;
}

/* Operations of the last quarter of the time to those of the first. */
static double last_to_first_quarter(const struct progress *p)
{
	uint64_t quarter = p->slots / 4, first = 0, last = 0;

	for (uint64_t i = 0; i < quarter; i++) {
		first += p->count[i];
		last += p->count[p->slots - quarter + i];
	}
	return first ? (double)last / first : 0;
}

static double latency_us(const struct latency *l, double part)
{
	uint64_t seen = 0;
	unsigned i;

	for (i = 0; i < LATENCY_BUCKETS; i++) {
		seen += l->count[i];
		if (seen && (double)seen >= part * (double)l->total)
			return (double)latency_value(i) / 1000;
	}
	return 0;
}

/* --- the file in the page cache --- */

static int64_t count_resident(int fd, size_t size)
{
	size_t pages = (size + 4095) / 4096, i;
	unsigned char *vec = malloc(pages);
	void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	int64_t sum = -1;

	if (vec && map != MAP_FAILED && mincore(map, size, vec) == 0)
		for (sum = 0, i = 0; i < pages; i++)
			sum += (vec[i] & 1) * 4096;
	if (map != MAP_FAILED)
		munmap(map, size);
	free(vec);
	return sum;
}

int64_t file_resident(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	int64_t sum = -1;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0)
		sum = st.st_size ? count_resident(fd, (size_t)st.st_size) : 0;
	close(fd);
	return sum;
}

void file_evict(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	fsync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

/* --- the line --- */

static long rss_kib(pid_t pid)
{
	char path[64], text[4096];
	const char *p;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	slurp(path, text, sizeof(text));
	p = strstr(text, "VmRSS:");
	return p ? strtol(p + 6, NULL, 10) : 0;
}

static void print_server(const struct outcome *o, const struct watch *w, double ops)
{
	if (w->pid)
		printf(",\"server_us_op\":%.2f,\"rss_kib\":%ld", (double)(o->after.server_us - o->before.server_us) / ops, rss_kib(w->pid));
	if (o->resident >= 0)
		printf(",\"resident\":%lld", (long long)o->resident);
}

static void print_device(const struct outcome *o, double ops)
{
	const struct sample *a = &o->before, *b = &o->after;

	printf(",\"dev_reads4k_op\":%.4f,\"dev_writes4k_op\":%.3f", (double)(b->read_bytes - a->read_bytes) / 4096 / ops,
	       (double)(b->written_bytes - a->written_bytes) / 4096 / ops);
	printf(",\"dev_read_ios_op\":%.4f,\"dev_write_ios_op\":%.4f,\"flushes_op\":%.4f", (double)(b->reads - a->reads) / ops,
	       (double)(b->writes - a->writes) / ops, (double)(b->flushes - a->flushes) / ops);
}

void outcome_print(const struct outcome *o, const struct watch *w)
{
	double seconds = (double)(o->after.wall_ns - o->before.wall_ns) / 1e9;
	double ops = o->ops ? (double)o->ops : 1;

	printf("{\"pattern\":\"%s\",\"depth\":%u,\"connections\":%u,\"seconds\":%.3f", o->pattern, o->depth, o->connections, seconds);
	printf(",\"mib_s\":%.1f,\"ops_s\":%.0f,\"ops\":%llu", (double)o->bytes / 1048576 / seconds, (double)o->ops / seconds,
	       (unsigned long long)o->ops);
	printf(",\"p50_us\":%.1f,\"p99_us\":%.1f", latency_us(&o->latency, 0.5), latency_us(&o->latency, 0.99));
	printf(",\"client_us_op\":%.2f,\"machine_us_op\":%.2f", (double)(o->after.client_us - o->before.client_us) / ops,
	       (double)(o->after.machine_us - o->before.machine_us) / ops);
	print_server(o, w, ops);
	if (w->device)
		print_device(o, ops);
	if (o->progress.slots >= 4)
		printf(",\"last_quarter\":%.3f", last_to_first_quarter(&o->progress));
	if (o->retries)
		printf(",\"retries\":%llu", (unsigned long long)o->retries);
	puts("}");
	fflush(stdout);
}
