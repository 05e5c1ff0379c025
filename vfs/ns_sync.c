/*
 * vfs/ns_sync.c - changes of metadata become durable together.
 *
 * RFC 1813 section 4.8 wants a change on stable storage before it is answered. A change is made in one job and then waits here, on its fiber: the first to come
 * while no sync runs leads. It lets those that came home together join, takes all that wait, and syncs for them in one job; who comes meanwhile waits for
 * the next one, whose leader is the first of them. An error is everybody's in that job. To wait for changes that are being made just then
 * does not pay: it saves a tenth of the flushes and costs more than that in latency when the CPUs are busy.
 * A change that is alone is synced in its own job: a second trip would cost it more than it saves.
 *
 * Where a single journal orders all metadata (export.one_sync: XFS, ext4), fsync() writes the journal up to the last change of that inode, and with it every
 * change that was finished before that one began. fsync() of an inode with nothing left in the journal still costs a flush of the device, so the job does not go
 * through all of them: export.change_clock is read before and after each change, the change that began last is synced, those that ended before it began are
 * covered, and so on with the rest, which ran beside it on other threads. Elsewhere each inode is synced, a directory once.
 *
 * A directory keeps the descriptor for it, open until its vfs_file is closed. A file is opened again each time even if its mapping has it open: an error of its data
 * that fsync() reports on the mapping's descriptor would be lost to the mapping. Descriptors are opened with the server's rights: the caller may not be
 * allowed to read.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

#include "runtime/counter.h"
#include "runtime/fault.h"
#include "runtime/fiber.h"
#include "runtime/pool.h"
#include "vfs/export.h"
#include "vfs/file.h"
#include "vfs/ns_job.h"

COUNTER_DEFINE(counter_changes, "ns.changes");
COUNTER_DEFINE(counter_rounds, "ns.sync_rounds");
COUNTER_DEFINE(counter_syncs, "ns.syncs");

pool_fn void ns_sync_begin(struct ns_sync *s)
{
	s->begun = atomic_fetch_add(&s->export->change_clock, 1);
}

pool_fn void ns_sync_end(struct ns_sync *s)
{
	s->ended = atomic_fetch_add(&s->export->change_clock, 1);
}

static void add(struct ns_sync *s, struct ns_sync_inode inode)
{
	ASSERT(s->count < NS_SYNC_INODES);
	s->inodes[s->count++] = inode;
}

noyield_fn void ns_sync_add_path(struct ns_sync *s, int path_fd, uint32_t type)
{
	add(s, (struct ns_sync_inode){ .fd = path_fd, .type = type });
}

noyield_fn void ns_sync_add_dir(struct ns_sync *s, struct vfs_file *dir)
{
	/* One that came through an earlier struct export of the same directory is synced by that one's jobs too. */
	if (dir->export == s->export)
		add(s, (struct ns_sync_inode){ .dir = dir, .fd = -1, .type = S_IFDIR });
	else
		ns_sync_add_path(s, dir->path_fd, S_IFDIR);
}

noyield_fn void ns_sync_add_open(struct ns_sync *s, int fd)
{
	add(s, (struct ns_sync_inode){ .fd = fd, .is_open = true });
}

static int sync_fd(int fd)
{
	const int injected = fault_hit(FAULT_NS_SYNC);

	counter_add(&counter_syncs, 1);
	if (injected)
		return -injected;
	return fsync(fd) ? -errno : 0;
}

/* -1: links, devices and the like cannot be opened for the sake of syncing them. */
static int open_for_sync(int path_fd, uint32_t type)
{
	char path[NS_PROC_PATH];

	if (!S_ISDIR(type) && !S_ISREG(type))
		return -1;
	ns_proc_path(path_fd, path);
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (S_ISDIR(type) ? O_DIRECTORY : 0));
}

/* What cannot be opened rarely changes: the whole file system then. */
static int sync_by_path(const struct export *export, int path_fd, uint32_t type)
{
	const int fd = open_for_sync(path_fd, type);
	int err;

	if (fd < 0)
		return syncfs(export->mount_fd) ? -errno : 0;
	err = sync_fd(fd);
	close(fd);
	return err;
}

static int sync_dir(const struct export *export, struct vfs_file *dir)
{
	if (dir->sync_fd < 0)
		dir->sync_fd = open_for_sync(dir->path_fd, S_IFDIR);
	return dir->sync_fd < 0 ? sync_by_path(export, dir->path_fd, S_IFDIR) : sync_fd(dir->sync_fd);
}

static int sync_inode(const struct export *export, const struct ns_sync_inode *inode)
{
	if (inode->dir)
		return sync_dir(export, inode->dir);
	return inode->is_open ? sync_fd(inode->fd) : sync_by_path(export, inode->fd, inode->type);
}

/* The change that began last of those not covered yet. */
static struct ns_sync *latest(const struct ns_sync_list *changes)
{
	struct ns_sync *s, *last = NULL;

	TAILQ_FOREACH(s, changes, link)
		if (!s->covered && (!last || s->begun > last->begun))
			last = s;
	return last;
}

static int sync_journal(const struct export *export, const struct ns_sync_list *changes)
{
	struct ns_sync *last, *s;
	int err = 0;

	while (!err && (last = latest(changes))) {
		err = sync_inode(export, last->inodes + last->count - 1);
		last->covered = true;
		TAILQ_FOREACH(s, changes, link)
			s->covered |= s->ended < last->begun;
	}
	return err;
}

struct round {
	struct export *export;
	struct ns_sync_list changes;
	uint64_t number;
	int err;
};

static int sync_each(const struct round *r)
{
	const struct ns_sync_inode *inode;
	const struct ns_sync *s;
	int err = 0;

	TAILQ_FOREACH(s, &r->changes, link)
		for (unsigned i = 0; i < s->count && !err; i++) {
			inode = s->inodes + i;
			if (inode->dir && inode->dir->synced_round == r->number)
				continue;
			err = sync_inode(r->export, inode);
			if (inode->dir)
				inode->dir->synced_round = r->number;
		}
	return err;
}

static void round_main(void *arg)
{
	struct round *r = arg;
	const struct ns_sync *s;

	r->err = r->export->one_sync ? sync_journal(r->export, &r->changes) : sync_each(r);
	TAILQ_FOREACH(s, &r->changes, link)
		for (unsigned i = 0; i < s->count; i++)
			if (s->inodes[i].is_open)
				close(s->inodes[i].fd);
}

/* Everybody of the round knows; who waits first leads the next one. */
static void round_end_locked(struct round *r)
{
	struct export *export = r->export;
	struct ns_sync *s;

	TAILQ_FOREACH(s, &r->changes, link) {
		s->err = r->err;
		fiber_cond_signal_locked(&s->turn);
	}
	s = TAILQ_FIRST(&r->changes);
	export->sync_shared = s && TAILQ_NEXT(s, link);
	s = TAILQ_FIRST(&export->sync_waiting);
	export->sync_running = s;
	if (!s)
		return;
	s->leads = true;
	fiber_cond_signal_locked(&s->turn);
}

static fiber_fn void lead_locked(struct export *export)
{
	struct round r = { .export = export };

	/* Those that came home with this one are ready to run: they join. */
	leaf_unlock(&export->sync_lock);
	fiber_yield_idle();
	leaf_lock(&export->sync_lock);
	TAILQ_INIT(&r.changes);
	TAILQ_CONCAT(&r.changes, &export->sync_waiting, link);
	r.number = ++export->sync_round;
	leaf_unlock(&export->sync_lock);
	counter_add(&counter_rounds, 1);
	pool_run(round_main, &r, NULL);
	leaf_lock(&export->sync_lock);
	round_end_locked(&r);
}

static fiber_fn int wait_locked(struct ns_sync *s)
{
	struct export *export = s->export;

	ASSERT(s->ended > s->begun);
	counter_add(&counter_changes, 1);
	fiber_cond_init(&s->turn);
	TAILQ_INSERT_TAIL(&export->sync_waiting, s, link);
	s->leads = !export->sync_running;
	export->sync_running = true;
	if (!s->leads)
		fiber_cond_wait(&s->turn, &export->sync_lock, "metadata sync");
	if (s->leads)
		lead_locked(export);
	return s->err;
}

/* The only change there is: made and synced in one trip. */
struct lone_change {
	pool_main *fn;
	void *arg;
	struct ns_sync *sync;
	struct round round;
};

static void lone_main(void *arg)
{
	struct lone_change *l = arg;
	uint32_t fsuid;

	l->fn(l->arg);
	if (!l->sync->count)
		return;
	TAILQ_INSERT_TAIL(&l->round.changes, l->sync, link);
	fsuid = ns_server_begin();
	round_main(&l->round);
	ns_server_end(fsuid);
}

/* sync_running was taken for it. */
static fiber_fn int change_alone(struct ns_sync *s, struct pool_lane *lane, pool_main *fn, void *arg, const struct cred *cred)
{
	struct export *export = s->export;
	struct lone_change l = { .fn = fn, .arg = arg, .sync = s, .round.export = export };

	TAILQ_INIT(&l.round.changes);
	fiber_cond_init(&s->turn);
	leaf_lock(&export->sync_lock);
	l.round.number = ++export->sync_round;
	leaf_unlock(&export->sync_lock);
	pool_run_in(lane, lone_main, &l, cred);
	counter_add(&counter_changes, s->count != 0);
	counter_add(&counter_rounds, s->count != 0);
	leaf_lock(&export->sync_lock);
	export->changing--;
	round_end_locked(&l.round);
	leaf_unlock(&export->sync_lock);
	return s->err;
}

static fiber_fn int change_with_others(struct ns_sync *s, struct pool_lane *lane, pool_main *fn, void *arg, const struct cred *cred)
{
	struct export *export = s->export;
	int err;

	pool_run_in(lane, fn, arg, cred);
	leaf_lock(&export->sync_lock);
	err = s->count ? wait_locked(s) : 0;
	export->changing--;
	leaf_unlock(&export->sync_lock);
	return err;
}

/* Nobody else changes anything, nor did when the last sync was made: then others are likely to come. */
static bool is_alone(struct export *export)
{
	bool alone;

	leaf_lock(&export->sync_lock);
	alone = !export->changing++ && !export->sync_running && !export->sync_shared;
	export->sync_running |= alone;
	leaf_unlock(&export->sync_lock);
	return alone;
}

fiber_fn int ns_change(struct ns_sync *s, struct vfs_file *file, pool_main *fn, void *arg, const struct cred *cred)
{
	struct pool_lane *lane = S_ISDIR(file->type) ? &file->lane : NULL;

	s->export = file->export;
	if (is_alone(s->export))
		return change_alone(s, lane, fn, arg, cred);
	return change_with_others(s, lane, fn, arg, cred);
}
