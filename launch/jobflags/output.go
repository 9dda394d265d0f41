package jobflags

import (
	"strconv"
	"strings"

	"rejoin/launch"
)

// perRank gives a rank its streams: "3", or "0:1,12:2" with none for the others.
type perRank struct {
	all  launch.Streams
	some map[int]launch.Streams
}

func (p perRank) of(rank int) launch.Streams {
	if s, ok := p.some[rank]; ok {
		return s
	}
	return p.all
}

func (r *resolver) output() {
	r.prefix()
	keptOnly, kept := r.get(redirects), r.get(tee)
	hidden, both := r.streams(keptOnly), r.streams(kept)
	shown := r.ranks()
	dir := r.get(logDir)
	r.job.LogDir = dir.text
	if !dir.set() {
		for _, v := range []value{keptOnly, kept} {
			if v.set() && v.text != "0" {
				r.fail(v.fail("needs --log-dir, the directory to keep the output in"))
			}
		}
	}
	if !keptOnly.set() && !kept.set() && shown == nil {
		return
	}
	keepAll := launch.NoStreams
	if dir.set() && !keptOnly.set() && !kept.set() {
		keepAll = launch.AllStreams
	}
	r.job.Streams = func(rank int) (show, keep launch.Streams) {
		keep = hidden.of(rank) | both.of(rank) | keepAll
		if shown == nil || shown[rank] {
			show = launch.AllStreams &^ (hidden.of(rank) &^ both.of(rank))
		}
		return show, keep
	}
}

func (r *resolver) streams(v value) perRank {
	var p perRank
	if !v.set() {
		return p
	}
	if !strings.Contains(v.text, ":") {
		p.all = launch.Streams(r.integer(v, 0, 3))
		return p
	}
	p.some = map[int]launch.Streams{}
	for pair := range strings.SplitSeq(v.text, ",") {
		rank, streams, ok := strings.Cut(strings.TrimSpace(pair), ":")
		if !ok {
			r.fail(v.fail("expected 0 to 3, or RANK:N,... with a rank in each part"))
			return p
		}
		n := r.integer(value{rank, v.source}, 0, launch.MaxNProc-1)
		p.some[n] = launch.Streams(r.integer(value{streams, v.source}, 0, 3))
	}
	return p
}

// ranks reads --local-ranks-filter; nil: all.
func (r *resolver) ranks() map[int]bool {
	v := r.get(ranksFilter)
	if !v.set() {
		return nil
	}
	shown := map[int]bool{}
	for rank := range strings.SplitSeq(v.text, ",") {
		shown[r.integer(value{strings.TrimSpace(rank), v.source}, 0, launch.MaxNProc-1)] = true
	}
	return shown
}

func (r *resolver) prefix() {
	v := r.get(prefixTemplate)
	if !v.set() {
		return
	}
	host := ""
	if strings.Contains(v.text, "${hostname}") {
		name, err := r.host.Hostname()
		if err != nil {
			r.fail(v.fail("this host's name is unknown (%v); leave ${hostname} out", err))
		}
		host = name
	}
	roleName := r.job.Role
	r.job.Prefix = func(rank int) string {
		n := strconv.Itoa(rank)
		return strings.NewReplacer("${role_name}", roleName, "${local_rank}", n, "${rank}", n, "${hostname}", host).Replace(v.text)
	}
}
