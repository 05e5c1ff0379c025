# proto: sources and tests of this folder (included by Makefile.am)

noinst_LIBRARIES += libproto.a
libproto_a_SOURCES = \
	proto/mount3.c proto/mount3.h \
	proto/nfs3.h proto/nfs3_args_xdr.c proto/nfs3_dirlist.c proto/nfs3_names.c proto/nfs3_res_xdr.c proto/nfs3_types_xdr.c \
	proto/record.c proto/record.h \
	proto/rpc.c proto/rpc.h \
	proto/xdr.c proto/xdr.h

PROTO_UNIT_TESTS = tests/unit/xdr_test tests/unit/record_test tests/unit/rpc_test tests/unit/nfs3_xdr_test tests/unit/mount3_xdr_test \
	tests/unit/nfs3_cross_test tests/unit/rpc_cross_test
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

# Each against another implementation, whose header defines the same names as ours: hence two sources.
tests_unit_nfs3_cross_test_SOURCES = tests/unit/nfs3_cross_test.c tests/unit/nfs3_cross_peer.c tests/unit/nfs3_cross_peer.h tests/unit/nfs3_flat.h \
	tests/unit/nfs3_gen.c tests/unit/nfs3_gen.h
# libnfs hands out memory that is aligned to four bytes only.
tests_unit_nfs3_cross_test_CFLAGS = $(AM_CFLAGS) -fno-sanitize=alignment
tests_unit_nfs3_cross_test_LDADD = libproto.a $(CRITERION_LIBS) $(LIBNFS_LIBS)
tests_unit_rpc_cross_test_SOURCES = tests/unit/rpc_cross_test.c tests/unit/rpc_cross_peer.c tests/unit/rpc_cross_peer.h
tests_unit_rpc_cross_test_CPPFLAGS = $(AM_CPPFLAGS) $(TIRPC_CFLAGS)
tests_unit_rpc_cross_test_LDADD = libproto.a $(CRITERION_LIBS) $(TIRPC_LIBS)

# Fuzz targets: with libFuzzer under --enable-fuzzing (run them by hand: tests/fuzz/NAME_fuzz DIR), otherwise as tests that replay the corpus.
PROTO_FUZZ = tests/fuzz/record_fuzz tests/fuzz/rpc_fuzz tests/fuzz/nfs3args_fuzz tests/fuzz/nfs3res_fuzz tests/fuzz/dirlist_fuzz tests/fuzz/mount3_fuzz
PROTO_FUZZ_NFS3 = tests/fuzz/nfs3_fuzz.h tests/unit/nfs3_gen.c tests/unit/nfs3_gen.h
if FUZZING
noinst_PROGRAMS += $(PROTO_FUZZ)
FUZZ_LINK = $(AM_LDFLAGS) -fsanitize=fuzzer
FUZZ_MAIN = tests/fuzz/fuzz.h
else
check_PROGRAMS += $(PROTO_FUZZ)
TESTS += $(PROTO_FUZZ)
FUZZ_LINK = $(AM_LDFLAGS)
FUZZ_MAIN = tests/fuzz/fuzz.h tests/fuzz/replay.c tests/unit/guard.h
endif

tests_fuzz_record_fuzz_SOURCES = tests/fuzz/record_fuzz.c $(FUZZ_MAIN)
tests_fuzz_record_fuzz_LDADD = libproto.a
tests_fuzz_record_fuzz_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_rpc_fuzz_SOURCES = tests/fuzz/rpc_fuzz.c $(FUZZ_MAIN)
tests_fuzz_rpc_fuzz_LDADD = libproto.a
tests_fuzz_rpc_fuzz_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_nfs3args_fuzz_SOURCES = tests/fuzz/nfs3args_fuzz.c $(PROTO_FUZZ_NFS3) $(FUZZ_MAIN)
tests_fuzz_nfs3args_fuzz_LDADD = libproto.a
tests_fuzz_nfs3args_fuzz_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_nfs3res_fuzz_SOURCES = tests/fuzz/nfs3res_fuzz.c $(PROTO_FUZZ_NFS3) $(FUZZ_MAIN)
tests_fuzz_nfs3res_fuzz_LDADD = libproto.a
tests_fuzz_nfs3res_fuzz_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_dirlist_fuzz_SOURCES = tests/fuzz/dirlist_fuzz.c $(FUZZ_MAIN)
tests_fuzz_dirlist_fuzz_LDADD = libproto.a
tests_fuzz_dirlist_fuzz_LDFLAGS = $(FUZZ_LINK)
tests_fuzz_mount3_fuzz_SOURCES = tests/fuzz/mount3_fuzz.c $(FUZZ_MAIN)
tests_fuzz_mount3_fuzz_LDADD = libproto.a
tests_fuzz_mount3_fuzz_LDFLAGS = $(FUZZ_LINK)

# Makes the corpus's seeds: tests/fuzz/make_corpus DIR.
EXTRA_PROGRAMS += tests/fuzz/make_corpus
tests_fuzz_make_corpus_SOURCES = tests/fuzz/make_corpus.c tests/unit/nfs3_gen.c tests/unit/nfs3_gen.h
tests_fuzz_make_corpus_LDADD = libproto.a
EXTRA_DIST += tests/fuzz/corpus
