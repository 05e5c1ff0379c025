/*
 * server/mount3.c - MOUNT version 3 (RFC 1813 appendix I), on the same port as NFS.
 *
 * MNT finds the export, asks whether it is for this client, and hands out the root's handle or that of a directory below it, which is looked up name by
 * name from the export's root, so that no symlink and no ".." leads out. The look-up is the server's own, as mountd does it: a handle by itself
 * permits nothing.
 *
 * EXPORT lists what the caller could mount by its address, now. knfsd's mountd lists every export to everybody; but libnfs mounts all that is listed below the path
 * that it is told, and gives up if one is refused, and who may not mount an export need not know its name. The groups of an export that is listed are all shown,
 * as mountd does. The caller's port does not count: showmount asks from any, for a mount that comes from a privileged one.
 *
 * The list of mounts is what clients said; nobody decides anything by it. One leaf lock protects it; at its bound the oldest entry goes.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/mount3.h"
#include "runtime/counter.h"
#include "runtime/log.h"
#include "runtime/sync.h"
#include "server/conn.h"
#include "server/call.h"
#include "server/mount3.h"
#include "server/reply.h"
#include "server/server.h"
#include "vfs/export.h"
#include "vfs/file.h"
#include "vfs/ns.h"

enum { LIST_BYTES_MAX = 65536 };

COUNTER_DEFINE(mounts_granted, "mount.granted");
COUNTER_DEFINE(mounts_refused, "mount.refused");
COUNTER_DEFINE(lists_cut, "mount.lists_cut");

/* --- the list of mounts --- */

struct mount_entry {
	TAILQ_ENTRY(mount_entry) link;
	char host[INET6_ADDRSTRLEN];
	char directory[MNTPATHLEN + 1];
};

TAILQ_HEAD(mount_list, mount_entry);

static struct leaf_lock lock = LEAF_LOCK_INIT;
/* protected by lock */
static struct mount_list mounts = TAILQ_HEAD_INITIALIZER(mounts);
static size_t mount_count;
/* immutable after init */
static size_t mounts_max;

static void mount_remove_locked(struct mount_entry *m)
{
	TAILQ_REMOVE(&mounts, m, link);
	mount_count--;
	free(m);
}

/* directory NULL: all of the host's. */
static void mounts_forget_locked(const char *host, const char *directory)
{
	struct mount_entry *m, *next;
	TAILQ_FOREACH_SAFE(m, &mounts, link, next)
		if (strcmp(m->host, host) == 0 && (directory == NULL || strcmp(m->directory, directory) == 0))
			mount_remove_locked(m);
}

static void mount_forget(const struct rpc_call *call, const char *directory)
{
	char host[INET6_ADDRSTRLEN];
	conn_peer_name(call->conn, host, sizeof(host));
	leaf_lock(&lock);
	mounts_forget_locked(host, directory);
	leaf_unlock(&lock);
}

static void mount_remember(const struct rpc_call *call, const char *directory)
{
	struct mount_entry *m = calloc(1, sizeof(*m));
	if (m == NULL)
		return;
	conn_peer_name(call->conn, m->host, sizeof(m->host));
	strcpy(m->directory, directory);
	leaf_lock(&lock);
	mounts_forget_locked(m->host, m->directory);
	if (mount_count >= mounts_max)
		mount_remove_locked(TAILQ_FIRST(&mounts));
	TAILQ_INSERT_TAIL(&mounts, m, link);
	mount_count++;
	leaf_unlock(&lock);
}

void mount3_init(size_t max) { mounts_max = max; }

void mount3_fini(void)
{
	leaf_lock(&lock);
	while (!TAILQ_EMPTY(&mounts))
		mount_remove_locked(TAILQ_FIRST(&mounts));
	leaf_unlock(&lock);
}

/* --- MNT --- */

static struct mountstat3 status_of(int err)
{
	switch (-err) {
	case 0: return MNT3_OK;
	case EPERM: return MNT3ERR_PERM;
	case ESTALE:
	case ENOENT: return MNT3ERR_NOENT;
	case EIO: return MNT3ERR_IO;
	case EACCES: return MNT3ERR_ACCES;
	case ENOTDIR: return MNT3ERR_NOTDIR;
	case EINVAL: return MNT3ERR_INVAL;
	case ENAMETOOLONG: return MNT3ERR_NAMETOOLONG;
	case EOPNOTSUPP: return MNT3ERR_NOTSUPP;
	/* EAGAIN too, the client's name is not known yet: the protocol has no "later", and ACCES would say that it is not for this client. */
	default: return MNT3ERR_SERVERFAULT;
	}
}

/* The wire's path, ended and with single slashes, none at its end. -EINVAL: not absolute, or with a NUL inside. */
static int path_normalise(struct xdr_bytes wire, char path[MNTPATHLEN + 1])
{
	size_t n = 0;
	if (wire.len == 0 || wire.ptr[0] != '/' || memchr(wire.ptr, '\0', wire.len) != NULL)
		return -EINVAL;
	for (uint32_t i = 0; i < wire.len; i++)
		if (wire.ptr[i] != '/' || n == 0 || path[n - 1] != '/')
			path[n++] = (char)wire.ptr[i];
	if (n > 1 && path[n - 1] == '/')
		n--;
	path[n] = '\0';
	return 0;
}

/* One step down. A symlink is no directory here. */
static int descend(const struct vfs_call *call, struct vfs_fh *fh, struct vfs_name name)
{
	struct vfs_file *dir;
	struct vfs_node node;
	struct vfs_attr dir_attr;
	bool dir_attr_valid;
	if (name.len == 2 && memcmp(name.data, "..", 2) == 0)
		return -EINVAL;
	int err = vfs_file_get(call, fh, &dir);
	if (err != 0)
		return err;
	err = vfs_lookup(call, dir, name, &node, &dir_attr, &dir_attr_valid);
	vfs_file_put(dir);
	if (err == 0 && !S_ISDIR(node.attr.type_mode))
		err = -ENOTDIR;
	if (err == 0)
		*fh = node.fh;
	return err;
}

static int walk(const struct vfs_call *call, const char *below, struct vfs_fh *fh)
{
	int err = 0;
	while (err == 0) {
		below += strspn(below, "/");
		uint32_t len = (uint32_t)strcspn(below, "/");
		if (len == 0)
			return 0;
		err = descend(call, fh, (struct vfs_name){ below, len });
		below += len;
	}
	return err;
}

/* What has no answer to say "later" waits longer than calls do, but less than clients wait for an answer. */
static const uint64_t name_wait_ns = 4000000000;

static int view_find(const char *path, const struct sockaddr *client, struct export_view **view, const char **below)
{
	export_refresh();
	int err = export_view_by_path(path, client, view, below);
	if (err == -EACCES) {
		/* It may be a host whose address is being looked for. */
		export_hosts_await(name_wait_ns);
		err = export_view_by_path(path, client, view, below);
	}
	if (err == -EAGAIN) {
		export_name_await(client, name_wait_ns);
		err = export_view_by_path(path, client, view, below);
	}
	return err;
}

/* Why a look-up of the export failed, for whoever reads the log. */
static const char *view_refusal(int err)
{
	switch (-err) {
	case ENOENT: return "it is not exported";
	case EACCES: return "this client is not in the export's list";
	case ESTALE: return "it is exported, but not there";
	case EAGAIN: return "the export's list has names, and this client's is not known yet";
	default: return strerror(-err);
	}
}

static const char *walk_refusal(int err)
{
	switch (-err) {
	case ENOENT: return "there is no such directory in the export";
	case ENOTDIR: return "it is not a directory";
	case EINVAL: return "a path with '..' is not followed";
	default: return strerror(-err);
	}
}

/* *why: what stands against it, if something does. */
static int mount_path(struct rpc_call *call, const char *path, struct vfs_fh *fh, const char **why)
{
	const struct sockaddr *client = (const struct sockaddr *)&call->conn->peer;
	struct export_view *view;
	struct cred ignored;
	const char *below = "";
	int err = view_find(path, client, &view, &below);
	if (err != 0) {
		*why = view_refusal(err);
		return err;
	}
	/* Not for the identity, but for the port of a `secure` export. */
	err = export_map_cred(view, client, call->has_cred ? &call->cred : NULL, &ignored);
	struct vfs_call own = { .view = view, .cred = cred_root };
	*fh = view->export->root_fh;
	*why = err == -EACCES ? "the export is secure, and the client's port is not below 1024 (the option insecure allows that)" : strerror(-err);
	if (err == 0) {
		err = walk(&own, below != NULL ? below : "", fh);
		*why = walk_refusal(err);
	}
	export_view_put(view);
	return err;
}

/* Each with a limit of its own: many mounts, as after a cluster's start, do not hide that one was refused, nor the other way round. */
static void mount_log(const struct rpc_call *call, const char *path, int err, const char *why)
{
	static _Thread_local struct log_limit granted_limit, refused_limit;
	char host[INET6_ADDRSTRLEN];
	counter_add(err == 0 ? &mounts_granted : &mounts_refused, 1);
	conn_peer_name(call->conn, host, sizeof(host));
	if (err == 0)
		log_limited(&granted_limit, LOG_LEVEL_INFO, "%s: mount of %s granted", host, path);
	else
		log_limited(&refused_limit, LOG_LEVEL_NOTICE, "%s: mount of %s refused: %s (%s)", host, path, why, mount3_status_name(status_of(err)));
}

static enum call_outcome mount3_proc_mnt(struct rpc_call *call)
{
	char path[MNTPATHLEN + 1] = "?";
	struct mountres3 res = { .mountinfo.auth_flavors_len = 1, .mountinfo.auth_flavors = { AUTH_SYS } };
	struct xdr_bytes wire;
	struct vfs_fh fh;
	if (!xdr_dec_dirpath(&call->args, &wire))
		return CALL_GARBAGE;
	const char *why = "the path is not an absolute one";
	int err = path_normalise(wire, path);
	if (err == 0)
		err = mount_path(call, path, &fh, &why);
	mount_log(call, path, err, why);
	res.fhs_status = status_of(err);
	if (err == 0) {
		res.mountinfo.fhandle = xdr_bytes_of(fh.data, fh.len);
		mount_remember(call, path);
	}
	return xdr_enc_mountres3(&call->reply->out, &res) ? CALL_DONE : CALL_SYSTEM_ERR;
}

/* --- the others --- */

static enum call_outcome mount3_proc_null(struct rpc_call *call) { return CALL_DONE; }

static enum call_outcome mount3_proc_dump(struct rpc_call *call)
{
	struct mount_entry *m;
	bool room = reply_reserve(call->reply, LIST_BYTES_MAX);
	leaf_lock(&lock);
	TAILQ_FOREACH(m, &mounts, link) {
		struct mountbody body = { xdr_bytes_str(m->host), xdr_bytes_str(m->directory) };
		room = room && mount3_mountlist_entry(&call->reply->out, &body);
	}
	leaf_unlock(&lock);
	counter_add(&lists_cut, !room);
	return mount3_mountlist_end(&call->reply->out) ? CALL_DONE : CALL_SYSTEM_ERR;
}

static enum call_outcome mount3_proc_umnt(struct rpc_call *call)
{
	char path[MNTPATHLEN + 1];
	struct xdr_bytes wire;
	if (!xdr_dec_dirpath(&call->args, &wire))
		return CALL_GARBAGE;
	if (path_normalise(wire, path) == 0)
		mount_forget(call, path);
	return CALL_DONE;
}

static enum call_outcome mount3_proc_umntall(struct rpc_call *call)
{
	mount_forget(call, NULL);
	return CALL_DONE;
}

struct export_listing {
	struct mount3_exports exports;
	const struct export *last;
	bool room;
};

/* Entries of one export come one after the other: its clients are groups of one node. Everybody is no group at all. */
static void export_list(void *arg, const struct export *e, const char *client)
{
	struct export_listing *l = arg;
	if (l->room && e != l->last)
		l->room = mount3_exports_entry(&l->exports, xdr_bytes_str(e->path));
	l->last = e;
	if (l->room && client != NULL && strcmp(client, "*") != 0)
		l->room = mount3_exports_group(&l->exports, xdr_bytes_str(client));
}

static void export_pass(void *arg, const struct export *e, const char *client) { }

/* Have the directories looked for, and the client's name, where the list depends on these. */
static void exports_prepare(const struct sockaddr *client)
{
	export_refresh();
	if (export_table_each_for(client, export_pass, NULL) == -EAGAIN)
		export_name_await(client, name_wait_ns);
}

static enum call_outcome mount3_proc_export(struct rpc_call *call)
{
	const struct sockaddr *client = (const struct sockaddr *)&call->conn->peer;
	struct export_listing l = { .last = NULL };
	exports_prepare(client);
	l.room = reply_reserve(call->reply, LIST_BYTES_MAX);
	mount3_exports_begin(&l.exports, &call->reply->out);
	export_table_each_for(client, export_list, &l);
	counter_add(&lists_cut, !l.room);
	return mount3_exports_end(&l.exports) ? CALL_DONE : CALL_SYSTEM_ERR;
}

static const struct rpc_procedure mount3_procedures[MOUNTPROC3_COUNT] = {
	[MOUNTPROC3_NULL] = { "MOUNT NULL", mount3_proc_null, 0, NULL },
	[MOUNTPROC3_MNT] = { "MNT", mount3_proc_mnt, 0, NULL },
	[MOUNTPROC3_DUMP] = { "DUMP", mount3_proc_dump, 0, NULL },
	[MOUNTPROC3_UMNT] = { "UMNT", mount3_proc_umnt, 0, NULL },
	[MOUNTPROC3_UMNTALL] = { "UMNTALL", mount3_proc_umntall, 0, NULL },
	[MOUNTPROC3_EXPORT] = { "EXPORT", mount3_proc_export, 0, NULL },
};

static const struct rpc_version mount_versions[] = { { MOUNT_V3, MOUNTPROC3_COUNT, mount3_procedures } };
const struct rpc_program mount_program = { MOUNT_PROGRAM, ARRAY_SIZE(mount_versions), mount_versions };
