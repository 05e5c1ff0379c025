# proto: sources and tests of this folder (included by Makefile.am)

noinst_LIBRARIES += libproto.a
libproto_a_SOURCES = \
	proto/mount3.c proto/mount3.h \
	proto/nfs3.h proto/nfs3_args_xdr.c proto/nfs3_dirlist.c proto/nfs3_names.c proto/nfs3_res_xdr.c proto/nfs3_types_xdr.c \
	proto/record.c proto/record.h \
	proto/rpc.c proto/rpc.h \
	proto/xdr.c proto/xdr.h

PROTO_UNIT_TESTS = tests/unit/xdr_test tests/unit/record_test tests/unit/rpc_test tests/unit/nfs3_xdr_test tests/unit/mount3_xdr_test
check_PROGRAMS += $(PROTO_UNIT_TESTS)
TESTS += $(PROTO_UNIT_TESTS)

tests_unit_xdr_test_SOURCES = tests/unit/xdr_test.c tests/unit/guard.h
tests_unit_xdr_test_LDADD = libproto.a $(CRITERION_LIBS)
tests_unit_record_test_SOURCES = tests/unit/record_test.c
tests_unit_record_test_LDADD = libproto.a $(CRITERION_LIBS)
tests_unit_rpc_test_SOURCES = tests/unit/rpc_test.c tests/unit/guard.h
tests_unit_rpc_test_LDADD = libproto.a $(CRITERION_LIBS)
tests_unit_nfs3_xdr_test_SOURCES = tests/unit/nfs3_xdr_test.c tests/unit/nfs3_gen.c tests/unit/nfs3_gen.h tests/unit/guard.h
tests_unit_nfs3_xdr_test_LDADD = libproto.a $(CRITERION_LIBS)
tests_unit_mount3_xdr_test_SOURCES = tests/unit/mount3_xdr_test.c tests/unit/guard.h
tests_unit_mount3_xdr_test_LDADD = libproto.a $(CRITERION_LIBS)
