/* tests/unit/export_test.c - exports(5) lines: syntax, options, errors, precedence of clients, squashing; tables: absent directories, reload, twins. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/fault.h"
#include "runtime/fiber.h"
#include "runtime/reactor.h"
#include "tests/unit/vfs_harness.h"
#include "vfs/export.h"
#include "vfs/export_table.h"
#include "vfs/fh.h"

static char errbuf[300];

static struct export_table *table_of(const char *line)
{
	struct export_table *t = export_table_new();

	errbuf[0] = 0;
	cr_assert_eq(export_table_add_line(t, line, "exports", 7, errbuf, sizeof(errbuf)), 0, "%s: %s", line, errbuf);
	return t;
}

static struct export_client *first_client(struct export_table *t)
{
	return STAILQ_FIRST(&STAILQ_FIRST(&t->entries)->clients);
}

/* The options that a line gives its first client. */
static struct export_options options_of(const char *line)
{
	struct export_table *t = table_of(line);
	struct export_options o = first_client(t)->options;

	export_table_free(t);
	return o;
}

Test(export, defaults)
{
	const struct export_options o = options_of("/srv *");

	cr_expect(o.read_only);
	cr_expect(!o.async);
	cr_expect(!o.insecure);
	cr_expect_eq(o.squash, SQUASH_ROOT);
	cr_expect_eq(o.anon_uid, 65534);
	cr_expect_eq(o.anon_gid, 65534);
	cr_expect(!o.has_fsid);
	cr_expect(o.sec_sys);
	cr_expect_eq(o.read_mode, EXPORT_MODE_DIRECT);
	cr_expect_eq(o.write_mode, EXPORT_MODE_DIRECT);
	cr_expect(!o.keep_edges);
}

Test(export, options) /* 1.11 */
{
	struct export_options o = options_of("/srv *(rw,async,insecure,no_root_squash,anonuid=7,anongid=-2,fsid=0x10,sec=sys,write_mode=buffered,misaligned_dontcache=no)");

	cr_expect(!o.read_only);
	cr_expect(o.async);
	cr_expect(o.insecure);
	cr_expect_eq(o.squash, SQUASH_NONE);
	cr_expect_eq(o.anon_uid, 7);
	cr_expect_eq(o.anon_gid, UINT32_MAX - 1);
	cr_expect(o.has_fsid);
	cr_expect_eq(o.fsid, 16);
	cr_expect_eq(o.write_mode, EXPORT_MODE_BUFFERED);
	cr_expect(o.keep_edges);
	cr_expect_eq(options_of("/srv *(no_root_squash,all_squash)").squash, SQUASH_ALL);
	cr_expect_eq(options_of("/srv *(all_squash,no_all_squash)").squash, SQUASH_ROOT);
	cr_expect(options_of("/srv *(rw,ro)").read_only);
	cr_expect(options_of("/srv *(fsid=root)").has_fsid);
	cr_expect_eq(options_of("/srv *(fsid=12345678-9abc-def0-1234-56789abcdef0)").fsid, options_of("/srv *(fsid=12345678:9abcdef0:12345678:9abcdef0)").fsid);
	/* Options after a flavour that is not sys are that flavour's. */
	cr_expect(options_of("/srv *(sec=sys,ro,sec=krb5,rw)").read_only);
	cr_expect(!options_of("/srv *(ro,sec=krb5:sys,rw)").read_only);
	/* What has no effect here is accepted. */
	options_of("/srv *(wdelay,no_wdelay,subtree_check,no_subtree_check,hide,nohide,crossmnt,no_acl,acl,auth_nlm,secure_locks,pnfs,no_pnfs,security_label,nordirplus)");
}

Test(export, default_options_of_a_line)
{
	struct export_table *t = table_of("/srv -rw,async a.example.org b.example.org(ro) -sync c.example.org");
	struct export_client *a = first_client(t), *b = STAILQ_NEXT(a, link), *c = STAILQ_NEXT(b, link);

	cr_expect(!a->options.read_only && a->options.async);
	cr_expect(b->options.read_only && b->options.async);
	cr_expect(!c->options.read_only && !c->options.async);
	cr_expect(!STAILQ_NEXT(c, link));
	export_table_free(t);
}

static const char *path_of(const char *line)
{
	static char path[200];
	struct export_table *t = table_of(line);

	snprintf(path, sizeof(path), "%s", STAILQ_FIRST(&t->entries)->path);
	export_table_free(t);
	return path;
}

Test(export, paths)
{
	cr_expect_str_eq(path_of("/srv *"), "/srv");
	cr_expect_str_eq(path_of("  //srv/./data//  *  # comment"), "/srv/data");
	cr_expect_str_eq(path_of("\"/srv/with blank\" *"), "/srv/with blank");
	cr_expect_str_eq(path_of("/srv/with\\040blank *"), "/srv/with blank");
	cr_expect_str_eq(path_of("/srv/back\\134slash *"), "/srv/back\\slash");
	cr_expect_str_eq(path_of("\"/srv/#no comment\" *"), "/srv/#no comment");
	cr_expect_str_eq(path_of("/ *"), "/");
}

/* A bad line names file and line, says what is wrong, and leaves the table as it was. */
Test(export, errors)
{
	static const struct { const char *line, *says; } bad[] = {
		{ "srv *", "exports:7: 'srv': an absolute path" },
		{ "/srv/../etc *", "an absolute path without '..'" },
		{ "\"/srv *", "a quoted path does not end" },
		{ "/srv *(rw", "must end in ')'" },
		{ "/srv *(rw, sync)", "must end in ')'" },
		{ "/srv *(rw)x", "must end in ')'" },
		{ "/srv *(rx)", "unknown option 'rx'" },
		{ "/srv *(rw=1)", "option 'rw' takes no value" },
		{ "/srv *(anonuid)", "option 'anonuid' needs a value" },
		{ "/srv *(anonuid=-1)", "not a user or group number" },
		{ "/srv *(anonuid=99999999999)", "not a user or group number" },
		{ "/srv *(anonuid=x)", "not a user or group number" },
		{ "/srv *(fsid=zero)", "neither a number, 'root' nor a UUID" },
		{ "/srv *(fsid=-1)", "neither a number, 'root' nor a UUID" },
		{ "/srv a(fsid=1) b(fsid=2)", "two different fsid=" },
		{ "/srv *(sec=krb5)", "none is supported yet but sys" },
		{ "/srv *(sec=none)", "none is supported yet but sys" },
		{ "/srv *(sec=sis)", "unknown flavour 'sis'" },
		{ "/srv *(xprtsec=tls)", "TLS is not offered yet" },
		{ "/srv *(refer=/x@host)", "no referrals" },
		{ "/srv *(read_mode=fast)", "direct, dontcache or buffered" },
		{ "/srv *(misaligned_dontcache=maybe)", "yes or no" },
		{ "/srv @group(rw)", "netgroups are not supported" },
		{ "/srv 10.0.0.0/33", "neither an address" },
		{ "/srv 10.0.0.0/255.255.x.0", "neither an address" },
		{ "/srv fe80::/129", "neither an address" },
		{ "/srv 10.0.0.0/", "neither an address" },
		{ "/srv ho!st", "neither an address" },
		{ "/srv good(rw) bad!(rw)", "neither an address" },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		struct export_table *t = export_table_new();

		cr_expect_eq(export_table_add_line(t, bad[i].line, "exports", 7, errbuf, sizeof(errbuf)), -EINVAL, "%s", bad[i].line);
		cr_expect(strstr(errbuf, bad[i].says), "%s: %s", bad[i].line, errbuf);
		cr_expect(!strncmp(errbuf, "exports:7: ", 11), "%s", errbuf);
		cr_expect(STAILQ_EMPTY(&t->entries));
		export_table_free(t);
	}
}

static void in_file(const char *text, const char *path)
{
	FILE *f = fopen(path, "w");

	cr_assert(f);
	cr_assert_geq(fputs(text, f), 0);
	cr_assert_eq(fclose(f), 0);
}

Test(export, files)
{
	struct export_table *t = export_table_new();
	struct export_entry *e;

	scratch_begin();
	in_file("# exports\n\n/a \\\n  one(rw) \\\n  two\n/b *", SCRATCH "/exports");
	cr_assert_eq(export_table_add_file(t, SCRATCH "/exports", errbuf, sizeof(errbuf)), 0, "%s", errbuf);
	e = STAILQ_FIRST(&t->entries);
	cr_expect_str_eq(e->path, "/a");
	cr_expect_str_eq(STAILQ_NEXT(STAILQ_FIRST(&e->clients), link)->spec, "two");
	cr_expect_str_eq(STAILQ_NEXT(e, link)->path, "/b");

	mkdir(SCRATCH "/d", 0755);
	in_file("/second *\n", SCRATCH "/d/2.exports");
	in_file("/first *\n/a three\n", SCRATCH "/d/1.exports");
	in_file("/hidden *\n", SCRATCH "/d/.0.exports");
	in_file("/other *\n", SCRATCH "/d/3.conf");
	cr_assert_eq(export_table_add_file(t, SCRATCH "/d", errbuf, sizeof(errbuf)), 0, "%s", errbuf);
	e = STAILQ_NEXT(STAILQ_NEXT(e, link), link);
	cr_expect_str_eq(e->path, "/first");
	cr_expect_str_eq(STAILQ_NEXT(e, link)->path, "/second");
	cr_expect(!STAILQ_NEXT(STAILQ_NEXT(e, link), link));
	export_table_free(t);

	t = export_table_new();
	in_file("/a one \\\n two\n/b *(no)\n", SCRATCH "/bad");
	cr_expect_eq(export_table_add_file(t, SCRATCH "/bad", errbuf, sizeof(errbuf)), -EINVAL);
	cr_expect_str_eq(errbuf, SCRATCH "/bad:3: unknown option 'no'");
	cr_expect_eq(export_table_add_file(t, SCRATCH "/missing", errbuf, sizeof(errbuf)), -ENOENT);
	export_table_free(t);
}

Test(export, command_line)
{
	struct export_table *t = export_table_new();
	struct export_client *c;

	cr_assert_eq(export_table_add_cli(t, "/srv/a(b)c", "", errbuf, sizeof(errbuf)), 0, "%s", errbuf);
	cr_expect_str_eq(STAILQ_FIRST(&t->entries)->path, "/srv/a(b)c");
	c = first_client(t);
	cr_expect_eq(c->kind, CLIENT_ANYBODY);
	cr_expect(!c->options.read_only && c->options.insecure && !c->options.async);
	cr_expect_eq(c->options.squash, SQUASH_ROOT);
	cr_assert_eq(export_table_add_cli(t, "/x(ro,all_squash)", "", errbuf, sizeof(errbuf)), 0, "%s", errbuf);
	c = STAILQ_FIRST(&STAILQ_NEXT(STAILQ_FIRST(&t->entries), link)->clients);
	cr_expect(c->options.read_only);
	cr_expect_eq(c->options.squash, SQUASH_ALL);
	cr_expect_eq(export_table_add_cli(t, "relative", "", errbuf, sizeof(errbuf)), -EINVAL);
	cr_expect_eq(export_table_add_cli(t, "/y(what)", "", errbuf, sizeof(errbuf)), -EINVAL);
	cr_expect_str_eq(errbuf, "export '/y(what)': unknown option 'what'");
	cr_expect_eq(export_table_add_cli(t, "/y(rw", "", errbuf, sizeof(errbuf)), -EINVAL);
	cr_expect_str_eq(errbuf, "export '/y(rw': the list of options does not end in ')'");
	cr_expect_eq(export_table_add_cli(t, "/y *(rw)", "", errbuf, sizeof(errbuf)), -EINVAL);
	cr_expect(strstr(errbuf, "clients are named in an exports file"), "%s", errbuf);
	cr_expect_eq(export_table_add_cli(t, "/x/(rw)", "", errbuf, sizeof(errbuf)), -EINVAL);
	cr_expect(strstr(errbuf, "exported already"), "%s", errbuf);
	export_table_free(t);
}

/* Errors of a line of a configuration name it. */
Test(export, configuration_line)
{
	struct export_table *t = export_table_new();

	cr_expect_eq(export_table_add_cli(t, "/x(what)", "c.conf:3: ", errbuf, sizeof(errbuf)), -EINVAL);
	cr_expect_str_eq(errbuf, "c.conf:3: export '/x(what)': unknown option 'what'");
	cr_expect_eq(export_table_add_cli(t, "/z", "c.conf:4: ", errbuf, sizeof(errbuf)), 0);
	cr_expect_eq(export_table_add_cli(t, "/z/", "c.conf:5: ", errbuf, sizeof(errbuf)), -EINVAL);
	cr_expect_str_eq(errbuf, "c.conf:5: export '/z/': exported already (c.conf:4: export /z); give all its options at once");
	cr_expect_eq(export_table_add_cli(t, "/y(rw) # all", "c.conf:6: ", errbuf, sizeof(errbuf)), -EINVAL);
	cr_expect(strstr(errbuf, "a comment behind a value begins with ' ;'"), "%s", errbuf);
	export_table_free(t);
}

static const struct sockaddr *address(const char *text)
{
	static struct sockaddr_storage ss;
	struct sockaddr_in *sin = (struct sockaddr_in *)&ss;
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)&ss;

	memset(&ss, 0, sizeof(ss));
	if (inet_pton(AF_INET, text, &sin->sin_addr) == 1) {
		sin->sin_family = AF_INET;
		sin->sin_port = htons(700);
	} else {
		cr_assert_eq(inet_pton(AF_INET6, text, &sin6->sin6_addr), 1);
		sin6->sin6_family = AF_INET6;
		sin6->sin6_port = htons(700);
	}
	return (const struct sockaddr *)&ss;
}

/* Which client entry fits: its spec, or the error's number. */
static const char *fits(struct export_table *t, const char *client)
{
	static char text[64];
	struct export_client *c;
	int err = export_client_find_locked(STAILQ_FIRST(&t->entries), address(client), &c);

	snprintf(text, sizeof(text), "%s", err ? strerror(-err) : c->spec);
	return text;
}

Test(export, precedence)
{
	struct export_table *t = table_of("/srv * 10.0.0.0/8 10.1.0.0/255.255.0.0 10.1.2.3 fd00::/16 fd00::1");

	cr_expect_str_eq(fits(t, "192.0.2.1"), "*");
	cr_expect_str_eq(fits(t, "10.1.9.9"), "10.0.0.0/8", "the first of a class, not the narrowest");
	cr_expect_str_eq(fits(t, "10.1.2.3"), "10.1.2.3");
	cr_expect_str_eq(fits(t, "::ffff:10.1.2.3"), "10.1.2.3", "an IPv6 socket shows IPv4 clients mapped");
	cr_expect_str_eq(fits(t, "fd00::2"), "fd00::/16");
	cr_expect_str_eq(fits(t, "fd00::1"), "fd00::1");
	cr_expect_str_eq(fits(t, "fd01::1"), "*");
	export_table_free(t);
	t = table_of("/srv 10.0.0.0/8(rw)");
	cr_expect_str_eq(fits(t, "11.0.0.1"), strerror(EACCES));
	export_table_free(t);
}

static struct cred mapped(const char *options, const struct cred *wire)
{
	struct export_table *t = table_of(options);
	struct export_view view = { .options = first_client(t)->options };
	struct cred out;

	cr_assert_eq(export_map_cred(&view, address("127.0.0.1"), wire, &out), 0);
	export_table_free(t);
	return out;
}

Test(export, squash)
{
	const struct cred root = { .uid = 0, .gid = 0, .ngroups = 2, .groups = { 0, 5 } }, user = { .uid = 100, .gid = 0, .ngroups = 1, .groups = { 6 } };
	const struct cred nobody = { .uid = UINT32_MAX, .gid = UINT32_MAX, .ngroups = 1, .groups = { UINT32_MAX } };
	struct cred c;

	c = mapped("/srv *(anonuid=1,anongid=2)", &root);
	cr_expect(c.uid == 1 && c.gid == 2 && c.ngroups == 2 && c.groups[0] == 2 && c.groups[1] == 5);
	c = mapped("/srv *(anonuid=1,anongid=2)", &user);
	cr_expect(c.uid == 100 && c.gid == 2 && c.groups[0] == 6);
	c = mapped("/srv *(no_root_squash)", &root);
	cr_expect(cred_equal(&c, &root));
	c = mapped("/srv *(all_squash,anonuid=1,anongid=2)", &user);
	cr_expect(c.uid == 1 && c.gid == 2 && c.ngroups == 0);
	c = mapped("/srv *(no_root_squash)", NULL);
	cr_expect(c.uid == 65534 && c.gid == 65534 && c.ngroups == 0);
	/* -1 is no identity, and never the server's own. */
	c = mapped("/srv *(no_root_squash)", &nobody);
	cr_expect(c.uid == 65534 && c.gid == 65534 && c.groups[0] == 65534);
}

Test(export, secure_ports)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(1024) };
	struct export_view view = { .options = { .insecure = false } };
	struct cred out;

	cr_expect_eq(export_map_cred(&view, (struct sockaddr *)&sin, &cred_root, &out), -EACCES);
	sin.sin_port = htons(1023);
	cr_expect_eq(export_map_cred(&view, (struct sockaddr *)&sin, &cred_root, &out), 0);
	sin.sin_port = htons(1024);
	view.options.insecure = true;
	cr_expect_eq(export_map_cred(&view, (struct sockaddr *)&sin, &cred_root, &out), 0);
}

static void install(const char *lines)
{
	struct export_table *t = export_table_new();

	in_file(lines, SCRATCH "/exports");
	cr_assert_eq(export_table_add_file(t, SCRATCH "/exports", errbuf, sizeof(errbuf)), 0, "%s", errbuf);
	cr_assert_eq(export_table_install(t, errbuf, sizeof(errbuf)), 0);
}

static int view_of(const char *path, const char *client, struct export_view **view, const char **below)
{
	return export_view_by_path(path, address(client), view, below);
}

Test(export, views)
{
	struct export_view *view, *again;
	const char *below;
	uint64_t id;

	scratch_begin();
	scratch_fs("tmpfs");
	mkdir(SCRATCH_FS "/sub", 0755);
	install(SCRATCH_FS " 127.0.0.1(rw)\n" SCRATCH_FS "/sub 10.0.0.0/8 127.0.0.1\n/nonexistent *\n");
	cr_expect_eq(view_of("/other", "127.0.0.1", &view, &below), -ENOENT);
	cr_expect_eq(view_of("relative", "127.0.0.1", &view, &below), -ENOENT);
	cr_expect_eq(view_of(SCRATCH_FS "x", "127.0.0.1", &view, &below), -ENOENT);
	cr_expect_eq(view_of("/nonexistent", "127.0.0.1", &view, &below), -ESTALE);
	cr_expect_eq(view_of(SCRATCH_FS, "10.0.0.1", &view, &below), -EACCES);
	cr_expect_eq(view_of("//mnt/./fs//", "127.0.0.1", &view, &below), 0);
	cr_expect_str_eq(below, "");
	cr_expect(!view->options.read_only);
	export_view_put(view);
	cr_expect_eq(view_of(SCRATCH_FS "//a/b/", "127.0.0.1", &view, &below), 0);
	cr_expect_str_eq(below, "a/b/");
	id = view->export->id;
	export_view_put(view);
	cr_expect_eq(view_of(SCRATCH_FS "/sub/x", "127.0.0.1", &view, &below), 0);
	cr_expect_str_eq(below, "x");
	cr_expect(view->options.read_only);
	cr_expect_neq(view->export->id, id);

	cr_expect_eq(export_view_by_id(view->export->id, address("10.1.1.1"), &again), 0);
	cr_expect_eq(again->export, view->export);
	export_view_put(again);
	cr_expect_eq(export_view_by_id(id, address("10.1.1.1"), &again), -EACCES);
	cr_expect_eq(export_view_by_id(id + 1, address("10.1.1.1"), &again), -ESTALE);

	/* A reload takes nothing from under a view, and keeps what is the same. */
	install(SCRATCH_FS "/sub 127.0.0.1(rw)\n");
	cr_expect(view->options.read_only);
	cr_expect_eq(export_view_by_id(view->export->id, address("127.0.0.1"), &again), 0);
	cr_expect_eq(again->export, view->export);
	cr_expect(!again->options.read_only);
	export_view_put(again);
	export_view_put(view);
	cr_expect_eq(view_of(SCRATCH_FS, "127.0.0.1", &view, &below), -ENOENT);
	export_table_fini();
	cr_expect_eq(view_of(SCRATCH_FS "/sub", "127.0.0.1", &view, &below), -ENOENT);
}

static void count_clients(void *arg, const struct export *e, const char *spec)
{
	unsigned *n = arg;

	*n += !strcmp(e->path, "/nonexistent") && !strcmp(spec, "10.0.0.1");
}

Test(export, each)
{
	unsigned n = 0;

	scratch_begin();
	install("/nonexistent * 10.0.0.1\n");
	export_table_each(count_clients, &n);
	cr_expect_eq(n, 1);
	export_table_fini();
}

/* An image and its copy have one UUID: their handles could not be told apart. */
/* The log goes to a file from here on, until log_count() is told to end that. */
static int log_fd = -1, saved_stderr;

static void log_begin(void)
{
	saved_stderr = dup(STDERR_FILENO);
	log_fd = open(SCRATCH "/log", O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	cr_assert(log_fd >= 0 && dup2(log_fd, STDERR_FILENO) >= 0);
}

static void log_end(void)
{
	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	close(log_fd);
}

/* How often the log has this. */
static unsigned log_count(const char *what)
{
	static char text[64 << 10];
	const ssize_t n = pread(log_fd, text, sizeof(text) - 1, 0);
	unsigned count = 0;

	ASSERT(n >= 0);
	text[n] = 0;
	for (const char *s = text; (s = strstr(s, what)); s += strlen(what))
		count++;
	return count;
}

static void make_twin(void)
{
	scratch_begin();
	scratch_fs("ext4");
	cr_assert_eq(system("cp --sparse=always " SCRATCH "/image " SCRATCH "/copy && mkdir " SCRATCH "/twin"), 0);
}

#define MOUNT_TWIN "mount -o loop " SCRATCH "/copy " SCRATCH "/twin"

/* One that is refused says nothing in the log: its error is the caller's to tell, and all else would hide it. */
Test(export, twins_refused)
{
	struct export_table *t = export_table_new();

	make_twin();
	cr_assert_eq(system(MOUNT_TWIN), 0);
	log_begin();
	cr_assert_eq(export_table_add_cli(t, "/nonexistent(crossmnt)", "c.conf:1: ", errbuf, sizeof(errbuf)), 0);
	cr_assert_eq(export_table_add_cli(t, SCRATCH_FS, "c.conf:2: ", errbuf, sizeof(errbuf)), 0);
	cr_assert_eq(export_table_add_line(t, SCRATCH "/twin *", "exports", 7, errbuf, sizeof(errbuf)), 0);
	cr_expect_eq(export_table_install(t, errbuf, sizeof(errbuf)), -EADDRINUSE);
	cr_expect_eq(log_count("\n"), 0);
	cr_expect(!strncmp(errbuf, "exports:7: export " SCRATCH "/twin: ", strlen("exports:7: export " SCRATCH "/twin: ")), "%s", errbuf);
	cr_expect(strstr(errbuf, "(c.conf:2: export " SCRATCH_FS ")"), "%s", errbuf);
	export_table_free(t);
	install("/nonexistent *(crossmnt)\n" SCRATCH_FS " *\n" SCRATCH "/twin *(fsid=2)\n");
	cr_expect_eq(log_count("\n"), 2);
	cr_expect_eq(log_count("crossmnt"), 1);
	cr_expect_eq(log_count("/nonexistent is absent"), 1);
	log_end();
	export_table_fini();
}

static void refreshes(unsigned n)
{
	while (n--)
		export_refresh();
}

/* Clients that ask again and again for what stays absent do not fill the log. */
static void twin_comes_fiber(void *arg, unsigned index)
{
	export_refresh();
	ASSERT(system(MOUNT_TWIN) == 0);
	refreshes(5);
	ASSERT(log_count("a copy of the file system of") == 1);
	ASSERT(log_count("\n") == 2);
	ASSERT(system("umount " SCRATCH "/twin") == 0);
	export_refresh();
	ASSERT(system(MOUNT_TWIN) == 0);
	refreshes(5);
	ASSERT(log_count("a copy of the file system of") == 2);
	ASSERT(log_count("\n") == 3);
	runtime_stop();
}

/* Nor do those who have a directory come and go; but what happens to another export is told meanwhile. */
static void flapping_fiber(void *arg, unsigned index)
{
	for (unsigned i = 0; i < 12; i++) {
		ASSERT(mkdir(SCRATCH_FS "/a", 0755) == 0);
		export_refresh();
		ASSERT(rmdir(SCRATCH_FS "/a") == 0);
		export_refresh();
	}
	ASSERT(log_count("/a: its directory is there now") == 10);
	ASSERT(log_count("/a is absent") >= 10 && log_count("/a is absent") <= 11); /* that of the start has no limit */
	ASSERT(rmdir(SCRATCH_FS "/b") == 0);
	export_refresh();
	ASSERT(log_count("/b is absent") == 1);
	runtime_stop();
}

static void refresh_run(const char *lines, void (*fiber)(void *arg, unsigned index))
{
	const struct reactor_config config = { .reactors = 1, .fibers = 16, .pool_threads = 2 };

	log_begin();
	install(lines);
	cr_assert_eq(runtime_init(&config), 0);
	cr_assert_eq(runtime_run(fiber, NULL), 0);
	runtime_fini();
	log_end();
	export_table_fini();
}

Test(export, twin_comes)
{
	make_twin();
	refresh_run(SCRATCH_FS " *\n" SCRATCH "/twin *(mountpoint)\n", twin_comes_fiber);
}

Test(export, flapping)
{
	scratch_begin();
	scratch_fs("ext4");
	cr_assert_eq(mkdir(SCRATCH_FS "/b", 0755), 0);
	refresh_run(SCRATCH_FS "/a *\n" SCRATCH_FS "/b *\n", flapping_fiber);
}

Test(export, no_handles_refused)
{
	struct export_table *t = export_table_new();

	cr_assert_eq(export_table_add_cli(t, "/proc/self", "c.conf:2: ", errbuf, sizeof(errbuf)), 0);
	cr_expect_eq(export_table_install(t, errbuf, sizeof(errbuf)), -EOPNOTSUPP);
	cr_expect(!strncmp(errbuf, "c.conf:2: export /proc/self cannot be served: its file system", strlen("c.conf:2: export /proc/self cannot be served: its file system")), "%s", errbuf);
	export_table_free(t);
}

static void find_present(void *arg, const struct export *e, const char *client)
{
	if (e->present)
		*(const char **)arg = e->path;
	else
		cr_expect(e->useless && !strcmp(e->path, "/proc/self"), "%s", e->path);
}

/* One that cannot be served does not take the others with it. */
Test(export, no_handles_left_out)
{
	const char *present = NULL;

	scratch_begin();
	scratch_fs("ext4");
	install("/proc/self *\n" SCRATCH_FS " *\n");
	export_table_each(find_present, &present);
	cr_assert_not_null(present);
	cr_expect_str_eq(present, SCRATCH_FS);
	export_table_fini();
}

static void absent_fiber(void *arg, unsigned index)
{
	struct export_view *view;
	const char *below;

	ASSERT(view_of(SCRATCH_FS "/late", "127.0.0.1", &view, &below) == -ESTALE);
	ASSERT(mkdir(SCRATCH_FS "/late", 0755) == 0);
	export_refresh();
	ASSERT(view_of(SCRATCH_FS "/late", "127.0.0.1", &view, &below) == 0);
	export_view_put(view);
	ASSERT(rmdir(SCRATCH_FS "/late") == 0);
	export_refresh();
	ASSERT(view_of(SCRATCH_FS "/late", "127.0.0.1", &view, &below) == -ESTALE);

	/* mountpoint: absent until something is mounted there. */
	ASSERT(view_of(SCRATCH_FS "/mp", "127.0.0.1", &view, &below) == -ESTALE);
	ASSERT(mount("none", SCRATCH_FS "/mp", "tmpfs", 0, NULL) == 0);
	export_refresh();
	ASSERT(view_of(SCRATCH_FS "/mp", "127.0.0.1", &view, &below) == 0);
	export_view_put(view);
	runtime_stop();
}

static void absent_run(void)
{
	const struct reactor_config config = { .reactors = 1, .fibers = 16, .pool_threads = 2 };

	cr_assert_eq(runtime_init(&config), 0);
	cr_assert_eq(runtime_run(absent_fiber, NULL), 0);
	runtime_fini();
}

/* The last reference to an export may go on a reactor; its descriptors, which may keep a file system mounted, are closed by the pool. */
static void last_put_fiber(void *arg, unsigned index)
{
	struct export_view *view = arg;
	const int root_fd = view->export->root_fd, mount_fd = view->export->mount_fd;

	export_view_put(view);
	ASSERT(fcntl(root_fd, F_GETFD) >= 0);
	ASSERT(fcntl(mount_fd, F_GETFD) >= 0);
	while (fcntl(root_fd, F_GETFD) >= 0 || fcntl(mount_fd, F_GETFD) >= 0)
		fiber_yield();
	runtime_stop();
}

/* Where no fiber is free for it, the end closes them at the latest. */
static void last_put_alone_fiber(void *arg, unsigned index)
{
	struct export_view *view = arg;
	const int root_fd = view->export->root_fd;

	fault_arm(FAULT_FIBER_SPAWN, EAGAIN, 0, 1);
	export_view_put(view);
	fault_disarm_all();
	ASSERT(fcntl(root_fd, F_GETFD) >= 0);
	runtime_stop();
}

static void last_put(void (*fiber)(void *view, unsigned index))
{
	const struct reactor_config config = { .reactors = 1, .fibers = 16, .pool_threads = 2 };
	struct export_view *view;
	const char *below;

	scratch_begin();
	scratch_fs("tmpfs");
	install(SCRATCH_FS " *\n");
	cr_assert_eq(view_of(SCRATCH_FS, "127.0.0.1", &view, &below), 0);
	install("/nonexistent *\n");
	cr_assert_eq(runtime_init(&config), 0);
	cr_assert_eq(runtime_run(fiber, view), 0);
	runtime_fini();
	export_table_fini();
	scratch_umount();
}

Test(export, last_put_on_a_reactor) { last_put(last_put_fiber); }
Test(export, last_put_without_a_fiber) { last_put(last_put_alone_fiber); }

Test(export, absent_and_back)
{
	scratch_begin();
	scratch_fs("tmpfs");
	mkdir(SCRATCH_FS "/mp", 0755);
	install(SCRATCH_FS "/late *\n" SCRATCH_FS "/mp *(mountpoint)\n");
	absent_run();
	export_table_fini();
}
