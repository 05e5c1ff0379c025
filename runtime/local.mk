# runtime: sources and tests of this folder (included by Makefile.am)
