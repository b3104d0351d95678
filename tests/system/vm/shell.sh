# A shell in guest 0, until it exits. In it, `telnet guest1` gives one in guest 1.
# guests: 2
# limit: 36000
# programs: rondo-bench rondo-run rondo-check rondo-topo
# memory: 1024
# terminal: yes
make_rxe
if [ "$guest" = 0 ]; then
	setsid cttyhack bash || true
	nc guest1 7000 </dev/null
else
	telnetd -l bash
	nc -l -p 7000 >/dev/null
fi
