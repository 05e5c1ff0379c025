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
	cr_assert_str_eq(config.bind[1], "::1");
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
	expect_error("[sever]\nport = 1\n", 2, "no section [sever]");
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
	expect_error("[sever]\ninclude = more.conf\n", 2, "no section [sever]");
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

Test(config, unreadable)
{
	cr_assert_eq(config_read_file(&config, "/nonexistent", err, sizeof(err)), -ENOENT);
	cr_assert_str_eq(err, "the configuration /nonexistent: No such file or directory");
	cr_assert_eq(config_read_file(&config, "/", err, sizeof(err)), -EISDIR);
	cr_assert_str_eq(err, "the configuration /: Is a directory");
}

static enum config_action from_argv(const char *const *args)
{
	char name[] = "nfsdirectd", *argv[32] = { name };
	int argc = 1;
	for (; args[argc - 1] != NULL; argc++)
		argv[argc] = (char *)args[argc - 1];
	return config_from_argv(&config, argc, argv, err, sizeof(err));
}

#define ARGV(...) from_argv((const char *const[]){ __VA_ARGS__, NULL })

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
	cr_assert_str_eq(config.bind[0], "::1");
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
