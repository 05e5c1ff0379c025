/*
 * vfs/export.h - what is exported to whom: exports(5) lines, and the table made of them.
 *
 * A table is immutable once built; reload builds a new one and swaps it in. Views are refcounted pieces of a table: a call holds the view it began with
 * until it ends, so a reload never pulls options from under it. An export whose directory is missing stays in the table, marked absent, and is looked
 * for again by export_refresh(): at each MNT, and when a look-up says -ENODEV.
 *
 * Lines are exports(5)'s: `path client(options) client(options)`, `path -defaults client ...`, `"quoted path"`, `\ooo` escapes, `\` at the end of a line,
 * `#` comments. A client is `*`, a host name, an address, a net (a.b.c.d/len, a.b.c.d/mask, IPv6/len) or a name with wildcards (`*.example.org`); nothing at all
 * (or only options) is everybody. When several entries of one export fit a client: single host, then net, then wildcard, then everybody; inside a
 * class the first. Netgroups, sec=krb5*, refer=, replicas=, reexport= and xprtsec=tls are refused: to ignore them would widen access or mislead.
 */
#ifndef VFS_EXPORT_H
#define VFS_EXPORT_H

#include <bsd/sys/queue.h>
#include <sys/socket.h>

#include "runtime/sync.h"
#include "vfs/types.h"

struct export_table;

enum export_squash { SQUASH_NONE, SQUASH_ROOT, SQUASH_ALL };
enum export_mode { EXPORT_MODE_BUFFERED, EXPORT_MODE_DONTCACHE, EXPORT_MODE_DIRECT };

/* Options of one client entry of one export, as exports(5) names them. */
struct export_options {
	bool read_only;             /* ro (default), rw */
	bool async;                 /* async: namespace operations and SETATTR are answered unsynced; stable WRITEs and COMMIT are synced all the same */
	bool insecure;              /* insecure: ports >= 1024 allowed */
	enum export_squash squash;  /* root_squash (default) */
	uint32_t anon_uid, anon_gid;/* 65534 */
	bool has_fsid;
	uint64_t fsid;              /* fsid=NUM, or folded from fsid=UUID; fsid=root or 0 */
	bool sec_sys;               /* sec=sys */
	enum export_mode read_mode, write_mode; /* read_mode=, write_mode=: direct by default */
	bool keep_edges;            /* misaligned_dontcache=no: completed edges stay in the cache too, for comparison */
};

/* One export seen by one client. Fields are immutable. */
struct export_view {
	struct export *export;
	struct export_options options;
	_Atomic unsigned refs;
};

/* One exported directory, shared by its views; refcounted by them and by open files. */
struct export {
	/* immutable: a directory that comes, goes or is another one becomes a new struct in a new table */
	char *path;
	bool present;       /* the rest is set */
	bool useless;       /* absent, since its file system cannot be exported: not looked for again */
	int absence;        /* why it is absent, negative errno */
	bool local_fs;      /* attributes of an open file come from memory: not FUSE, NFS, CIFS ... */
	bool one_sync;      /* one fsync makes every earlier change of the file system's metadata durable (a single ordered journal) */
	bool private_mount; /* mount_fd lies on a copy of the mount that is only ours */
	uint32_t fs_magic;  /* statfs f_type */
	uint64_t max_file_bytes;
	uint64_t id;        /* stable: hash of the file system's identity and the root's kernel handle; first in handles */
	uint64_t fsid;      /* stable file system identity as fattr3.fsid */
	uint64_t root_dev, root_ino;
	uint64_t serial;    /* later ones have greater numbers */
	int root_fd;        /* O_PATH, as found by path: keeps the file system from being unmounted */
	int mount_fd;       /* O_RDONLY, for open_by_handle_at: on a private copy of the mount, where nothing is mounted on top */
	struct vfs_fh root_fh;
	/* atomic: goes on before and after each change of metadata, so that it can be told which were over before another began (vfs/ns_sync.c) */
	_Atomic uint64_t change_clock;
	/* protected by sync_lock: changes that wait for the next sync, and whether a thread will look for them */
	struct leaf_lock sync_lock;
	TAILQ_HEAD(ns_sync_list, ns_sync) sync_waiting;
	bool sync_running;
	uint64_t sync_round;
	/* atomic: that files have no direct I/O here was logged */
	_Atomic bool no_direct_logged;
	/* atomic: views and open files hold one each */
	_Atomic unsigned refs;
	/* protected by export.c's lock of the dead: this one is, and waits to be closed */
	STAILQ_ENTRY(export) dead;
};

/* The same directory, perhaps by two names; not that of a file system that came in place of another and has its identity. */
static inline bool export_is_same(const struct export *a, const struct export *b)
{
	return a == b || (a->id == b->id && a->root_dev == b->root_dev && a->root_ino == b->root_ino);
}

/* Start a builder; add lines and files; finish. Errors: -EINVAL with "file:line: what" in errbuf (a clear sentence), nothing changed. */
struct export_table *export_table_new(void);
int export_table_add_line(struct export_table *t, const char *line, const char *file, int lineno, char *errbuf, size_t errlen);
/* exports(5) syntax: comments, continuation lines, quoted paths, \ooo escapes; a directory: every *.exports in it, sorted. Missing file: -ENOENT. */
int export_table_add_file(struct export_table *t, const char *path, char *errbuf, size_t errlen);
/*
 * 'PATH(options)' or 'PATH' of the command line (where: "") or of a line of a configuration ("FILE:LINE: "): every client; begins with rw,insecure,sync,root_squash
 * instead of exports(5)'s ro,secure.
 */
int export_table_add_cli(struct export_table *t, const char *spec, const char *where, char *errbuf, size_t errlen);
void export_table_free(struct export_table *t);
/*
 * Make t the current table and take it over, and log what there was to say about its lines; of the old one views and open files keep what they hold. Fills
 * ids, descriptors and root handles of what is present. -EOPNOTSUPP: no file system has usable handles (where some have, the others are absent); -EPERM: the
 * server may not open them; -EADDRINUSE: two exports would have one identity. Then errbuf says "FILE:LINE: what" of the line that is to blame, nothing changed,
 * nothing is logged, and t is the caller's.
 */
pool_fn int export_table_install(struct export_table *t, char *errbuf, size_t errlen);
/* Forget the current table: at the end, when every view was put. */
void export_table_fini(void);
/* What stands in the way of e being served, in a few words; NULL: nothing. */
const char *export_absence(const struct export *e);
/* Each export of the current table and each of its client entries in turn: for the ready line. */
noyield_fn void export_table_each(void (*fn)(void *arg, const struct export *e, const char *client_spec), void *arg);
/*
 * The same for MOUNT's list: only exports that are there and that are for this client, whatever its port. -EAGAIN: for some that depends on the client's name,
 * which is not known yet, and they are left out: export_name_await() and begin again. fn runs under a lock: it must not look anything up here.
 */
noyield_fn int export_table_each_for(const struct sockaddr *client, void (*fn)(void *arg, const struct export *e, const char *client_spec), void *arg);

/*
 * The view of the export that `path` names (MNT; exact match after normalising slashes, or a directory below an export: then *below points at the rest, "" otherwise) for
 * a client address. -ENOENT: no such export; -EACCES: not for this client; -ESTALE: absent now; -EAGAIN: whether it is for this client depends on the
 * client's name, which is not known yet: export_name_await() and try again; if that says -EAGAIN too, the client has to come again. Caller puts the view.
 */
noyield_fn int export_view_by_path(const char *path, const struct sockaddr *client, struct export_view **view, const char **below);
/*
 * The view for a handle's export id. -ESTALE: no such export (any more); -ENODEV: neither, but one that was absent may be back: export_refresh() and try again, once;
 * -EACCES, -EAGAIN: as above.
 */
noyield_fn int export_view_by_id(uint64_t id, const struct sockaddr *client, struct export_view **view);
/*
 * One trip to the pool: looks for absent exports again and checks that present ones still are what their path names. Has the addresses of hosts found that have
 * none yet, now and then; does not wait for these.
 */
fiber_fn void export_refresh(void);
/*
 * Have the client's name found (reverse look-up, confirmed by a forward one; kept in a bounded, expiring cache), unless it is known or being found, and wait until
 * it is or the question is wait_ns old. Only so many fibers wait: the others come back at once. For a client of whom a look-up said -EAGAIN.
 */
fiber_fn void export_name_await(const struct sockaddr *client, uint64_t wait_ns);
/* Wait until the hosts that export_refresh() asked for are found, or the questions are wait_ns old. */
fiber_fn void export_hosts_await(uint64_t wait_ns);
/* From any context: what the last reference kept open is closed where that may wait. */
noyield_fn void export_view_put(struct export_view *v);
noyield_fn struct export *export_get(struct export *e);
noyield_fn void export_put(struct export *e);
/* Squash: the identity a caller has on this view; wire NULL (AUTH_NONE): the anonymous one. A call from a port >= 1024 on a `secure` view: -EACCES. */
noyield_fn int export_map_cred(const struct export_view *v, const struct sockaddr *client, const struct cred *wire, struct cred *out);

#endif
