/*
 * sample.h: what a bench program measures around a run, and the JSON line that it prints about it.
 */
#ifndef TESTS_BENCH_SAMPLE_H
#define TESTS_BENCH_SAMPLE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What is watched beside the program itself. */
struct watch {
	pid_t pid;		/* the server; 0: none */
	const char *device;	/* name under /sys/block; NULL: none */
};

struct sample {
	uint64_t wall_ns;
	uint64_t client_us;	/* CPU of this process */
	uint64_t server_us;	/* CPU of the watched process, all threads, dead ones too */
	uint64_t machine_us;	/* CPU of everybody, interrupts included */
	uint64_t read_bytes, written_bytes, reads, writes, flushes;	/* of the device */
};

enum { LATENCY_SHIFT = 5, LATENCY_BUCKETS = 64 << LATENCY_SHIFT };

/* Times in ns, in buckets of about 3 %. */
struct latency {
	uint64_t count[LATENCY_BUCKETS];
	uint64_t total;
};

/* When the operations of a run ended: so many in each slot of time since the first was noted. What comes after the last slot is not counted. */
enum { PROGRESS_SLOTS = 1 << 14, PROGRESS_SLOT_NS = 2000000 };

struct progress {
	uint64_t begin_ns, slots;	/* slots: up to the last with an operation */
	uint32_t count[PROGRESS_SLOTS];
};

/* What a run did. */
struct outcome {
	const char *pattern;
	unsigned depth, connections;
	uint64_t ops, bytes;
	uint64_t retries;	/* replies of JUKEBOX, sent again */
	int64_t resident;	/* bytes of the file in the page cache at the end; -1: not known */
	struct latency latency;
	struct progress progress;	/* noted by nfsload only */
	struct sample before, after;
};

uint64_t now_ns(void);
/* A number of bytes from the command line: 4096, 64K, 2G. Ends the program if TEXT is none. */
uint64_t size_arg(const char *text);
void sample_take(const struct watch *w, struct sample *s);
void latency_add(struct latency *l, uint64_t ns);
void progress_add(struct progress *p, uint64_t now);

/* Bytes of the local file PATH in the page cache; -1: cannot be told. */
int64_t file_resident(const char *path);
/* Asks the kernel to forget its clean pages of PATH. */
void file_evict(const char *path);

/* One line of JSON on standard output. */
void outcome_print(const struct outcome *o, const struct watch *w);

/* Ends the program with a message. */
void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
