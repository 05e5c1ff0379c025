/* tests/unit/config_test.c - server/config.c: command line and configuration file, and what they say about errors. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/config.h"

static char dir[64];
static struct server_config config;
static char err[512];

static void make_dir(void)
{
	strcpy(dir, "/tmp/config_test.XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	config_init(&config);
}

static void remove_dir(void)
{
	char command[128];
	config_fini(&config);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	cr_assert_eq(system(command), 0);
}

TestSuite(config, .init = make_dir, .fini = remove_dir);

static const char *write_file(const char *name, const char *text)
{
	static char path[2][128];
	static unsigned turn;
	char *p = path[turn++ % 2];
	snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
	FILE *f = fopen(p, "w");
	cr_assert_not_null(f);
	fputs(text, f);
	fclose(f);
	return p;
}

static int read_text(const char *text) { return config_read_file(&config, write_file("t.conf", text), err, sizeof(err)); }

static enum config_action from_argv(const char *const *args)
{
	char name[] = "nfsdirectd", *argv[32] = { name };
	int argc = 1;
	for (; args[argc - 1] != NULL; argc++)
		argv[argc] = (char *)args[argc - 1];
	return config_from_argv(&config, argc, argv, err, sizeof(err));
}

#define ARGV(...) from_argv((const char *const[]){ __VA_ARGS__, NULL })

Test(config, defaults)
{
	cr_assert_eq(config.port, 2049);
	cr_assert_str_eq(config.state_dir, "/var/lib/nfsdirect");
	cr_assert_eq(config.limits.io_bytes_max, 1 << 20);
	cr_assert_eq(config.limits.connection_bytes_max, 16 << 20);
	cr_assert_eq(config.binds, 0);
	cr_assert_eq(config.export_count, 0);
}

Test(config, file)
{
	cr_assert_eq(read_text("# comment\n[server]\nport = 20490 ; inline\nbind = 127.0.0.1\nbind = ::1\nstate_dir = /s\nlog_level = debug\nreactors = 3\n"
			       "[limits]\nmemory = 64m\ncache = 8m\nio_bytes = 256K\nidle_timeout_s = 10\n[exports]\nfile = /etc/exports\nexport = /a b(ro)\n"),
		     0, "%s", err);
	cr_assert_eq(config.port, 20490);
	cr_assert_eq(config.binds, 2);
	cr_assert_str_eq(config.bind[1].text, "::1");
	cr_assert_str_eq(config.state_dir, "/s");
	cr_assert_eq(config.log_level, LOG_LEVEL_DEBUG);
	cr_assert_eq(config.reactors, 3);
	cr_assert_eq(config.limits.memory_bytes_max, 64 << 20);
	cr_assert_eq(config.limits.cache_bytes_max, 8 << 20);
	cr_assert_eq(config.limits.io_bytes_max, 256 << 10);
	cr_assert_eq(config.export_count, 2);
	cr_assert_eq(config.exports[0].kind, CONFIG_EXPORT_FILE);
	cr_assert_str_eq(config.exports[1].text, "/a b(ro)");
}

static void expect_error(const char *text, int line, const char *what)
{
	char where[160];
	cr_assert_eq(read_text(text), -EINVAL, "accepted: %s", text);
	snprintf(where, sizeof(where), "%s/t.conf:%d: ", dir, line);
	cr_assert_eq(strncmp(err, where, strlen(where)), 0, "%s", err);
	cr_assert_not_null(strstr(err, what), "%s", err);
}

Test(config, file_errors)
{
	expect_error("[server]\nprot = 1\n", 2, "no key 'prot' in section [server]");
	expect_error("[sever]\nport = 1\n", 1, "no section [sever]");
	expect_error("port = 1\n[server]\n", 1, "'port' stands before any section");
	expect_error("[server]\n\nport = 99999\n", 3, "not within 0...65535");
	expect_error("[server]\nport = x\n", 2, "'x' is not a number");
	expect_error("[server]\nport = -1\n", 2, "'-1' is not a number");
	expect_error("[server]\nport = 1K\n", 2, "not a number");
	expect_error("[server]\nport = 99999999999999999999999\n", 2, "not a number");
	expect_error("[limits]\nmemory = 1m\n", 2, "not within 16M...16384G");
	expect_error("[limits]\ncache = 1m\n", 2, "not within 3M");
	expect_error("[limits]\nio_bytes = 3\n", 2, "not within 8K...1M");
	expect_error("[limits]\nmemory = 64Q\n", 2, "K, M and G");
	expect_error("[limits]\nmemory = 99999999999G\n", 2, "not a number");
	expect_error("[limits]\nmemory = 64MB\n", 2, "not a number");
	expect_error("[server]\nstate_dir =\n", 2, "state_dir has no value");
	expect_error("[server]\nlog_level = loud\n", 2, "none of");
	expect_error("[server]\nwhat is this\n", 2, "neither");
	expect_error("[server]\nbind = any\n", 2, "'any' is no IPv4 or IPv6 address");
	expect_error("[server]\nport = 1 # one\n", 2, "a comment behind a value begins with ' ;'");
	expect_error("[limits]\nport = 3\n", 2, "no key 'port' in section [limits]");
	expect_error("[server]\nport = 1\nprot = 2\nport = x\n", 3, "'prot'");
}

/* A section is looked at where it begins, also if it is empty. */
Test(config, sections)
{
	expect_error("[server]\nport = 1\n[limit]\n", 3, "no section [limit]");
	expect_error("[]\n", 1, "no section []");
	expect_error("  [Server]\n", 1, "no section [Server]");
	expect_error("[server\nport = 1\n", 1, "neither [section]");
	expect_error("[server] port = 1\n", 1, "behind [server] stands something else");
	expect_error("\xEF\xBB\xBF[sever]\n", 1, "no section [sever]");
	cr_assert_eq(read_text("\xEF\xBB\xBF[server] # one\nport = 7\n[limits]\t; two\n[exports]\n"), 0, "%s", err);
	cr_assert_eq(config.port, 7);
}

/* An indented line is a line, not more of the value above. */
Test(config, indented)
{
	cr_assert_eq(read_text("[exports]\n  export = /a\n  export = /b\n\n[server]\n\tport = 7\n\treactors = 2\n"), 0, "%s", err);
	cr_assert_eq(config.export_count, 2);
	cr_assert_str_eq(config.exports[0].text, "/a");
	cr_assert_str_eq(config.exports[1].text, "/b");
	cr_assert_eq(config.port, 7);
	cr_assert_eq(config.reactors, 2);
}

/* No two sockets can listen on these; elsewhere it would only be found when the second is opened, as an address in use. */
Test(config, binds_overlap)
{
	char first[160];
	snprintf(first, sizeof(first), "overlaps with %s/t.conf:2: bind = 127.0.0.1", dir);
	expect_error("[server]\nbind = 127.0.0.1\nport = 1\nbind = 127.0.0.1\n", 4, first);
	config_fini(&config);
	config_init(&config);
	expect_error("[server]\nbind = 127.0.0.1\nbind = 0.0.0.0\n", 3, first);
	config_fini(&config);
	config_init(&config);
	expect_error("[server]\nbind = ::1\nbind = 0::1\n", 3, "overlaps");
	config_fini(&config);
	config_init(&config);
	cr_assert_eq(read_text("[server]\nbind = 127.0.0.1\nbind = 127.0.0.2\nbind = ::\n"), 0, "%s", err);
}

static void expect_where(const void *member, const char *file, int line)
{
	char where[160];
	snprintf(where, sizeof(where), "%s/%s:%d: ", dir, file, line);
	cr_assert_str_eq(config_where(&config, member), where);
}

/* Each value knows the line it has come from, also when a later one has come in its place. */
Test(config, where)
{
	write_file("more.conf", "[exports]\nexport = /b\n[server]\nport = 2\n");
	cr_assert_eq(read_text("[server]\nport = 1\nbind = ::1\nbind = 127.0.0.1\nlog_level = debug\n[exports]\nexport = /a\ninclude = more.conf\nfile = /c\n"
			       "[limits]\nmemory = 32M\n"), 0, "%s", err);
	expect_where(&config.port, "more.conf", 4);
	expect_where(&config.bind[1], "t.conf", 4);
	expect_where(&config.log_level, "t.conf", 5);
	expect_where(&config.exports[0], "t.conf", 7);
	expect_where(&config.exports[1], "more.conf", 2);
	expect_where(&config.exports[2], "t.conf", 9);
	expect_where(&config.limits.memory_bytes_max, "t.conf", 11);
	cr_assert_str_eq(config_where(&config, &config.state_dir), "");
}

Test(config, include)
{
	write_file("more.conf", "[server]\nport = 7\n[exports]\nexport = /x\n");
	cr_assert_eq(read_text("[server]\nport = 6\ninclude = more.conf\nreactors = 2\n"), 0, "%s", err);
	cr_assert_eq(config.port, 7);
	cr_assert_eq(config.reactors, 2);
	cr_assert_str_eq(config.exports[0].text, "/x");
}

/* All paths in a file are relative to it, whichever file includes it and wherever the server is started; but those of exports have to be absolute. */
Test(config, relative_paths)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/sub", dir);
	cr_assert_eq(mkdir(path, 0755), 0);
	write_file("sub/more.conf", "counters_file = c\n[exports]\nfile = ../e\nexport = x\n");
	cr_assert_eq(read_text("[server]\nstate_dir = s\ninclude = sub/more.conf\n"), 0, "%s", err);
	snprintf(path, sizeof(path), "%s/s", dir);
	cr_assert_str_eq(config.state_dir, path);
	snprintf(path, sizeof(path), "%s/sub/c", dir);
	cr_assert_str_eq(config.counters_file, path);
	snprintf(path, sizeof(path), "%s/sub/../e", dir);
	cr_assert_str_eq(config.exports[0].text, path);
	cr_assert_str_eq(config.exports[1].text, "x");
	/* On the command line they are the shell's. */
	cr_assert_eq(ARGV("--state-dir", "s", "--exports", "e", "--config", write_file("t.conf", "")), CONFIG_SERVE, "%s", err);
	cr_assert_str_eq(config.state_dir, "s");
	cr_assert_str_eq(config.exports[0].text, "e");
}

/* An included file begins in the section of the line that includes it, and goes on in it behind that line whatever sections it had. */
Test(config, include_section)
{
	write_file("more.conf", "export = /x\n[server]\nport = 7\n");
	cr_assert_eq(read_text("[exports]\ninclude = more.conf\nexport = /y\n"), 0, "%s", err);
	cr_assert_eq(config.port, 7);
	cr_assert_eq(config.export_count, 2);
	cr_assert_str_eq(config.exports[1].text, "/y");
}

Test(config, include_before_section)
{
	write_file("more.conf", "[server]\nport = 7\n");
	cr_assert_eq(read_text("include = more.conf\n[server]\nreactors = 2\n"), 0, "%s", err);
	cr_assert_eq(config.port, 7);
	cr_assert_eq(config.reactors, 2);
	expect_error("include = more.conf\nport = 8\n", 2, "'port' stands before any section");
	write_file("more.conf", "port = 7\n");
	cr_assert_eq(read_text("include = more.conf\n[server]\n"), -EINVAL);
	cr_assert_not_null(strstr(err, "/more.conf:1: 'port' stands before any section"), "%s", err);
}

/* What is wrong in the included file is told with its line, what is wrong with the file with the line that includes it. */
Test(config, include_errors)
{
	char what[256];
	write_file("more.conf", "[server]\n\n\nport = no\n");
	cr_assert_neq(read_text("[server]\ninclude = more.conf\n"), 0);
	snprintf(what, sizeof(what), "%s/more.conf:4: port", dir);
	cr_assert_eq(strncmp(err, what, strlen(what)), 0, "%s", err);
	snprintf(what, sizeof(what), "cannot include %s/missing.conf: No such file", dir);
	expect_error("[server]\ninclude = missing.conf\n", 2, what);
	expect_error("include = /\n", 1, "cannot include /: Is a directory");
	expect_error("[limits]\n\ninclude = /dev/null/x\n", 3, "cannot include /dev/null/x: Not a directory");
	expect_error("[server]\ninclude =\n", 2, "include has no value");
	expect_error("[sever]\ninclude = more.conf\n", 1, "no section [sever]");
}

Test(config, include_circle)
{
	char what[256];
	expect_error("[server]\ninclude = t.conf\n", 2, "cannot include");
	cr_assert_not_null(strstr(err, "t.conf: it would include itself"), "%s", err);
	write_file("more.conf", "[server]\nport = 1\ninclude = ./t.conf\n");
	cr_assert_eq(read_text("[server]\ninclude = more.conf\n"), -EINVAL);
	snprintf(what, sizeof(what), "%s/more.conf:3: cannot include %s/./t.conf: it would include itself", dir, dir);
	cr_assert_str_eq(err, what);
	/* Twice is no circle. */
	write_file("more.conf", "[server]\nport = 1\n");
	cr_assert_eq(read_text("include = more.conf\ninclude = more.conf\n"), 0, "%s", err);
}

/* A chain of files each of which includes the next. */
Test(config, include_depth)
{
	char name[32], text[64], what[256];
	for (int i = 1; i <= CONFIG_INCLUDE_DEPTH_MAX + 1; i++) {
		snprintf(name, sizeof(name), "%d.conf", i);
		snprintf(text, sizeof(text), "include = %d.conf\n", i + 1);
		write_file(name, i == CONFIG_INCLUDE_DEPTH_MAX ? "[server]\nport = 7\n" : text);
	}
	cr_assert_eq(read_text("include = 1.conf\n"), 0, "%s", err);
	cr_assert_eq(config.port, 7);
	snprintf(name, sizeof(name), "%d.conf", CONFIG_INCLUDE_DEPTH_MAX);
	write_file(name, "include = 9.conf\n");
	cr_assert_eq(read_text("include = 1.conf\n"), -EINVAL);
	snprintf(what, sizeof(what), "%s/8.conf:1: cannot include %s/9.conf: includes are nested too deep", dir, dir);
	cr_assert_str_eq(err, what);
}

/* Each of two hundred lines includes a file of 32 KiB; no file is large. */
Test(config, include_too_much)
{
	static char text[33000];
	char what[256];
	memset(text, '#', 32768);
	for (unsigned i = 99; i < 32768; i += 100)
		text[i] = '\n';
	write_file("more.conf", text);
	text[0] = '\0';
	for (unsigned i = 0; i < 127; i++)
		strcat(text, "include = more.conf\n");
	cr_assert_eq(read_text(text), 0, "%s", err);
	for (unsigned i = 0; i < 73; i++)
		strcat(text, "include = more.conf\n");
	snprintf(what, sizeof(what), "cannot include %s/more.conf: the configuration has more than 4 MiB with it", dir);
	expect_error(text, 128, what);
}

/* Neither waits, nor has no end, nor is empty when it is read again. */
static void expect_no_file(const char *path, const char *why)
{
	char what[256];
	cr_assert_neq(config_read_file(&config, path, err, sizeof(err)), 0, "%s was read", path);
	snprintf(what, sizeof(what), "the configuration %s: %s", path, why);
	cr_assert_str_eq(err, what);
}

Test(config, no_regular_file, .timeout = 20)
{
	static const char pipe_text[] = "it is a pipe, which could not be read again at a reload";
	char path[128], text[160], what[256];
	int fds[2];
	cr_assert_eq(pipe(fds), 0);
	snprintf(path, sizeof(path), "/dev/fd/%d", fds[0]);
	expect_no_file(path, pipe_text);
	expect_no_file("/dev/zero", "it is a device, and no file");
	snprintf(path, sizeof(path), "%s/fifo", dir);
	cr_assert_eq(mkfifo(path, 0600), 0);
	expect_no_file(path, pipe_text);
	snprintf(text, sizeof(text), "\ninclude = %s\n", path);
	snprintf(what, sizeof(what), "cannot include %s: %s", path, pipe_text);
	expect_error(text, 2, what);
	cr_assert_eq(truncate(write_file("huge", ""), (4 << 20) + 1), 0);
	snprintf(path, sizeof(path), "%s/huge", dir);
	expect_no_file(path, "it has more than 4 MiB");
	/* It says that it is empty, and has no end. */
	expect_no_file("/proc/self/pagemap", "it has more than 4 MiB");
	cr_assert_eq(config_read_file(&config, "/dev/null", err, sizeof(err)), 0, "%s", err);
}

Test(config, unreadable)
{
	cr_assert_eq(config_read_file(&config, "/nonexistent", err, sizeof(err)), -ENOENT);
	cr_assert_str_eq(err, "the configuration /nonexistent: No such file or directory");
	cr_assert_eq(config_read_file(&config, "/", err, sizeof(err)), -EISDIR);
	cr_assert_str_eq(err, "the configuration /: Is a directory");
}

Test(config, command_line)
{
	cr_assert_eq(ARGV("--foreground", "--bind", "127.0.0.1", "--port", "0", "--state-dir", "/s", "--export", "/a(rw)", "--export", "/b", "--reactors", "1",
			  "--counters-file", "/c"),
		     CONFIG_SERVE, "%s", err);
	cr_assert_eq(config.port, 0);
	cr_assert_eq(config.export_count, 2);
	cr_assert_eq(config.exports[1].kind, CONFIG_EXPORT_SPEC);
	cr_assert_str_eq(config.exports[1].text, "/b");
	cr_assert_str_eq(config.counters_file, "/c");
}

/* The command line wins wherever it stands, and its exports and addresses replace the file's. */
Test(config, command_line_wins)
{
	const char *path = write_file("t.conf", "[server]\nport = 5\nstate_dir = /f\nbind = 127.0.0.2\n[exports]\nexport = /f\n");
	cr_assert_eq(ARGV("--port", "6", "--export", "/a", "--bind", "::1", "--exports", "/e", "--config", path), CONFIG_SERVE, "%s", err);
	cr_assert_eq(config.port, 6);
	cr_assert_str_eq(config.state_dir, "/f");
	cr_assert_eq(config.binds, 1);
	cr_assert_str_eq(config.bind[0].text, "::1");
	cr_assert_eq(config.export_count, 2);
	cr_assert_str_eq(config.exports[0].text, "/a");
	cr_assert_eq(config.exports[1].kind, CONFIG_EXPORT_FILE);
	/* What it replaces has no line any more. */
	cr_assert_str_eq(config_where(&config, &config.port), "");
	cr_assert_str_eq(config_where(&config, &config.bind[0]), "");
	cr_assert_str_eq(config_where(&config, &config.exports[0]), "");
	expect_where(&config.state_dir, "t.conf", 3);
}

Test(config, command_line_errors)
{
	cr_assert_eq(ARGV("--port", "x"), CONFIG_EXIT_USAGE);
	cr_assert_not_null(strstr(err, "port = 'x'"), "%s", err);
	cr_assert_eq(ARGV("--port"), CONFIG_EXIT_USAGE);
	cr_assert_not_null(strstr(err, "'--port' lacks its value"), "%s", err);
	cr_assert_eq(ARGV("--nonsense"), CONFIG_EXIT_USAGE);
	cr_assert_not_null(strstr(err, "option '--nonsense' is unknown"), "%s", err);
	cr_assert_eq(ARGV("/a"), CONFIG_EXIT_USAGE);
	cr_assert_not_null(strstr(err, "'/a' is no option"), "%s", err);
	cr_assert_eq(ARGV("--export", ""), CONFIG_EXIT_USAGE);
	cr_assert_eq(ARGV("--config", "/nonexistent"), CONFIG_EXIT_USAGE);
}

static void expect_changed(const struct server_config *then, const char *text, const char *key, int line)
{
	const void *member;
	config_fini(&config);
	config_init(&config);
	cr_assert_eq(read_text(text), 0, "%s", err);
	const char *changed = config_changed(&config, then, &member);
	cr_assert((changed == NULL) == (key == NULL));
	if (key == NULL)
		return;
	cr_assert_str_eq(changed, key);
	expect_where(member, "t.conf", line);
}

Test(config, changed)
{
	static struct server_config then;
	config_init(&then);
	cr_assert_eq(config_read_file(&then, write_file("then.conf", "[server]\nport = 1\nbind = ::1\n[exports]\nexport = /a\n"), err, sizeof(err)), 0, "%s", err);
	expect_changed(&then, "[server]\nbind = ::1\nport = 1\n[exports]\nexport = /b\n", NULL, 0);
	expect_changed(&then, "[server]\nbind = ::1\nport = 2\n", "port", 3);
	expect_changed(&then, "[server]\nbind = ::1\nport = 1\ncounters_file = /c\n", "counters_file", 4);
	expect_changed(&then, "[server]\nport = 1\nbind = ::1\nstate_dir = /s\n", "state_dir", 4);
	expect_changed(&then, "[server]\nport = 1\nlog_level = debug\nbind = ::1\n", "log_level", 3);
	expect_changed(&then, "[server]\nport = 1\nbind = ::2\n", "bind", 3);
	expect_changed(&then, "[server]\nport = 1\nbind = ::1\nbind = ::2\n", "bind", 3);
	expect_changed(&then, "[limits]\nmemory = 64M\n[server]\nport = 1\nbind = ::1\n", "memory", 2);
	config_fini(&then);
}

/* A line as long as exports lines are: whole, or an error, but never cut. */
Test(config, long_line)
{
	char text[1024] = "[exports]\nexport = /";
	char path[600];
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	strcat(text, path);
	strcat(text, "\n");
	if (read_text(text) == 0)
		cr_assert_eq(strlen(config.exports[0].text), sizeof(path));
	else
		cr_assert_not_null(strstr(err, "t.conf:2: "), "%s", err);
}
