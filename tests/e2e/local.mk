# tests/e2e: programs that drive a daemon of their own over loopback (included by tests/local.mk)

# The standard's data types for the raw client: what rpcgen makes of our nfs3_prot.x. It names its header by the path it is
# given, so it runs beside a copy.
BUILT_SOURCES += tests/e2e/nfs3_prot.h
CLEANFILES += tests/e2e/nfs3_prot.h tests/e2e/nfs3_prot.c tests/e2e/rpcgen/nfs3_prot.x
EXTRA_DIST += tests/e2e/nfs3_prot.x
tests/e2e/nfs3_prot.h: tests/e2e/nfs3_prot.x
	$(AM_V_GEN)mkdir -p tests/e2e/rpcgen && cp $(srcdir)/tests/e2e/nfs3_prot.x tests/e2e/rpcgen/ && \
	rm -f $@ && cd tests/e2e/rpcgen && $(RPCGEN) -C -h -o ../nfs3_prot.h nfs3_prot.x
tests/e2e/nfs3_prot.c: tests/e2e/nfs3_prot.x tests/e2e/nfs3_prot.h
	$(AM_V_GEN)rm -f $@ && cd tests/e2e/rpcgen && $(RPCGEN) -C -c -o ../nfs3_prot.c nfs3_prot.x

check_LIBRARIES += libe2e.a libnfs3_prot.a
nodist_libnfs3_prot_a_SOURCES = tests/e2e/nfs3_prot.c
libnfs3_prot_a_CFLAGS = -g -O2 $(TIRPC_CFLAGS) -w
# Only the daemon is sanitized: instrumented clients would take most of the time and tell nothing about it.
libe2e_a_SOURCES = tests/e2e/tap.c tests/e2e/tap.h tests/e2e/daemon.c tests/e2e/daemon.h tests/e2e/rpc.c tests/e2e/rpc.h \
	tests/e2e/nfs3.c tests/e2e/nfs3.h tests/e2e/fixture.c tests/e2e/fixture.h tests/e2e/counters.c tests/e2e/counters.h
libe2e_a_CFLAGS = $(E2E_CFLAGS)
E2E_CFLAGS = -std=gnu11 -g -O2 $(WARN_CFLAGS) $(TIRPC_CFLAGS)
E2E_LDADD = libe2e.a libnfs3_prot.a $(TIRPC_LIBS) -lpthread

check_PROGRAMS += tests/e2e/raw_nfs3_test
tests_e2e_raw_nfs3_test_CFLAGS = $(E2E_CFLAGS)
tests_e2e_raw_nfs3_test_LDFLAGS =
tests_e2e_raw_nfs3_test_LDADD = $(E2E_LDADD)

check_PROGRAMS += tests/e2e/raw_readdir_test
tests_e2e_raw_readdir_test_CFLAGS = $(E2E_CFLAGS)
tests_e2e_raw_readdir_test_LDFLAGS =
tests_e2e_raw_readdir_test_LDADD = $(E2E_LDADD)

check_PROGRAMS += tests/e2e/raw_errors_test
tests_e2e_raw_errors_test_CFLAGS = $(E2E_CFLAGS)
tests_e2e_raw_errors_test_LDFLAGS =
tests_e2e_raw_errors_test_LDADD = $(E2E_LDADD)

check_PROGRAMS += tests/e2e/raw_access_test
tests_e2e_raw_access_test_CFLAGS = $(E2E_CFLAGS)
tests_e2e_raw_access_test_LDFLAGS =
tests_e2e_raw_access_test_LDADD = $(E2E_LDADD)

check_PROGRAMS += tests/e2e/raw_badinput_test
tests_e2e_raw_badinput_test_CFLAGS = $(E2E_CFLAGS)
tests_e2e_raw_badinput_test_LDFLAGS =
tests_e2e_raw_badinput_test_LDADD = $(E2E_LDADD)

check_PROGRAMS += tests/e2e/restart_test
tests_e2e_restart_test_CFLAGS = $(E2E_CFLAGS)
tests_e2e_restart_test_LDFLAGS =
tests_e2e_restart_test_LDADD = $(E2E_LDADD)

check_PROGRAMS += tests/e2e/model_test
tests_e2e_model_test_CFLAGS = $(E2E_CFLAGS)
tests_e2e_model_test_LDFLAGS =
tests_e2e_model_test_LDADD = $(E2E_LDADD)

check_PROGRAMS += tests/e2e/budget_test
tests_e2e_budget_test_CFLAGS = $(E2E_CFLAGS)
tests_e2e_budget_test_LDFLAGS =
tests_e2e_budget_test_LDADD = $(E2E_LDADD)

check_PROGRAMS += tests/e2e/modes_test
tests_e2e_modes_test_CFLAGS = $(E2E_CFLAGS)
tests_e2e_modes_test_LDFLAGS =
tests_e2e_modes_test_LDADD = $(E2E_LDADD)

# Run by mill_pairs, once for each file system.
check_PROGRAMS += tests/e2e/mill
tests_e2e_mill_CFLAGS = $(E2E_CFLAGS)
tests_e2e_mill_LDFLAGS =
tests_e2e_mill_LDADD = $(E2E_LDADD)

check_PROGRAMS += tests/e2e/write_path_test
tests_e2e_write_path_test_CFLAGS = $(E2E_CFLAGS)
tests_e2e_write_path_test_LDFLAGS =
tests_e2e_write_path_test_LDADD = $(E2E_LDADD)

check_PROGRAMS += tests/e2e/libnfs_test
tests_e2e_libnfs_test_CFLAGS = $(E2E_CFLAGS) $(LIBNFS_CFLAGS)
tests_e2e_libnfs_test_LDFLAGS =
tests_e2e_libnfs_test_LDADD = libe2e.a $(LIBNFS_LIBS) -lpthread

# The programs get lab file systems under them from with-lab; tests/run-test sees to that.
TESTS += tests/e2e/raw_nfs3_test tests/e2e/raw_readdir_test tests/e2e/raw_errors_test tests/e2e/raw_access_test \
	tests/e2e/raw_badinput_test tests/e2e/restart_test tests/e2e/write_path_test tests/e2e/model_test tests/e2e/budget_test tests/e2e/modes_test tests/e2e/libnfs_test tests/e2e/libnfs_utils \
	tests/e2e/linux_client.sh tests/e2e/mill_pairs tests/e2e/quickstart
EXTRA_DIST += tests/e2e/with-lab tests/e2e/daemon.sh tests/e2e/libnfs_utils tests/e2e/linux_client.sh tests/e2e/mill_pairs tests/e2e/quickstart tests/e2e/LINUX_CLIENT.md
