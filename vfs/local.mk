# vfs: sources and tests of this folder (included by Makefile.am)
noinst_LIBRARIES += libvfs.a
libvfs_a_SOURCES = \
	vfs/access.c vfs/access.h \
	vfs/attr.c vfs/attr.h \
	vfs/data.c vfs/data.h \
	vfs/export.c vfs/export.h vfs/export_match.c vfs/export_name.c vfs/export_parse.c vfs/export_remark.c vfs/export_table.h \
	vfs/fh.c vfs/fh.h vfs/fh_memo.c vfs/fh_memo.h \
	vfs/file.c vfs/file.h \
	vfs/ns.h vfs/ns_create.c vfs/ns_fsinfo.c vfs/ns_job.c vfs/ns_job.h vfs/ns_lookup.c vfs/ns_readdir.c vfs/ns_remove.c vfs/ns_sync.c \
	vfs/setattr.c \
	vfs/siphash.c vfs/siphash.h \
	vfs/types.h

VFS_TEST_LIBS = libvfs.a libiocache.a libruntime.a $(RUNTIME_LIBS) $(CRITERION_LIBS)
VFS_TEST_HARNESS = tests/unit/vfs_harness.c tests/unit/vfs_harness.h

check_PROGRAMS += tests/unit/access_test
TESTS += tests/unit/access_test
tests_unit_access_test_SOURCES = tests/unit/access_test.c $(VFS_TEST_HARNESS)
tests_unit_access_test_LDADD = $(VFS_TEST_LIBS)
check_PROGRAMS += tests/unit/export_test
TESTS += tests/unit/export_test
tests_unit_export_test_SOURCES = tests/unit/export_test.c $(VFS_TEST_HARNESS)
tests_unit_export_test_LDADD = $(VFS_TEST_LIBS)
check_PROGRAMS += tests/unit/export_name_test
TESTS += tests/unit/export_name_test
tests_unit_export_name_test_SOURCES = tests/unit/export_name_test.c $(VFS_TEST_HARNESS)
tests_unit_export_name_test_LDADD = $(VFS_TEST_LIBS)
tests_unit_export_name_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clock_mono_ns
check_PROGRAMS += tests/unit/fh_test
TESTS += tests/unit/fh_test
tests_unit_fh_test_SOURCES = tests/unit/fh_test.c $(VFS_TEST_HARNESS)
tests_unit_fh_test_LDADD = $(VFS_TEST_LIBS)
check_PROGRAMS += tests/unit/file_test
TESTS += tests/unit/file_test
tests_unit_file_test_SOURCES = tests/unit/file_test.c $(VFS_TEST_HARNESS)
tests_unit_file_test_LDADD = $(VFS_TEST_LIBS)
check_PROGRAMS += tests/unit/attr_test
TESTS += tests/unit/attr_test
tests_unit_attr_test_SOURCES = tests/unit/attr_test.c $(VFS_TEST_HARNESS)
tests_unit_attr_test_LDADD = $(VFS_TEST_LIBS)
check_PROGRAMS += tests/unit/ns_test
TESTS += tests/unit/ns_test
tests_unit_ns_test_SOURCES = tests/unit/ns_test.c $(VFS_TEST_HARNESS)
tests_unit_ns_test_LDADD = $(VFS_TEST_LIBS)
check_PROGRAMS += tests/unit/ns_sync_test
TESTS += tests/unit/ns_sync_test
tests_unit_ns_sync_test_SOURCES = tests/unit/ns_sync_test.c $(VFS_TEST_HARNESS)
tests_unit_ns_sync_test_LDADD = $(VFS_TEST_LIBS)
