/*
 * vfs/export.c - the current table of exports: installing it, finding views, squashing identities.
 *
 * One table is current. table_lock, a leaf lock, protects the pointer and what parsing left open in it: each entry's export, each client's view and the
 * addresses of clients by name. Look-ups run inside it and leave with a referenced view, so nothing of a table outlives it but what somebody holds.
 * install_mutex, held in threads that may wait only and taken before table_lock, makes changes one at a time: they may open and stat at leisure and take
 * table_lock only to swap pointers. Nobody asks the name service while holding either: a table's hosts are asked for before it is installed, and those without an
 * answer again later (vfs/export_name.c).
 *
 * struct export never changes once made. When a directory appears, disappears or is another one than before, its entry gets a new struct export and its clients
 * new views; calls and open files keep the old ones until they are done. A view holds its export; an open file (vfs/file.c) holds one too. The last of them may
 * go on a reactor, but the last close of a file system that is mounted nowhere else unmounts it: then the dead export waits in a list for a fiber that takes
 * it to the pool. What finds no fiber is closed with the next one, at a refresh, or at the end.
 *
 * The descriptors: root_fd was opened by path and keeps the file system mounted, as an export of knfsd does. mount_fd lies on a private copy of the mount
 * (open_tree), in which nothing is mounted on the export's directories: a look-up there finds the covered directory, as knfsd does without crossmnt, and can
 * neither leave the file system nor pass the export's root with "..". Where the kernel refuses a copy, mount_fd is on the mount itself, and look-ups that meet a
 * mount answer -EACCES (vfs/ns_lookup.c).
 */
#include "vfs/export.h"

#include <endian.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/fiber.h"
#include "runtime/log.h"
#include "runtime/pool.h"
#include "runtime/reactor.h"
#include "runtime/sync.h"
#include "vfs/export_table.h"
#include "vfs/fh.h"
#include "vfs/siphash.h"

enum { ABSENCE_BYTES = 900 }; /* of a sentence about an absent export: as much as a line of the log takes */

static const uint64_t absent_retry_ns = 1000000000, host_retry_ns = 30000000000;
static const uint8_t identity_key[SIPHASH_KEY_BYTES];

/* FS_IOC_GETFSUUID of linux/fs.h (6.9), unknown to older headers. */
struct fs_uuid {
	uint8_t len;
	uint8_t uuid[16];
};
#define IOC_GETFSUUID _IOR(0x15, 0, struct fs_uuid)

static pthread_mutex_t install_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct leaf_lock table_lock = LEAF_LOCK_INIT;
/* protected by table_lock; written with install_mutex held too */
static struct export_table *current;
static uint64_t absent_tried_ns, host_tried_ns;

STAILQ_HEAD(export_dead_list, export);
static struct leaf_lock dead_lock = LEAF_LOCK_INIT;
/* protected by dead_lock */
static struct export_dead_list dead = STAILQ_HEAD_INITIALIZER(dead);
static bool closer_running;

/* What a file system is like, by statfs f_type. */
struct fs_kind {
	uint32_t magic;
	bool local;    /* an open file's inode is in memory */
	bool one_sync; /* one ordered journal of all metadata, or nothing to sync at all */
};

static const struct fs_kind fs_kinds[] = {
	{ EXT4_SUPER_MAGIC, true, true },
	{ XFS_SUPER_MAGIC, true, true },
	{ TMPFS_MAGIC, true, true },
	{ RAMFS_MAGIC, true, true },
	{ BTRFS_SUPER_MAGIC, true, false },
	{ F2FS_SUPER_MAGIC, true, false },
	{ MSDOS_SUPER_MAGIC, true, false },
};

static struct fs_kind fs_kind_of(uint32_t magic)
{
	for (unsigned i = 0; i < ARRAY_SIZE(fs_kinds); i++)
		if (fs_kinds[i].magic == magic)
			return fs_kinds[i];
	return (struct fs_kind){ magic, false, false };
}

/* The kernel tells nobody; it follows from the file system's type and block size. */
static uint64_t max_file_bytes(const struct statfs *fs)
{
	switch ((uint32_t)fs->f_type) {
	case EXT4_SUPER_MAGIC: /* 32-bit block numbers inside a file */
		return (uint64_t)UINT32_MAX * fs->f_bsize;
	case MSDOS_SUPER_MAGIC:
		return UINT32_MAX;
	default:
		return INT64_MAX;
	}
}

noyield_fn struct export *export_get(struct export *e)
{
	ASSERT(atomic_fetch_add(&e->refs, 1) > 0);
	return e;
}

/* May wait. */
static void export_close(struct export *e)
{
	if (e->root_fd >= 0)
		close(e->root_fd);
	if (e->mount_fd >= 0)
		close(e->mount_fd);
	leaf_lock_fini(&e->sync_lock);
	free(e->path);
	free(e);
}

/* Pool, or a thread that is no reactor. */
static void close_dead_main(void *arg)
{
	struct export_dead_list list = STAILQ_HEAD_INITIALIZER(list);
	struct export *e;

	leaf_lock(&dead_lock);
	STAILQ_CONCAT(&list, &dead);
	leaf_unlock(&dead_lock);
	while ((e = STAILQ_FIRST(&list))) {
		STAILQ_REMOVE_HEAD(&list, dead);
		export_close(e);
	}
}

static void closer_fiber(void *arg)
{
	bool more = true;

	while (more) {
		pool_run(close_dead_main, NULL, NULL);
		leaf_lock(&dead_lock);
		more = closer_running = !STAILQ_EMPTY(&dead);
		leaf_unlock(&dead_lock);
	}
}

static void bury(struct export *e)
{
	bool start;

	leaf_lock(&dead_lock);
	STAILQ_INSERT_TAIL(&dead, e, dead);
	start = !closer_running;
	closer_running = true;
	leaf_unlock(&dead_lock);
	if (!start || !fiber_spawn(closer_fiber, NULL, "export closer"))
		return;
	leaf_lock(&dead_lock);
	closer_running = false;
	leaf_unlock(&dead_lock);
}

noyield_fn void export_put(struct export *e)
{
	const unsigned refs = atomic_fetch_sub(&e->refs, 1);

	ASSERT(refs > 0);
	if (refs > 1)
		return;
	if (reactor_self())
		bury(e);
	else
		export_close(e);
}

noyield_fn void export_view_put(struct export_view *v)
{
	const unsigned refs = atomic_fetch_sub(&v->refs, 1);

	ASSERT(refs > 0);
	if (refs > 1)
		return;
	export_put(v->export);
	free(v);
}

static struct export *export_new(const char *path)
{
	static _Atomic uint64_t serials;
	struct export *e = calloc(1, sizeof(*e));

	ASSERT(e);
	e->serial = atomic_fetch_add(&serials, 1);
	e->path = strdup(path);
	ASSERT(e->path);
	e->root_fd = e->mount_fd = -1;
	leaf_lock_init(&e->sync_lock);
	TAILQ_INIT(&e->sync_waiting);
	e->refs = 1;
	return e;
}

static struct export_view *view_new(struct export *e, const struct export_options *options)
{
	struct export_view *v = calloc(1, sizeof(*v));

	ASSERT(v);
	v->export = export_get(e);
	v->options = *options;
	v->refs = 1;
	return v;
}

static bool all_zero(const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len && !*p)
		p++, len--;
	return !len;
}

/*
 * What stays the same when the file system is mounted elsewhere or its device gets another number: the UUID; else what statfs says, which most file systems
 * make of their UUID. XFS alone makes it of the device number.
 */
static uint64_t fs_identity(int fd, const struct statfs *fs, const struct export_entry *entry, struct export_remark_list *remarks)
{
	struct fs_uuid u = { 0 };

	if (!ioctl(fd, IOC_GETFSUUID, &u) && u.len <= sizeof(u.uuid) && !all_zero(u.uuid, u.len))
		return siphash24(identity_key, u.uuid, u.len);
	if (fs->f_type == XFS_SUPER_MAGIC || all_zero(&fs->f_fsid, sizeof(fs->f_fsid)))
		export_remark_add(remarks, LOG_LEVEL_WARNING, "%sexport %s: the file system tells no UUID; without fsid= handles may not survive a restart",
				  entry->where, entry->path);
	return siphash24(identity_key, &fs->f_fsid, sizeof(fs->f_fsid));
}

static bool entry_fsid(const struct export_entry *entry, uint64_t *fsid)
{
	const struct export_client *c;

	STAILQ_FOREACH(c, &entry->clients, link)
		if (c->options.has_fsid) {
			*fsid = c->options.fsid;
			return true;
		}
	return false;
}

/* The id is made of the file system and of the kernel's handle of the root: two exports of one file system differ, and neither name nor mount matter. */
static int export_identify(struct export *e, const struct export_entry *entry, const struct statfs *fs, struct export_remark_list *remarks)
{
	struct { uint64_t fsid; uint8_t root[VFS_FH_MAX]; } seed = { 0 };
	struct vfs_fh unnamed;
	int err = vfs_fh_from_fd(0, e->mount_fd, &unnamed);

	if (err)
		return err;
	if (!entry_fsid(entry, &e->fsid))
		e->fsid = fs_identity(e->mount_fd, fs, entry, remarks);
	seed.fsid = htole64(e->fsid);
	memcpy(seed.root, unnamed.data, unnamed.len - 8); /* without the signature, which depends on the key */
	e->id = siphash24(identity_key, &seed, sizeof(seed));
	return vfs_fh_from_fd(e->id, e->mount_fd, &e->root_fh);
}

/* Some file systems make handles but cannot open them again. */
static int export_probe_handle(const struct export *e)
{
	const int fd = vfs_fh_open(&e->root_fh, e->mount_fd, O_PATH);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int open_mount_fd(struct export *e, const struct export_entry *entry, struct export_remark_list *remarks)
{
	const int tree = open_tree(e->root_fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	int fd;

	if (tree < 0)
		export_remark_add(remarks, LOG_LEVEL_NOTICE, "%sexport %s: no private copy of the mount (%s): directories that others are mounted on answer ACCES",
				  entry->where, e->path, strerror(errno));
	e->private_mount = tree >= 0;
	fd = openat(tree < 0 ? e->root_fd : tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		fd = -errno;
	if (tree >= 0)
		close(tree);
	return fd;
}

/* mountpoint=: the directory named must be the root of a mount. */
static bool mountpoint_there(const char *path)
{
	struct statx stx;

	return !statx(AT_FDCWD, path, 0, 0, &stx) && stx.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

/* 0, or why the export is absent. */
static int export_open(struct export *e, const struct export_entry *entry, struct export_remark_list *remarks)
{
	struct statx stx;
	struct statfs fs;
	struct fs_kind kind;

	if (entry->mountpoint && !mountpoint_there(entry->mountpoint))
		return -ENODEV;
	e->root_fd = open(e->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (e->root_fd < 0)
		return -errno;
	e->mount_fd = open_mount_fd(e, entry, remarks);
	if (e->mount_fd < 0)
		return e->mount_fd;
	if (fstatfs(e->mount_fd, &fs) || statx(e->mount_fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx))
		return -errno;
	kind = fs_kind_of(fs.f_type);
	e->fs_magic = kind.magic;
	e->local_fs = kind.local;
	e->one_sync = kind.one_sync;
	e->max_file_bytes = max_file_bytes(&fs);
	e->root_dev = (uint64_t)stx.stx_dev_major << 32 | stx.stx_dev_minor;
	e->root_ino = stx.stx_ino;
	return export_identify(e, entry, &fs, remarks);
}

/* Always a struct export, absent if *why is not 0; -EOPNOTSUPP and -EPERM: its file system cannot be exported at all. */
static struct export *export_make(const struct export_entry *entry, struct export_remark_list *remarks, int *why)
{
	struct export *e = export_new(entry->path), *absent;

	*why = export_open(e, entry, remarks);
	if (!*why) {
		*why = export_probe_handle(e);
		if (*why && *why != -EPERM)
			*why = -EOPNOTSUPP;
	}
	if (!*why) {
		e->present = true;
		return e;
	}
	absent = export_new(entry->path);
	absent->useless = *why == -EOPNOTSUPP;
	absent->absence = *why;
	absent->fs_magic = e->fs_magic;
	export_put(e);
	return absent;
}

/* Of file systems that administrators may try to export and that have no handles. */
static const char *fs_name(uint32_t magic)
{
	switch (magic) {
	case PROC_SUPER_MAGIC: return "proc";
	case SYSFS_MAGIC: return "sysfs";
	case CGROUP2_SUPER_MAGIC: return "cgroup2";
	case DEVPTS_SUPER_MAGIC: return "devpts";
	case OVERLAYFS_SUPER_MAGIC: return "overlayfs";
	case FUSE_SUPER_MAGIC: return "FUSE";
	case NFS_SUPER_MAGIC: return "an NFS mount";
	default: return "unknown here";
	}
}

const char *export_absence(const struct export *e)
{
	if (e->present)
		return NULL;
	switch (e->absence) {
	case -EOPNOTSUPP: return "no file handles";
	case -ENOTDIR: return "not a directory";
	default: return "absent";
	}
}

/* Why entry's export e, just made, is absent: a sentence that begins with its line. */
static void absence_text(const struct export_entry *entry, const struct export *e, int why, char *buf, size_t len)
{
	int n = snprintf(buf, len, "%sexport %s", entry->where, e->path);

	if (n < 0 || (size_t)n >= len)
		return;
	buf += n;
	len -= n;
	if (why == -EOPNOTSUPP)
		snprintf(buf, len, " cannot be served: its file system (%s, type 0x%x) has no file handles that can be opened again%s", fs_name(e->fs_magic),
			 e->fs_magic, e->fs_magic == OVERLAYFS_SUPER_MAGIC ? " (overlayfs has if it is mounted with nfs_export=on)" : "");
	else if (why == -EPERM)
		snprintf(buf, len, " cannot be served: the server lacks CAP_DAC_READ_SEARCH to open file handles");
	else
		snprintf(buf, len, " is absent: %s", why == -ENODEV ? "nothing is mounted there" : strerror(-why));
}

/* Where others are served, or were. */
static void absence_remark(const struct export_entry *entry, const struct export *e, int why, struct export_remark_list *remarks)
{
	const char *left_out = e->useless ? "; it is left out until the exports are read again" : "";
	char text[ABSENCE_BYTES];

	absence_text(entry, e, why, text, sizeof(text));
	export_remark_add(remarks, e->useless ? LOG_LEVEL_ERROR : LOG_LEVEL_WARNING, "%s%s", text, left_out);
}

static bool same_directory(const struct export *a, const struct export *b)
{
	struct stat x, y;

	return !fstat(a->root_fd, &x) && !fstat(b->root_fd, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Another present export with e's id that is not the same directory: a copy of the file system (snapshot, image) mounted beside it. */
static const struct export_entry *export_twin(const struct export_table *t, const struct export_entry *entry, const struct export *e)
{
	const struct export_entry *other;

	STAILQ_FOREACH(other, &t->entries, link)
		if (other != entry && other->export && other->export->present && other->export->id == e->id && !same_directory(e, other->export))
			return other;
	return NULL;
}

static int export_check_twin(const struct export_table *t, const struct export_entry *entry, const struct export *e, char *errbuf, size_t errlen)
{
	const struct export_entry *twin = e->present ? export_twin(t, entry, e) : NULL;

	if (!twin)
		return 0;
	snprintf(errbuf, errlen, "%sexport %s: a copy of the file system of %s (%sexport %s), which cannot be told apart; give one of them fsid=", entry->where, entry->path,
		 twin->path, twin->where, twin->path);
	return -EADDRINUSE;
}

static unsigned client_count(const struct export_entry *entry)
{
	const struct export_client *c;
	unsigned n = 0;

	STAILQ_FOREACH(c, &entry->clients, link)
		n++;
	return n;
}

/* The entry's first export, in a table that nobody sees yet. */
static void entry_set_export(struct export_entry *entry, struct export *e)
{
	struct export_client *c;

	entry->export = e;
	STAILQ_FOREACH(c, &entry->clients, link)
		c->view = view_new(e, &c->options);
}

/* Another export than before. What goes is put when the table is unlocked again. */
static void entry_change_export(struct export_entry *entry, struct export *e)
{
	const unsigned n = client_count(entry);
	struct export_view **views = calloc(n, sizeof(struct export_view *)), *old;
	struct export *old_export = entry->export;
	struct export_client *c;
	unsigned i = 0;

	ASSERT(views);
	STAILQ_FOREACH(c, &entry->clients, link)
		views[i++] = view_new(e, &c->options);
	leaf_lock(&table_lock);
	entry->export = e;
	i = 0;
	STAILQ_FOREACH(c, &entry->clients, link) {
		old = c->view;
		c->view = views[i];
		views[i++] = old;
	}
	leaf_unlock(&table_lock);
	while (i--)
		export_view_put(views[i]);
	free(views);
	export_put(old_export);
}

static bool client_lacks_address(const struct export_client *c)
{
	return c->kind == CLIENT_HOST && c->by_name && !c->addr_count;
}

/* All hosts of a table that nobody sees yet. Those without an answer are asked for again later. */
static void table_resolve_hosts(struct export_table *t)
{
	struct export_entry *entry;
	struct export_client *c;

	STAILQ_FOREACH(entry, &t->entries, link)
		STAILQ_FOREACH(c, &entry->clients, link) {
			if (!client_lacks_address(c))
				continue;
			export_host_resolve(c->spec, &c->addrs, &c->addr_count);
			if (!c->addr_count)
				export_remark_add(&t->remarks, LOG_LEVEL_WARNING, "%sexport %s: host %s has no address now; nobody gets in by that name",
						  entry->where, entry->path, c->spec);
		}
}

/* Hosts of the current table. */
static void hosts_ask(void)
{
	const struct export_entry *entry;
	const struct export_client *c;

	STAILQ_FOREACH(entry, &current->entries, link)
		STAILQ_FOREACH(c, &entry->clients, link)
			if (client_lacks_address(c))
				export_host_ask(c->spec);
}

static void client_set_addresses_locked(struct export_client *c, const struct in6_addr *addrs, unsigned count)
{
	free(c->addrs);
	c->addrs = calloc(count, sizeof(*addrs));
	c->addr_count = c->addrs ? count : 0;
	if (c->addrs)
		memcpy(c->addrs, addrs, count * sizeof(*addrs));
}

void export_host_set(const char *host, const struct in6_addr *addrs, unsigned count)
{
	const struct export_entry *entry;
	struct export_client *c;

	leaf_lock(&table_lock);
	if (current && count)
		STAILQ_FOREACH(entry, &current->entries, link)
			STAILQ_FOREACH(c, &entry->clients, link)
				if (client_lacks_address(c) && !strcmp(c->spec, host))
					client_set_addresses_locked(c, addrs, count);
	leaf_unlock(&table_lock);
}

/* The path now leads elsewhere than when e was made. */
static bool export_outdated(const struct export *e, const struct export_entry *entry)
{
	struct stat now, then;

	if (e->useless)
		return false;
	if (entry->mountpoint && !mountpoint_there(entry->mountpoint))
		return e->present;
	if (stat(e->path, &now) || !S_ISDIR(now.st_mode))
		return e->present;
	if (!e->present)
		return true;
	return fstat(e->root_fd, &then) || now.st_dev != then.st_dev || now.st_ino != then.st_ino;
}

static bool fsid_agrees(const struct export_entry *a, const struct export_entry *b)
{
	uint64_t fsid_a = 0, fsid_b = 0;

	return entry_fsid(a, &fsid_a) == entry_fsid(b, &fsid_b) && fsid_a == fsid_b;
}

/*
 * What the current table has for the same directory is kept over a reload: files opened before and after it then lie on one mount, as rename and link
 * between them need. Referenced, or NULL.
 */
static struct export *export_keep(const struct export_entry *entry)
{
	const struct export_entry *old;

	if (!current)
		return NULL;
	STAILQ_FOREACH(old, &current->entries, link)
		if (!strcmp(old->path, entry->path) && old->export->present && fsid_agrees(old, entry) && !export_outdated(old->export, entry))
			return export_get(old->export);
	return NULL;
}

/* An entry's first export. 0, or an error that refuses the table. */
static int entry_open(struct export_table *t, struct export_entry *entry, char *errbuf, size_t errlen)
{
	struct export *e = export_keep(entry);
	int why = 0;

	if (!e)
		e = export_make(entry, &t->remarks, &why);
	entry_set_export(entry, e);
	entry->said = why;
	if (why == -EPERM) {
		absence_text(entry, e, why, errbuf, errlen);
		return why;
	}
	if (why)
		absence_remark(entry, e, why, &t->remarks);
	return export_check_twin(t, entry, e, errbuf, errlen);
}

/* The first export of a table that has no other than such without file handles; NULL: there are others, or none. */
static const struct export_entry *table_useless(const struct export_table *t)
{
	const struct export_entry *entry;

	STAILQ_FOREACH(entry, &t->entries, link)
		if (!entry->export->useless)
			return NULL;
	return STAILQ_FIRST(&t->entries);
}

/* What file system has no handles is left out, with an error among the remarks; a table of nothing else is refused. */
static int table_open(struct export_table *t, char *errbuf, size_t errlen)
{
	struct export_entry *entry;
	const struct export_entry *useless;
	int err;

	STAILQ_FOREACH(entry, &t->entries, link) {
		err = entry_open(t, entry, errbuf, errlen);
		if (err)
			return err;
	}
	useless = table_useless(t);
	if (!useless)
		return 0;
	absence_text(useless, useless->export, -EOPNOTSUPP, errbuf, errlen);
	return -EOPNOTSUPP;
}

static struct export_table *table_swap(struct export_table *t)
{
	struct export_table *old;

	leaf_lock(&table_lock);
	old = current;
	current = t;
	absent_tried_ns = host_tried_ns = clock_mono_ns();
	leaf_unlock(&table_lock);
	return old;
}

pool_fn int export_table_install(struct export_table *t, char *errbuf, size_t errlen)
{
	struct export_table *old = NULL;
	int err;

	table_resolve_hosts(t);
	pthread_mutex_lock(&install_mutex);
	err = table_open(t, errbuf, errlen);
	if (!err) {
		old = table_swap(t);
		export_remarks_log(&t->remarks, NULL);
	}
	pthread_mutex_unlock(&install_mutex);
	export_table_free(old);
	return err;
}

void export_table_fini(void)
{
	export_table_free(table_swap(NULL));
	close_dead_main(NULL);
}

noyield_fn void export_table_each(void (*fn)(void *arg, const struct export *e, const char *client_spec), void *arg)
{
	const struct export_entry *entry;
	const struct export_client *c;

	leaf_lock(&table_lock);
	if (current)
		STAILQ_FOREACH(entry, &current->entries, link)
			STAILQ_FOREACH(c, &entry->clients, link)
				fn(arg, entry->export, c->spec);
	leaf_unlock(&table_lock);
}

noyield_fn int export_table_each_for(const struct sockaddr *client, void (*fn)(void *arg, const struct export *e, const char *client_spec), void *arg)
{
	const struct export_entry *entry;
	struct export_client *c, *found;
	int err, ret = 0;

	leaf_lock(&table_lock);
	if (!current)
		goto out_unlock;
	STAILQ_FOREACH(entry, &current->entries, link) {
		err = entry->export->present ? export_client_find_locked(entry, client, &found) : -ESTALE;
		if (err == -EAGAIN)
			ret = err;
		if (err)
			continue;
		STAILQ_FOREACH(c, &entry->clients, link)
			fn(arg, entry->export, c->spec);
	}
out_unlock:
	leaf_unlock(&table_lock);
	return ret;
}

/* An export for an entry of the current table. With *why it is absent. */
static struct export *entry_make_again(const struct export_table *t, const struct export_entry *entry, struct export_remark_list *remarks, int *why)
{
	struct export *e = export_make(entry, remarks, why);
	char text[ABSENCE_BYTES];

	if (*why) {
		absence_remark(entry, e, *why, remarks);
		return e;
	}
	*why = export_check_twin(t, entry, e, text, sizeof(text));
	if (!*why)
		return e;
	export_remark_add(remarks, LOG_LEVEL_ERROR, "%s", text);
	export_put(e);
	return export_new(entry->path);
}

/*
 * A refresh cannot refuse the table: what cannot be exported stays absent, and each client that asks for it has it tried again. What is absent still, for the
 * same reason, was said already.
 */
static void entry_refresh(struct export_table *t, struct export_entry *entry)
{
	struct export_remark_list remarks = STAILQ_HEAD_INITIALIZER(remarks);
	struct export *e;
	int why;

	if (!export_outdated(entry->export, entry)) {
		if (!entry->export->present)
			entry->said = 0; /* there is nothing there: what comes next is news */
		return;
	}
	e = entry_make_again(t, entry, &remarks, &why);
	if (why && why == entry->said)
		export_remarks_free(&remarks);
	else
		export_remarks_log(&remarks, &entry->remarks_limit);
	if (!why)
		log_limited(&entry->back_limit, LOG_LEVEL_INFO, "export %s: its directory is there now", e->path);
	entry->said = why;
	entry_change_export(entry, e);
}

/* True once per interval: *last moves on. */
static bool due(uint64_t *last, uint64_t interval_ns)
{
	const uint64_t now = clock_mono_ns();
	bool is_due;

	leaf_lock(&table_lock);
	is_due = now - *last >= interval_ns;
	if (is_due)
		*last = now;
	leaf_unlock(&table_lock);
	return is_due;
}

static void refresh_main(void *arg)
{
	struct export_entry *entry;

	close_dead_main(NULL);
	pthread_mutex_lock(&install_mutex);
	if (!current)
		goto out_unlock;
	STAILQ_FOREACH(entry, &current->entries, link)
		entry_refresh(current, entry);
	if (due(&host_tried_ns, host_retry_ns))
		hosts_ask();
	due(&absent_tried_ns, 0);
out_unlock:
	pthread_mutex_unlock(&install_mutex);
}

fiber_fn void export_refresh(void)
{
	pool_run(refresh_main, NULL, NULL);
}

/* path is prefix or lies below it. Both normal. */
static bool path_is_below(const char *path, const char *prefix)
{
	const size_t len = strcmp(prefix, "/") ? strlen(prefix) : 0;

	return !strncmp(path, prefix, len) && (!path[len] || path[len] == '/');
}

static struct export_entry *entry_by_path_locked(const char *path)
{
	struct export_entry *entry, *best = NULL;

	if (!current)
		return NULL;
	STAILQ_FOREACH(entry, &current->entries, link)
		if (path_is_below(path, entry->path) && (!best || strlen(entry->path) > strlen(best->path)))
			best = entry;
	return best;
}

static int entry_view_locked(const struct export_entry *entry, const struct sockaddr *client, struct export_view **view)
{
	struct export_client *c;
	int err = export_client_find_locked(entry, client, &c);

	if (err)
		return err;
	if (!c->view->export->present)
		return -ESTALE;
	atomic_fetch_add(&c->view->refs, 1);
	*view = c->view;
	return 0;
}

static unsigned path_components(const char *normal)
{
	unsigned n = 0;

	for (; *normal; normal++)
		n += *normal == '/' && normal[1];
	return n;
}

/* What follows the first n components of a path that need not be in normal form. */
static const char *path_skip(const char *path, unsigned n)
{
	size_t len;

	for (;;) {
		path += strspn(path, "/");
		len = strcspn(path, "/");
		if (len == 1 && *path == '.') {
			path++;
			continue;
		}
		if (!n || !len)
			return path;
		path += len;
		n--;
	}
}

noyield_fn int export_view_by_path(const char *path, const struct sockaddr *client, struct export_view **view, const char **below)
{
	char *normal = export_path_normal(path);
	const struct export_entry *entry;
	int err = -ENOENT;

	if (!normal)
		return errno == EINVAL ? -ENOENT : -ENOMEM;
	leaf_lock(&table_lock);
	entry = entry_by_path_locked(normal);
	if (entry) {
		err = entry_view_locked(entry, client, view);
		*below = path_skip(path, path_components(entry->path));
	}
	leaf_unlock(&table_lock);
	free(normal);
	return err;
}

/* A handle of an export that was absent when last looked for: worth another look, now and then. */
static int unknown_id_locked(void)
{
	const struct export_entry *entry;

	if (clock_mono_ns() - absent_tried_ns < absent_retry_ns)
		return -ESTALE;
	STAILQ_FOREACH(entry, &current->entries, link)
		if (!entry->export->present)
			return -ENODEV;
	return -ESTALE;
}

noyield_fn int export_view_by_id(uint64_t id, const struct sockaddr *client, struct export_view **view)
{
	const struct export_entry *entry;
	int err = 0;

	leaf_lock(&table_lock);
	if (!current)
		err = -ESTALE;
	else
		STAILQ_FOREACH(entry, &current->entries, link) {
			if (!entry->export->present || entry->export->id != id)
				continue;
			/* One directory may be exported under two names, to different clients. */
			err = entry_view_locked(entry, client, view);
			if (err != -EACCES)
				goto out_unlock;
		}
	if (current && !err)
		err = unknown_id_locked();
out_unlock:
	leaf_unlock(&table_lock);
	return err;
}

static bool port_privileged(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET)
		return be16toh(((const struct sockaddr_in *)sa)->sin_port) < 1024;
	if (sa->sa_family == AF_INET6)
		return be16toh(((const struct sockaddr_in6 *)sa)->sin6_port) < 1024;
	return true;
}

static void cred_anonymous(struct cred *out, const struct export_options *o)
{
	memset(out, 0, sizeof(*out));
	out->uid = o->anon_uid;
	out->gid = o->anon_gid;
}

static uint32_t map_id(uint32_t id, bool squash_root, uint32_t anon)
{
	/* (uid_t)-1 is no identity: setfsuid() would leave the server's own in place. */
	return id == UINT32_MAX || (squash_root && id == 0) ? anon : id;
}

noyield_fn int export_map_cred(const struct export_view *v, const struct sockaddr *client, const struct cred *wire, struct cred *out)
{
	const struct export_options *o = &v->options;
	const bool root = o->squash == SQUASH_ROOT;

	if (!o->insecure && !port_privileged(client))
		return -EACCES;
	if (!wire || o->squash == SQUASH_ALL) {
		cred_anonymous(out, o);
		return 0;
	}
	memset(out, 0, sizeof(*out));
	out->uid = map_id(wire->uid, root, o->anon_uid);
	out->gid = map_id(wire->gid, root, o->anon_gid);
	ASSERT(wire->ngroups <= CRED_GROUPS_MAX);
	out->ngroups = wire->ngroups;
	for (unsigned i = 0; i < wire->ngroups; i++)
		out->groups[i] = map_id(wire->groups[i], root, o->anon_gid);
	return 0;
}
