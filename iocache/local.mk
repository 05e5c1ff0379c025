# iocache: sources and tests of this folder (included by Makefile.am)
noinst_LIBRARIES += libiocache.a
libiocache_a_SOURCES = \
	iocache/budget.c \
	iocache/byteset.c iocache/byteset.h \
	iocache/fill.c \
	iocache/flusher.c \
	iocache/blocks.c iocache/blocks.h \
	iocache/folio.c iocache/folio.h \
	iocache/large.c \
	iocache/mapping.c iocache/mapping.h iocache/mapping_impl.h \
	iocache/read.c \
	iocache/readahead.c \
	iocache/run.c \
	iocache/stage.c \
	iocache/truncate.c

check_PROGRAMS += tests/unit/byteset_test
TESTS += tests/unit/byteset_test
tests_unit_byteset_test_SOURCES = tests/unit/byteset_test.c
tests_unit_byteset_test_LDADD = libiocache.a libruntime.a $(RUNTIME_LIBS) $(CRITERION_LIBS)

check_PROGRAMS += tests/unit/mapping_test
TESTS += tests/unit/mapping_test
tests_unit_mapping_test_SOURCES = tests/unit/mapping_test.c
tests_unit_mapping_test_LDADD = libiocache.a libruntime.a $(RUNTIME_LIBS) $(CRITERION_LIBS)

check_PROGRAMS += tests/unit/mapping_reactors_test
TESTS += tests/unit/mapping_reactors_test
tests_unit_mapping_reactors_test_SOURCES = tests/unit/mapping_reactors_test.c
tests_unit_mapping_reactors_test_LDADD = libiocache.a libruntime.a $(RUNTIME_LIBS) $(CRITERION_LIBS)

# Tests that mutants of tests/mutants/LIST called for.
check_PROGRAMS += tests/unit/mutant_blocks_test
TESTS += tests/unit/mutant_blocks_test
tests_unit_mutant_blocks_test_SOURCES = tests/unit/mutant_blocks_test.c
tests_unit_mutant_blocks_test_LDADD = libiocache.a libruntime.a $(RUNTIME_LIBS) $(CRITERION_LIBS)
