/*
 * tests/unit/mount_test.c - server/mount3.c and nfs3_object_get() where vfs/ says "not known yet": a name service that answers nobody before the test lets it.
 * And what is logged of mounts, and which exports are listed.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/mount3.h"
#include "runtime/buf.h"
#include "runtime/clock.h"
#include "runtime/counter.h"
#include "runtime/fiber.h"
#include "runtime/pool.h"
#include "server/call.h"
#include "server/conn.h"
#include "server/mount3.h"
#include "server/nfs3.h"
#include "server/reply.h"
#include "tests/unit/vfs_harness.h"
#include "vfs/export.h"

static const uint64_t second_ns = 1000000000;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned asked;

/* libc's, to the program: everybody is called client.example.org, once the gate is open. */
int getnameinfo(const struct sockaddr *sa, socklen_t len, char *name, socklen_t size, char *service, socklen_t service_size, int flags)
{
	asked++;
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	strcpy(name, "client.example.org");
	return 0;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
	struct { struct addrinfo ai; struct sockaddr_in sin; } *made = calloc(1, sizeof(*made));
	made->sin.sin_family = AF_INET;
	made->sin.sin_addr.s_addr = htonl(0xc0000201);
	made->ai.ai_addr = (struct sockaddr *)&made->sin;
	*list = &made->ai;
	return 0;
}

void freeaddrinfo(struct addrinfo *list) { free(list); }

/* --- a call without a connection --- */

static struct conn client;
static struct rpc_call call = { .conn = &client };
static struct reply reply;
static uint8_t args[2048];

static void call_begin(void)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)&client.peer;
	sin->sin_family = AF_INET;
	sin->sin_addr.s_addr = htonl(0xc0000201);
	call.reply = &reply;
	xdr_out_init(&reply.out, reply.small, sizeof(reply.small));
}

/* MNT's status. */
static struct mountstat3 mount(const char *path)
{
	struct mountres3 res;
	struct xdr_out x;
	struct xdr results;
	call_begin();
	xdr_out_init(&x, args, sizeof(args));
	ASSERT(xdr_enc_bytes(&x, xdr_bytes_str(path), MNTPATHLEN));
	xdr_init(&call.args, args, xdr_out_pos(&x));
	ASSERT(mount_program.versions[0].procedures[MOUNTPROC3_MNT].run(&call) == CALL_DONE);
	xdr_init(&results, reply.small, xdr_out_pos(&reply.out));
	ASSERT(xdr_dec_mountres3(&results, &res));
	return res.fhs_status;
}

static int object_get(void)
{
	struct nfs_fh3 wire = nfs3_fh(&harness_view()->export->root_fh);
	struct nfs3_object o;
	call_begin();
	int err = nfs3_object_get(&call, &wire, &o);
	nfs3_object_put(&o);
	return err;
}

static void install_main(void *line)
{
	struct export_table *t = export_table_new();
	char err[200];
	ASSERT(export_table_add_line(t, line, "exports", 1, err, sizeof(err)) == 0);
	ASSERT(export_table_install(t, err, sizeof(err)) == 0);
}

/* lines: consumed. */
static void install_lines_main(void *lines)
{
	struct export_table *t = export_table_new();
	char err[200], *rest = lines, *line;
	while ((line = strsep(&rest, "\n")) != NULL)
		ASSERT(export_table_add_line(t, line, "exports", 1, err, sizeof(err)) == 0);
	ASSERT(export_table_install(t, err, sizeof(err)) == 0);
}

static void run(void (*fn)(void))
{
	scratch_begin();
	scratch_fs("tmpfs");
	mount3_init(16);
	vfs_harness_run("rw", fn);
	mount3_fini();
}

TestSuite(mount, .timeout = 60);

/* A name that takes long: JUKEBOX after a moment, and after that at once; MNT, which has no such status, waits longer and does not say that it is refused. */
static void name_unknown(void)
{
	pool_run(install_main, (void *)(SCRATCH_FS " *.example.org(rw,insecure)"), NULL);
	pthread_mutex_lock(&gate);
	uint64_t begun = clock_mono_ns();
	ASSERT(object_get() == -EAGAIN);
	ASSERT(clock_mono_ns() - begun >= second_ns / 5);
	call.header.proc = NFSPROC3_GETATTR;
	ASSERT(nfsstat3_eq(nfs3_status(&call, -EAGAIN), NFS3ERR_JUKEBOX));
	for (unsigned i = 0; i < 100000; i++)
		ASSERT(object_get() == -EAGAIN);
	ASSERT(mountstat3_eq(mount(SCRATCH_FS), MNT3ERR_SERVERFAULT));
	ASSERT(clock_mono_ns() - begun >= 4 * second_ns);
	pthread_mutex_unlock(&gate);
	while (object_get() == -EAGAIN) /* the resolver has yet to run, and nobody waits for it any more */
		fiber_sleep_ns(second_ns / 1000);
	ASSERT(object_get() == 0);
	ASSERT(mountstat3_is_ok(mount(SCRATCH_FS)));
	ASSERT(asked == 1);
}

Test(mount, name_unknown) { run(name_unknown); }

/* --- the log --- */

static unsigned lines_with(FILE *f, const char *what)
{
	char line[1024];
	unsigned n = 0;
	rewind(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, what) != NULL;
	return n;
}

/* As after a cluster's start: that one is refused shows though many more mount than are logged; and so it does the other way round. */
static void logged(void)
{
	FILE *f = tmpfile();
	int saved = dup(2);
	ASSERT(f && saved >= 0);
	dup2(fileno(f), 2);
	for (unsigned i = 0; i < 50; i++)
		ASSERT(mountstat3_is_ok(mount(SCRATCH_FS)));
	ASSERT(mountstat3_eq(mount("/nowhere"), MNT3ERR_NOENT));
	dup2(saved, 2);
	close(saved);
	unsigned granted = lines_with(f, "mount of " SCRATCH_FS " granted");
	ASSERT(granted > 0 && granted < 50);
	ASSERT(lines_with(f, "mount of /nowhere refused: it is not exported (MNT3ERR_NOENT)") == 1);
	ASSERT(counter_value("mount.granted") == 50);
	fclose(f);
}

Test(mount, logged) { run(logged); }

/* --- the list of exports --- */

/* "DIR:GROUP,GROUP, " of each that is listed. */
static const char *listed_exports(void)
{
	static char text[1024];
	struct xdr results;
	struct xdr_bytes dir, group;
	bool more, groups;
	size_t n = 0;
	call_begin();
	ASSERT(mount_program.versions[0].procedures[MOUNTPROC3_EXPORT].run(&call) == CALL_DONE);
	xdr_init(&results, reply.out.base, xdr_out_pos(&reply.out));
	text[0] = '\0';
	while (xdr_dec_exportnode(&results, &dir, &more) && more) {
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s:", (int)dir.len, (const char *)dir.ptr);
		while (xdr_dec_groupnode(&results, &group, &groups) && groups)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s,", (int)group.len, (const char *)group.ptr);
		n += (size_t)snprintf(text + n, sizeof(text) - n, " ");
	}
	buf_put(reply.buf);
	reply.buf = NULL;
	return text;
}

/* What is listed can be mounted: it is there, and for this client, also where that depends on its name. An export that comes is listed at once. */
static void exports_listed(void)
{
	static const char *const dirs[] = { SCRATCH_FS "/named", SCRATCH_FS "/closed", SCRATCH_FS "/net" };
	static char lines[] = SCRATCH_FS " *(rw,insecure)\n" SCRATCH_FS "/named *.example.org(rw) 10.9.8.7\n" SCRATCH_FS "/closed 10.0.0.1(rw)\n" SCRATCH_FS
		"/other *.example.com\n" SCRATCH_FS "/net 192.0.2.0/24\n" SCRATCH_FS "/absent *\n";
	for (unsigned i = 0; i < 3; i++)
		ASSERT(mkdir(dirs[i], 0755) == 0);
	pool_run(install_lines_main, lines, NULL);
	ASSERT(strcmp(listed_exports(), "/mnt/fs: /mnt/fs/named:*.example.org,10.9.8.7, /mnt/fs/net:192.0.2.0/24, ") == 0);
	ASSERT(mkdir(SCRATCH_FS "/absent", 0755) == 0);
	ASSERT(strstr(listed_exports(), " /mnt/fs/absent: ") != NULL);
	ASSERT(strstr(listed_exports(), "closed") == NULL && strstr(listed_exports(), "other") == NULL);
}

Test(mount, exports_listed) { run(exports_listed); }
