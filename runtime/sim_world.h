/*
 * runtime/sim_world.h - what the simulation's files share: the one world, its events, its descriptors. Private to sim*.c.
 *
 * Everything here runs on the thread of the one reactor, or on the test's own between two runs; nothing yields.
 */
#ifndef RUNTIME_SIM_WORLD_H
#define RUNTIME_SIM_WORLD_H

#include <bsd/sys/tree.h>
#include <time.h>

#include "runtime/sim.h"
#include "runtime/sim_disk.h"
#include "runtime/sim_random.h"

struct io_op;
struct reactor;
struct sim_listener;
struct sim_socket;
struct statx;

/* Something that happens at a moment. Embedded in what it happens to, zeroed first; fn runs on the loop, the event disarmed. */
struct sim_event {
	RB_ENTRY(sim_event) link;
	uint64_t at_ns;
	uint64_t tie; /* drawn: the order inside one moment */
	void (*fn)(struct sim_event *e);
	bool armed;
};

RB_HEAD(sim_events, sim_event);
int sim_event_compare(const struct sim_event *a, const struct sim_event *b);
RB_PROTOTYPE(sim_events, sim_event, link, sim_event_compare)

enum sim_fd_kind { SIM_FD_FREE, SIM_FD_FILE, SIM_FD_SOCKET, SIM_FD_LISTENER };

/* Each descriptor owns one reference on what it names. Numbers are never reused, so that a use after close shows as EBADF. */
struct sim_fd {
	enum sim_fd_kind kind;
	unsigned flags; /* SIM_DIRECT, SIM_READ_ONLY */
	struct disk_file *file;
	struct sim_socket *socket;
	struct sim_listener *listener;
};

struct sim_world {
	struct sim_config config;
	struct sim_explorer explorer; /* choose is NULL: the seed decides */
	unsigned refused;             /* writes that it left without space */
	struct sim_random_state random;
	struct disk disk;
	struct sim_stats stats;
	struct sim_events events;
	uint64_t now_ns;
	uint64_t steps, cut_step; /* cut_step 0: not armed */
	uint64_t trace_hash;
	unsigned cuts;
	unsigned empty_polls;     /* in a row, while fibers are runnable */
	bool nudged;
	bool dead;                /* the power is cut and the reactor has not left its loop yet: operations go nowhere */
	struct reactor *reactor;  /* NULL between runs */
	struct sim_fd *fds;
	unsigned fds_count;
};

extern struct sim_world sim;

void sim_event_arm(struct sim_event *e, uint64_t delay_ns); /* moves an armed one */
void sim_event_disarm(struct sim_event *e);
/* It happens. */
void sim_event_deliver(struct sim_event *e);
/* How long something takes: 0...latency_ns_max, nothing at all one time in four. */
uint64_t sim_latency(void);
/* True with a probability of p/65536. */
bool sim_chance(uint32_t p);
/* Fold what happened into the trace hash. */
void sim_trace(uint64_t what, uint64_t value);
/* "now" with the granularity of file timestamps. */
struct timespec sim_file_time(void);
_Noreturn void sim_panic(const char *what);

/* op ends now; on the loop only. */
void sim_complete(struct io_op *op, ssize_t res);
/* op ends after a latency; from anywhere. */
void sim_complete_later(struct io_op *op, ssize_t res);

/* The new descriptor; takes over the caller's reference. */
int sim_fd_install(const struct sim_fd *named);
/* NULL: not open. */
struct sim_fd *sim_fd_find(int fd);
/* 0 or -EBADF. */
int sim_fd_close(int fd);

/* Bytes of all of iov; memory out of and into it. */
struct iovec;
size_t sim_iov_len(const struct iovec *iov, size_t count);
/* From byte `skip` of iov: the bytes copied, len unless iov ends before. */
size_t sim_iov_gather(uint8_t *to, size_t len, const struct iovec *iov, size_t count, size_t skip);
size_t sim_iov_scatter(const struct iovec *iov, size_t count, size_t skip, const uint8_t *from, size_t len);

/* sim_explore.c: the backend's pick() and poll() while a model checker chooses */
unsigned sim_explore_pick(struct reactor *r);
void sim_explore_poll(struct reactor *r, uint64_t timeout_ns);

/* sim_file.c */
void sim_file_submit(struct io_op *op, const struct sim_fd *fd);
int sim_file_statx(const struct sim_fd *fd, struct statx *stx);
void sim_file_cut(void);   /* operations in flight land partly and are forgotten */
/* What a cut would do to `file`, whose copy this is: its operations in flight land. */
void sim_file_land(const struct disk_file *file, struct disk_file *copy);
uint64_t sim_file_hash(void);
/* Under a model checker: how many writes in flight need space; the n-th of them gets none. */
unsigned sim_file_count_needy(void);
void sim_file_refuse(unsigned n);

/* sim_net.c */
void sim_socket_submit(struct io_op *op, struct sim_socket *s);
void sim_listener_submit(struct io_op *op, struct sim_listener *l);
/* If op (NULL: each operation) waits on a socket or listener, it ends soon, with -ECANCELED unless something of it was done. */
void sim_net_cancel(const struct io_op *op);
void sim_socket_shutdown(struct sim_socket *s);
void sim_socket_put(struct sim_socket *s);
void sim_listener_put(struct sim_listener *l);
void sim_net_cut(void);

#endif
