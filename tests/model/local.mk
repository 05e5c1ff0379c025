# The model checker: iocache/'s own code in every schedule (included by Makefile.am).
noinst_PROGRAMS += tests/model/edge_model
TESTS += tests/model/edge_model_test
EXTRA_DIST += tests/model/edge_model_test tests/model/README tests/model/find_bugs tests/model/bugs
tests_model_edge_model_SOURCES = \
	tests/model/edge_model.c \
	tests/model/explore.c tests/model/explore.h \
	tests/model/oracle.c tests/model/oracle.h \
	tests/model/state.c tests/model/state.h
tests_model_edge_model_LDADD = libiocache.a libruntime.a $(RUNTIME_LIBS)
