# server: sources and tests of this folder (included by Makefile.am)
noinst_LIBRARIES += libserver.a
libserver_a_SOURCES = \
	server/call.h \
	server/config.c server/config.h \
	server/conn.c server/conn.h \
	server/conn_send.c \
	server/dispatch.c server/dispatch.h \
	server/drc.c server/drc.h \
	server/listener.c server/listener.h \
	server/mount3.c server/mount3.h \
	server/nfs3.h \
	server/nfs3_attr.c \
	server/nfs3_data.c \
	server/nfs3_dir.c \
	server/nfs3_fs.c \
	server/nfs3_ns.c \
	server/nfs3_status.c \
	server/notify.c server/notify.h \
	server/reply.c server/reply.h \
	server/server.c server/server.h

SERVER_LIBS = libserver.a libvfs.a libiocache.a libproto.a libruntime.a $(RUNTIME_LIBS) $(INIH_LIBS)

sbin_PROGRAMS += nfsdirectd
nfsdirectd_SOURCES = server/main.c
nfsdirectd_LDADD = $(SERVER_LIBS)

SERVER_HARNESS = tests/unit/server_harness.c tests/unit/server_harness.h
SERVER_UNIT_TESTS = tests/unit/config_test tests/unit/conn_test tests/unit/dispatch_test tests/unit/drc_test \
	tests/unit/mount_test
check_PROGRAMS += $(SERVER_UNIT_TESTS)
TESTS += $(SERVER_UNIT_TESTS) tests/unit/daemon_signals
EXTRA_DIST += tests/unit/daemon_signals
tests_unit_config_test_SOURCES = tests/unit/config_test.c
tests_unit_config_test_LDADD = $(SERVER_LIBS) $(CRITERION_LIBS)
tests_unit_conn_test_SOURCES = tests/unit/conn_test.c $(SERVER_HARNESS)
tests_unit_conn_test_LDADD = $(SERVER_LIBS) $(CRITERION_LIBS)
tests_unit_dispatch_test_SOURCES = tests/unit/dispatch_test.c $(SERVER_HARNESS)
tests_unit_dispatch_test_LDADD = $(SERVER_LIBS) $(CRITERION_LIBS)
tests_unit_drc_test_SOURCES = tests/unit/drc_test.c $(SERVER_HARNESS)
tests_unit_drc_test_LDADD = $(SERVER_LIBS) $(CRITERION_LIBS)
tests_unit_mount_test_SOURCES = tests/unit/mount_test.c $(VFS_TEST_HARNESS)
tests_unit_mount_test_LDADD = $(SERVER_LIBS) $(CRITERION_LIBS)

# A load program, for people: not part of the tests.
check_PROGRAMS += tests/bench/rpc_load
tests_bench_rpc_load_SOURCES = tests/bench/rpc_load.c
tests_bench_rpc_load_LDADD = libproto.a
