/*
 * vfs/file.c - the open-file cache.
 *
 * Files stand in a hash by handle; those that nobody references also on one of two LRU lists, oldest first: with a mapping, or without one. When room is
 * needed, those without go first: a look-up puts in what it found (vfs_file_adopt()), and a walk through a large tree must not cost others their mappings.
 * cache.lock, a leaf lock, protects all of that, the reference counts, and the list of the dead: files that left the hash and wait to be closed. Closing may wait for a device (the last close of a removed file frees its
 * space), so a fiber takes the dead to the pool: the closer, spawned when there are some and none runs.
 *
 * A file is opened outside the lock; of two fibers that open the same one, the second to come back finds the first's and throws its own away. The mapping
 * holds references while it has something to write (hold and release in its config), so an unreferenced file is clean and can be closed at once. When a file
 * has lost its last link and nobody but its mapping uses it, what is dirty is forgotten; it leaves the cache with its last reference.
 *
 * Where a file system comes in another's place with its identity (a copy, a restored snapshot, one fsid= for both), its files have handles that are in the cache
 * already, if clients have kept using them: what is open of an earlier export is superseded by the later one's. It is not found any more, and goes with its last reference.
 *
 * A timer on whichever reactor first put a file in looks every two seconds for files idle for ten. Files that local processes remove give their space back
 * then. A file that could only be opened for reading (somebody executes it, it is immutable) leaves sooner, to be tried again when it is used again.
 */
#include "vfs/file.h"

#include <assert.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iocache/mapping.h"
#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/fiber.h"
#include "runtime/io.h"
#include "runtime/log.h"
#include "runtime/pool.h"
#include "runtime/reactor.h"
#include "vfs/access.h"
#include "vfs/attr.h"
#include "vfs/data.h"
#include "vfs/export.h"
#include "vfs/fh.h"

enum { HASH_BUCKETS = 16384, MAPPED_SLOTS = 4096, EVICT_BATCH = 16, EMFILE_RETRIES = 8, RESERVE_TRIES = 16 };

/* What a file that is only known takes (a directory has one for its syncs too), and what I/O adds to it. */
enum { DESCRIPTORS_KNOWN = 1, DESCRIPTORS_DIRECTORY = 2, DESCRIPTORS_IO = 2, DESCRIPTORS_PER_FILE = VFS_FILE_DESCRIPTORS_MAX };
static_assert((int)DESCRIPTORS_KNOWN + DESCRIPTORS_IO == VFS_FILE_DESCRIPTORS_MAX, "a file open for I/O has most");

static const uint64_t reap_period_ns = 2000000000, reap_idle_ns = 10000000000, read_only_keep_ns = 1000000000, flusher_end_ns = 200000;

enum { DIO_ALIGN_MIN = 512, DIO_ALIGN_MAX = 65536 };

TAILQ_HEAD(vfs_file_list, vfs_file);

COUNTER_DEFINE(counter_opened, "file.opened");
COUNTER_DEFINE(counter_adopted, "file.adopted");
COUNTER_DEFINE(counter_closed, "file.closed");
COUNTER_DEFINE(counter_full, "file.cache_full");

static struct {
	struct leaf_lock lock;
	/* protected by lock */
	struct vfs_file_list hash[HASH_BUCKETS];
	struct vfs_file_list light, heavy; /* unreferenced: without and with a mapping */
	struct vfs_file_list dead;  /* linked by .lru */
	unsigned count, descriptors; /* in the hash; those that the counted files have, or may come to have unasked */
	unsigned max, descriptors_max;
	bool closer_running;
	bool reaper_armed;
	struct timer reaper;
	/* atomic: how many files whose handles fall on each have a mapping. A listing asks for every name; where it is 0 there is nothing to look for. */
	_Atomic unsigned mapped[MAPPED_SLOTS];
} cache;

/* The last bytes of a handle are its signature: evenly spread, and nobody without the key chooses them. */
static uint32_t hash_of(const struct vfs_fh *fh)
{
	uint32_t h;

	memcpy(&h, fh->data + fh->len - sizeof(h), sizeof(h));
	return h;
}

static struct vfs_file_list *bucket(const struct vfs_fh *fh)
{
	return cache.hash + hash_of(fh) % HASH_BUCKETS;
}

static _Atomic unsigned *mapped_slot(const struct vfs_fh *fh)
{
	return cache.mapped + hash_of(fh) % MAPPED_SLOTS;
}

static struct vfs_file *find_locked(const struct vfs_fh *fh)
{
	struct vfs_file *file;

	TAILQ_FOREACH(file, bucket(fh), hash)
		if (!file->superseded && vfs_fh_equal(&file->fh, fh))
			return file;
	return NULL;
}

/* Of an unreferenced file: nobody can open it for I/O meanwhile. */
static struct vfs_file_list *lru_of(const struct vfs_file *file)
{
	return file->mapping ? &cache.heavy : &cache.light;
}

static void ref_locked(struct vfs_file *file)
{
	if (!file->refs++)
		TAILQ_REMOVE(lru_of(file), file, lru);
}

/* An unreferenced file leaves the cache. */
static void bury_locked(struct vfs_file *file)
{
	ASSERT(!file->refs);
	TAILQ_REMOVE(bucket(&file->fh), file, hash);
	TAILQ_REMOVE(lru_of(file), file, lru);
	cache.count--;
	cache.descriptors -= file->descriptors;
	TAILQ_INSERT_TAIL(&cache.dead, file, lru);
}

static struct vfs_file *file_new(const struct vfs_fh *fh, struct export *export)
{
	struct vfs_file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->fh = *fh;
	file->export = export_get(export);
	file->local_fs = export->local_fs;
	file->path_fd = file->sync_fd = file->direct_fd = file->buffered_fd = -1;
	pthread_mutex_init(&file->dir_mutex, NULL);
	fiber_mutex_init(&file->setattr_mutex);
	fiber_mutex_init(&file->open_mutex);
	file->refs = 1;
	return file;
}

static void close_if_open(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* A file written by UNSTABLE WRITEs alone shows the time of the last one, not of the flush; it keeps that when it leaves the cache. */
static void restore_mtime(struct vfs_file *file)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };

	if (file->mapping && mapping_shown_mtime(file->mapping, &times[1]) && futimens(file->buffered_fd, times))
		TRACE(TRACE_FILE, "file.mtime", "fileid %llu: %s", (unsigned long long)file->fileid, strerror(errno));
}

/* May wait: a pool thread's work, or that of a process without reactors. */
static void file_close(struct vfs_file *file)
{
	/* UNSTABLE data that nobody has committed: an error of the kernel's later write-back would reach nobody once the descriptors are gone. */
	if (file->mapping && mapping_owes_sync(file->mapping) && fsync(file->buffered_fd))
		vfs_verifier_change();
	restore_mtime(file);
	close_if_open(file->direct_fd);
	close_if_open(file->buffered_fd);
	close_if_open(file->sync_fd);
	close_if_open(file->path_fd);
	export_put(file->export);
}

static void file_free(struct vfs_file *file)
{
	if (file->mapping) {
		mapping_destroy(file->mapping);
		atomic_fetch_sub(mapped_slot(&file->fh), 1);
	}
	fiber_mutex_fini(&file->open_mutex);
	fiber_mutex_fini(&file->setattr_mutex);
	pthread_mutex_destroy(&file->dir_mutex);
	free(file->acl);
	free(file);
}

static void close_list_main(void *arg)
{
	struct vfs_file_list *list = arg;
	struct vfs_file *file;

	TAILQ_FOREACH(file, list, lru)
		file_close(file);
}

static void free_list(struct vfs_file_list *list)
{
	struct vfs_file *file;

	while ((file = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, file, lru);
		file_free(file);
		counter_add(&counter_closed, 1);
	}
}

/* The dead as they are now; false: none. */
static bool take_dead(struct vfs_file_list *list)
{
	TAILQ_INIT(list);
	leaf_lock(&cache.lock);
	TAILQ_CONCAT(list, &cache.dead, lru);
	leaf_unlock(&cache.lock);
	return !TAILQ_EMPTY(list);
}

static fiber_fn void close_dead(void)
{
	struct vfs_file_list list;

	while (take_dead(&list)) {
		pool_run(close_list_main, &list, NULL);
		free_list(&list);
	}
}

static void closer_fiber(void *arg)
{
	bool more = true;

	while (more) {
		close_dead();
		leaf_lock(&cache.lock);
		more = !TAILQ_EMPTY(&cache.dead);
		cache.closer_running = more;
		leaf_unlock(&cache.lock);
	}
}

/* See to it that the dead get closed. Without a free fiber the next tick of the reaper tries again. */
static void start_closer(void)
{
	bool start;

	leaf_lock(&cache.lock);
	start = !cache.closer_running && !TAILQ_EMPTY(&cache.dead);
	cache.closer_running |= start;
	leaf_unlock(&cache.lock);
	if (!start || !fiber_spawn(closer_fiber, NULL, "file closer"))
		return;
	leaf_lock(&cache.lock);
	cache.closer_running = false;
	leaf_unlock(&cache.lock);
}

static unsigned bury_first_locked(const struct vfs_file_list *list, unsigned n)
{
	unsigned buried = 0;

	for (; buried < n && !TAILQ_EMPTY(list); buried++)
		bury_locked(TAILQ_FIRST(list));
	return buried;
}

static unsigned evict(unsigned n)
{
	unsigned evicted;

	leaf_lock(&cache.lock);
	evicted = bury_first_locked(&cache.light, n);
	evicted += bury_first_locked(&cache.heavy, n - evicted);
	leaf_unlock(&cache.lock);
	return evicted;
}

static void reap_locked(const struct vfs_file_list *list, uint64_t now, uint64_t idle_ns)
{
	struct vfs_file *file;

	while ((file = TAILQ_FIRST(list)) && now - file->last_used_ns >= idle_ns)
		bury_locked(file);
}

noyield_fn void vfs_file_reap(uint64_t idle_ns)
{
	const uint64_t now = clock_mono_ns();

	leaf_lock(&cache.lock);
	reap_locked(&cache.light, now, idle_ns);
	reap_locked(&cache.heavy, now, idle_ns);
	leaf_unlock(&cache.lock);
	start_closer();
}

static void reaper_tick(struct timer *t)
{
	bool again;

	vfs_file_reap(reap_idle_ns);
	leaf_lock(&cache.lock);
	again = cache.count || !TAILQ_EMPTY(&cache.dead);
	cache.reaper_armed = again;
	leaf_unlock(&cache.lock);
	if (again)
		timer_arm(t, clock_mono_ns() + reap_period_ns);
}

static void start_reaper(void)
{
	bool arm;

	leaf_lock(&cache.lock);
	arm = !cache.reaper_armed;
	cache.reaper_armed = true;
	leaf_unlock(&cache.lock);
	if (arm)
		timer_arm(&cache.reaper, clock_mono_ns() + reap_period_ns);
}

int vfs_file_cache_init(unsigned files_max, unsigned descriptors_max)
{
	if (!files_max || descriptors_max < DESCRIPTORS_PER_FILE)
		return -EMFILE;
	memset(&cache, 0, sizeof(cache));
	leaf_lock_init(&cache.lock);
	for (unsigned i = 0; i < HASH_BUCKETS; i++)
		TAILQ_INIT(cache.hash + i);
	TAILQ_INIT(&cache.light);
	TAILQ_INIT(&cache.heavy);
	TAILQ_INIT(&cache.dead);
	cache.reaper.fn = reaper_tick;
	cache.max = files_max;
	cache.descriptors_max = descriptors_max;
	return 0;
}

/* A file whose mapping was not flushed in this drain yet, from *bucket_at on; referenced. */
static struct vfs_file *next_to_flush_locked(uint64_t begun_ns, unsigned *bucket_at)
{
	struct vfs_file *file;

	for (; *bucket_at < HASH_BUCKETS; ++*bucket_at)
		TAILQ_FOREACH(file, cache.hash + *bucket_at, hash)
			if (file->mapping && file->flushed_ns < begun_ns) {
				file->flushed_ns = begun_ns;
				ref_locked(file);
				return file;
			}
	return NULL;
}

fiber_fn void vfs_file_cache_drain(void)
{
	const uint64_t begun_ns = clock_mono_ns();
	unsigned bucket_at = 0;
	struct vfs_file *file;
	int err;

	for (;;) {
		leaf_lock(&cache.lock);
		file = next_to_flush_locked(begun_ns, &bucket_at);
		leaf_unlock(&cache.lock);
		if (!file)
			break;
		err = mapping_flush(file->mapping);
		if (err) {
			log_write(LOG_LEVEL_ERROR, "export %s: file %llu: %s while writing back at the end", file->export->path,
				  (unsigned long long)file->fileid, strerror(-err));
			mapping_discard(file->mapping); /* the next instance has another verifier: clients send it again */
		}
		vfs_file_put(file);
	}
	evict(UINT32_MAX);
	close_dead();
}

void vfs_file_cache_fini(void)
{
	struct vfs_file_list list;

	evict(UINT32_MAX);
	ASSERT(!cache.count);
	if (take_dead(&list)) {
		close_list_main(&list);
		free_list(&list);
	}
	leaf_lock_fini(&cache.lock);
}

struct open_job {
	const struct vfs_fh *fh;
	int mount_fd;
	bool local_fs;
	int fd;          /* or -errno */
	struct statx stx;
};

/* A file without links is gone, though somebody local may still have it open: what it is called by can never come back. */
static void open_main(void *arg)
{
	struct open_job *j = arg;
	int err = 0;

	j->fd = vfs_fh_open(j->fh, j->mount_fd, O_PATH);
	if (j->fd < 0)
		return;
	if (statx(j->fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &j->stx))
		err = -errno;
	else if (!j->stx.stx_nlink)
		err = -ESTALE;
	if (!err && j->local_fs && !S_ISLNK(j->stx.stx_mode))
		vfs_acl_warm(j->fd);
	if (!err)
		return;
	close(j->fd);
	j->fd = err;
}

static bool out_of_descriptors(int err)
{
	return err == -EMFILE || err == -ENFILE;
}

/* A file that nobody uses, but whose mapping has something to write yet; referenced. Not the same for all who ask at once. */
static struct vfs_file *next_unwritten(void)
{
	static _Atomic unsigned asked;
	const unsigned first = atomic_fetch_add(&asked, 1);
	struct vfs_file *file = NULL;

	leaf_lock(&cache.lock);
	for (unsigned i = 0; i < HASH_BUCKETS && !file; i++)
		TAILQ_FOREACH(file, cache.hash + (first + i) % HASH_BUCKETS, hash)
			if (file->mapping_refs && file->refs == file->mapping_refs)
				break;
	if (file)
		ref_locked(file);
	leaf_unlock(&cache.lock);
	return file;
}

/* Where no file is idle: write one back, so that it soon is. False: all are in use. */
static fiber_fn bool write_one_back(void)
{
	struct vfs_file *file = next_unwritten();

	if (!file)
		return false;
	mapping_let_go(file->mapping);
	vfs_file_put(file);
	fiber_sleep_ns(flusher_end_ns);
	return true;
}

/* Run a job that opens descriptors, again as long as closing idle files may help. *result: a descriptor or -errno that it left. */
static fiber_fn void run_opening(pool_main *fn, void *job, const int *result)
{
	for (unsigned i = 0;; i++) {
		pool_run(fn, job, NULL);
		if (!out_of_descriptors(*result) || i == EMFILE_RETRIES || !(evict(EVICT_BATCH) || write_one_back()))
			return;
		close_dead();
	}
}

static bool is_full_locked(unsigned files, unsigned descriptors)
{
	return cache.count + files > cache.max || cache.descriptors + descriptors > cache.descriptors_max;
}

/* Make room for so many more. What waits to be written keeps its file open for a moment, and many of them are no reason to refuse. */
static fiber_fn int reserve(unsigned files, unsigned descriptors)
{
	bool full = true;

	for (unsigned i = 0; full && i < RESERVE_TRIES; i++) {
		leaf_lock(&cache.lock);
		full = is_full_locked(files, descriptors);
		leaf_unlock(&cache.lock);
		if (!full)
			break;
		counter_add(&counter_full, 1);
		if (evict(EVICT_BATCH))
			start_closer();
		else if (!write_one_back())
			break;
	}
	return full ? -EMFILE : 0;
}

/* file goes in, unless another was faster: then that one is returned, and file dies. */
static struct vfs_file *insert(struct vfs_file *file)
{
	struct vfs_file *other;

	leaf_lock(&cache.lock);
	other = find_locked(&file->fh);
	if (other) {
		ref_locked(other);
		TAILQ_INSERT_TAIL(&cache.dead, file, lru);
	} else {
		TAILQ_INSERT_HEAD(bucket(&file->fh), file, hash);
		cache.count++;
		cache.descriptors += file->descriptors;
	}
	leaf_unlock(&cache.lock);
	if (!other)
		start_reaper();
	else
		start_closer();
	return other ? other : file;
}

/* With a descriptor of its own. NULL: the descriptor is closed. */
static struct vfs_file *file_new_open(const struct vfs_fh *fh, struct export *export, int path_fd, const struct statx *stx)
{
	struct vfs_file *file = file_new(fh, export);

	if (!file) {
		close(path_fd);
		return NULL;
	}
	file->path_fd = path_fd;
	file->type = stx->stx_mode & S_IFMT;
	file->descriptors = S_ISDIR(file->type) ? DESCRIPTORS_DIRECTORY : DESCRIPTORS_KNOWN;
	file->fileid = stx->stx_ino;
	return file;
}

static fiber_fn int file_open(struct export *export, const struct vfs_fh *fh, struct vfs_file **file)
{
	struct open_job j = { .fh = fh, .mount_fd = export->mount_fd, .local_fs = export->local_fs };
	struct vfs_file *opened;

	run_opening(open_main, &j, &j.fd);
	if (j.fd < 0)
		return j.fd;
	opened = file_new_open(fh, export, j.fd, &j.stx);
	if (!opened)
		return -ENOMEM;
	opened->acl_warm = j.local_fs;
	counter_add(&counter_opened, 1);
	TRACE(TRACE_FILE, "file.open", "export %s fileid %llu type %o", export->path, (unsigned long long)opened->fileid, opened->type);
	*file = insert(opened);
	return 0;
}

/* Not in the cache. The kernel sees no handle that we did not sign, whoever asks. */
static fiber_fn int get_slow(const struct vfs_call *call, const struct vfs_fh *fh, struct vfs_file **file)
{
	uint64_t export_id;
	int err = vfs_fh_parse(fh, &export_id);

	if (err)
		return err;
	if (export_id != call->view->export->id)
		return -ESTALE;
	err = reserve(1, DESCRIPTORS_DIRECTORY);
	return err ? err : file_open(call->view->export, fh, file);
}

/* Nobody finds it any more. Who waits to COMMIT what it took sends that again: to the file that is in its place. */
static void supersede(struct vfs_file *file)
{
	leaf_lock(&cache.lock);
	file->superseded = true;
	leaf_unlock(&cache.lock);
	if (vfs_file_mapping(file))
		vfs_verifier_change();
}

fiber_fn int vfs_file_get(const struct vfs_call *call, const struct vfs_fh *fh, struct vfs_file **file)
{
	struct export *export = call->view->export;
	struct vfs_file *found = vfs_file_peek(fh);
	bool older;

	if (found && export_is_same(found->export, export)) {
		*file = found;
		return 0;
	}
	if (!found)
		return get_slow(call, fh, file);
	older = found->export->id == export->id && found->export->serial < export->serial;
	if (older)
		supersede(found);
	vfs_file_put(found);
	return older ? get_slow(call, fh, file) : -ESTALE;
}

static struct vfs_file *peek(const struct vfs_fh *fh, bool mapped)
{
	struct vfs_file *file;

	if (fh->len < sizeof(uint64_t) || fh->len > VFS_FH_MAX)
		return NULL;
	if (mapped && !atomic_load(mapped_slot(fh)))
		return NULL;
	leaf_lock(&cache.lock);
	file = find_locked(fh);
	if (file && mapped && !vfs_file_mapping(file))
		file = NULL;
	if (file)
		ref_locked(file);
	leaf_unlock(&cache.lock);
	return file;
}

noyield_fn struct vfs_file *vfs_file_peek(const struct vfs_fh *fh)
{
	return peek(fh, false);
}

noyield_fn struct vfs_file *vfs_file_peek_mapped(const struct vfs_fh *fh)
{
	return peek(fh, true);
}

/* Room for one more without closing anything that has a mapping; it may take a few too many from the LRU, not too few. */
static bool reserve_light(void)
{
	bool room;

	leaf_lock(&cache.lock);
	room = !is_full_locked(1, DESCRIPTORS_DIRECTORY) || bury_first_locked(&cache.light, EVICT_BATCH);
	leaf_unlock(&cache.lock);
	return room;
}

/* Not in the hash, and closed in the pool. */
static void discard(struct vfs_file *file)
{
	leaf_lock(&cache.lock);
	TAILQ_INSERT_TAIL(&cache.dead, file, lru);
	leaf_unlock(&cache.lock);
	start_closer();
}

noyield_fn void vfs_file_adopt(struct export *export, const struct vfs_fh *fh, int path_fd, const struct statx *stx)
{
	struct vfs_file *file = vfs_file_peek(fh);

	if (file) {
		close(path_fd); /* not the last descriptor of its inode: nothing to wait for */
		vfs_file_put(file);
		return;
	}
	file = file_new_open(fh, export, path_fd, stx);
	if (!file)
		return;
	if (!stx->stx_nlink || !reserve_light()) {
		discard(file);
		return;
	}
	counter_add(&counter_adopted, 1);
	vfs_file_put(insert(file));
}

noyield_fn struct vfs_file *vfs_file_ref(struct vfs_file *file)
{
	leaf_lock(&cache.lock);
	ASSERT(file->refs);
	file->refs++;
	leaf_unlock(&cache.lock);
	return file;
}

static void put_locked(struct vfs_file *file)
{
	ASSERT(file->refs);
	if (--file->refs)
		return;
	file->last_used_ns = clock_mono_ns();
	TAILQ_INSERT_TAIL(lru_of(file), file, lru);
	if (file->removed || file->superseded || (file->read_only_until_ns && file->last_used_ns >= file->read_only_until_ns))
		bury_locked(file);
}

noyield_fn void vfs_file_put(struct vfs_file *file)
{
	bool dead;

	leaf_lock(&cache.lock);
	put_locked(file);
	dead = !TAILQ_EMPTY(&cache.dead) && !cache.closer_running;
	leaf_unlock(&cache.lock);
	if (dead)
		start_closer();
}

/* The mapping's references are counted apart, to know whether anybody else uses the file. */
static void mapping_hold(void *owner)
{
	struct vfs_file *file = owner;

	leaf_lock(&cache.lock);
	ASSERT(file->refs);
	file->refs++;
	file->mapping_refs++;
	leaf_unlock(&cache.lock);
}

static void mapping_release(void *owner)
{
	struct vfs_file *file = owner;

	leaf_lock(&cache.lock);
	ASSERT(file->mapping_refs);
	file->mapping_refs--;
	leaf_unlock(&cache.lock);
	vfs_file_put(file);
}

static void mapping_data_lost(void *owner)
{
	vfs_verifier_change();
}

struct open_io_job {
	struct vfs_file *file;
	int result;          /* 0 or -errno */
	int direct_fd, buffered_fd;
	bool read_only;
	struct statx stx;
};

/* O_NONBLOCK only for the open, so that a local lease is an answer (-EWOULDBLOCK) and no wait; the ring would take it as a wish for -EAGAIN. */
static int open_io_fd(const struct vfs_file *file, int flags)
{
	const int fd = vfs_fh_open(&file->fh, file->export->mount_fd, flags | O_NONBLOCK);

	if (fd >= 0)
		fcntl(fd, F_SETFL, flags & O_DIRECT);
	return fd;
}

static bool cannot_write(int err)
{
	return err == -EROFS || err == -EACCES || err == -ETXTBSY || err == -EPERM;
}

static int open_buffered(struct open_io_job *j)
{
	j->buffered_fd = open_io_fd(j->file, O_RDWR);
	j->read_only = cannot_write(j->buffered_fd);
	if (j->read_only)
		j->buffered_fd = open_io_fd(j->file, O_RDONLY);
	return j->buffered_fd < 0 ? j->buffered_fd : 0;
}

/* Says statx that direct I/O is possible, and with a granularity that the cache can work with? */
static bool dio_usable(const struct statx *stx)
{
	const uint32_t align = stx->stx_dio_offset_align;

	return stx->stx_mask & IO_STATX_DIOALIGN && align >= DIO_ALIGN_MIN && align <= DIO_ALIGN_MAX && !(align & (align - 1)) && stx->stx_dio_mem_align <= PAGE_BYTES;
}

static void open_direct(struct open_io_job *j)
{
	j->direct_fd = -1;
	if (dio_usable(&j->stx))
		j->direct_fd = open_io_fd(j->file, (j->read_only ? O_RDONLY : O_RDWR) | O_DIRECT);
}

static void open_io_main(void *arg)
{
	struct open_io_job *j = arg;

	j->result = open_buffered(j);
	if (j->result)
		return;
	if (statx(j->buffered_fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | IO_STATX_ALIGN, &j->stx))
		j->result = -errno;
	else
		open_direct(j);
	/* Anything but running out of descriptors means that there is no direct I/O. */
	if (!j->result && out_of_descriptors(j->direct_fd))
		j->result = j->direct_fd;
	if (j->direct_fd < 0)
		j->direct_fd = -1;
	if (j->result)
		close(j->buffered_fd);
}

static struct mapping *make_mapping(struct vfs_file *file, const struct statx *stx)
{
	const struct mapping_config config = {
		.direct_fd = file->direct_fd,
		.buffered_fd = file->buffered_fd,
		.block = file->direct_fd >= 0 ? stx->stx_dio_offset_align : 0,
		.read_block = file->direct_fd >= 0 ? mapping_statx_read_align(stx) : 0,
		.size = stx->stx_size,
		.mtime = { stx->stx_mtime.tv_sec, stx->stx_mtime.tv_nsec },
		.ctime = { stx->stx_ctime.tv_sec, stx->stx_ctime.tv_nsec },
		.inode = stx->stx_ino,
		.dev_major = stx->stx_dev_major,
		.dev_minor = stx->stx_dev_minor,
		.owner = file,
		.hold = mapping_hold,
		.release = mapping_release,
		.data_lost = mapping_data_lost,
	};

	return mapping_create(&config);
}

static void count_io_descriptors(struct vfs_file *file)
{
	leaf_lock(&cache.lock);
	file->descriptors += DESCRIPTORS_IO;
	cache.descriptors += DESCRIPTORS_IO;
	leaf_unlock(&cache.lock);
}

static void set_read_only(struct vfs_file *file)
{
	leaf_lock(&cache.lock);
	file->read_only_until_ns = clock_mono_ns() + read_only_keep_ns;
	leaf_unlock(&cache.lock);
}

/* open_mutex held. */
static fiber_fn int open_io_locked(struct vfs_file *file)
{
	struct open_io_job j = { .file = file, .direct_fd = -1 };
	static struct log_limit no_direct_limit; /* a directory that comes and goes is another export each time */
	struct mapping *mapping;
	int err = reserve(0, DESCRIPTORS_IO);

	if (err)
		return err;
	run_opening(open_io_main, &j, &j.result);
	if (j.result)
		return j.result;
	file->direct_fd = j.direct_fd;
	file->buffered_fd = j.buffered_fd;
	file->io_read_only = j.read_only;
	if (j.read_only)
		set_read_only(file);
	if (file->direct_fd < 0 && !atomic_exchange(&file->export->no_direct_logged, true))
		log_limited(&no_direct_limit, LOG_LEVEL_NOTICE, "export %s: no direct I/O on its file system: files are read and written through the page cache", file->export->path);
	mapping = make_mapping(file, &j.stx);
	if (!mapping) {
		close_if_open(file->direct_fd);
		close_if_open(file->buffered_fd);
		file->direct_fd = file->buffered_fd = -1;
		return -ENOMEM;
	}
	file->io_open = true;
	count_io_descriptors(file);
	TRACE(TRACE_FILE, "file.open_io", "fileid %llu direct %d read_only %d", (unsigned long long)file->fileid, file->direct_fd >= 0, file->io_read_only);
	atomic_fetch_add(mapped_slot(&file->fh), 1);
	/* Pairs with vfs_file_mapping(): who sees the mapping sees the descriptors. */
	__atomic_store_n(&file->mapping, mapping, __ATOMIC_RELEASE);
	return 0;
}

noyield_fn struct mapping *vfs_file_mapping(const struct vfs_file *file)
{
	return __atomic_load_n(&file->mapping, __ATOMIC_ACQUIRE);
}

fiber_fn int vfs_file_open_io(struct vfs_file *file)
{
	int err = 0;

	if (vfs_file_mapping(file))
		return 0;
	if (!S_ISREG(file->type))
		return S_ISDIR(file->type) ? -EISDIR : -EINVAL;
	fiber_mutex_lock(&file->open_mutex);
	if (!file->io_open)
		err = open_io_locked(file);
	fiber_mutex_unlock(&file->open_mutex);
	return err;
}

noyield_fn void vfs_file_change_begin(struct vfs_file *file)
{
	atomic_fetch_add(&file->data_changes, VFS_CHANGE_BEGUN + 1);
}

noyield_fn void vfs_file_change_end(struct vfs_file *file)
{
	atomic_fetch_sub(&file->data_changes, 1);
}

noyield_fn void vfs_file_acl_set(struct vfs_file *file, void *acl, size_t len)
{
	void *old;

	leaf_lock(&cache.lock);
	old = file->acl;
	file->acl = acl;
	file->acl_len = len;
	leaf_unlock(&cache.lock);
	free(old);
}

noyield_fn ssize_t vfs_file_acl_copy(const struct vfs_file *file, void *acl, size_t size)
{
	ssize_t n;

	leaf_lock(&cache.lock);
	n = file->acl_len > size ? -ERANGE : (ssize_t)file->acl_len;
	if (n > 0)
		memcpy(acl, file->acl, n);
	leaf_unlock(&cache.lock);
	return n;
}

/* True: nobody uses the file but the caller and its own mapping. */
static bool mark_removed(struct vfs_file *file)
{
	bool alone;

	leaf_lock(&cache.lock);
	file->removed = true;
	alone = file->refs == file->mapping_refs + 1;
	leaf_unlock(&cache.lock);
	return alone;
}

fiber_fn void vfs_file_removed(const struct vfs_fh *fh)
{
	struct vfs_file *file = vfs_file_peek(fh);
	struct mapping *mapping;
	struct vfs_attr attr;

	if (!file)
		return;
	mapping = vfs_file_mapping(file);
	if (vfs_getattr(file, &attr) == -ESTALE && mark_removed(file) && mapping && !mapping_is_idle(mapping))
		mapping_discard(mapping);
	vfs_file_put(file);
}
