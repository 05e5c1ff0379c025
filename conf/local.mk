# conf: manual page, sample configuration and systemd unit (included by Makefile.am)
dist_man8_MANS = conf/nfsdirectd.8
dist_doc_DATA = conf/nfsdirectd.conf
EXTRA_DIST += conf/nfsdirectd.service.in
CLEANFILES += conf/nfsdirectd.service
systemdunitdir = $(prefix)/lib/systemd/system
systemdunit_DATA = conf/nfsdirectd.service

# What the unit reads. An administrator's is left alone, and left behind.
install-data-local:
	@test -e '$(DESTDIR)$(sysconfdir)/nfsdirectd.conf' || { $(MKDIR_P) '$(DESTDIR)$(sysconfdir)' && \
	$(INSTALL_DATA) $(srcdir)/conf/nfsdirectd.conf '$(DESTDIR)$(sysconfdir)/nfsdirectd.conf'; }

conf/nfsdirectd.service: conf/nfsdirectd.service.in Makefile
	$(AM_V_GEN)mkdir -p conf && sed -e 's|@sbindir[@]|$(sbindir)|' -e 's|@sysconfdir[@]|$(sysconfdir)|' $(srcdir)/conf/nfsdirectd.service.in >$@
