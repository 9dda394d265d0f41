package torchfile

import (
	"encoding/binary"
	"fmt"
)

// serializationID makes the 40 digits of .data/serialization_id: a hash of the
// records' names and one of their checksums.
//
// torch walks the names in the order of a std::unordered_set, so the first half
// depends on how libstdc++ keeps its buckets; that is done again here.
// Source: PyTorchStreamWriter::writeSerializationId in
// caffe2/serialize/inline_container.cc; libstdc++ hashtable.h and hashtable_c++0x.cc.
type serializationID struct {
	hashes []uint64 // of the names, in the order of the records
	sums   uint64
}

// add notes a record; the checksum of an empty one does not count.
func (s *serializationID) add(name string, sum uint32, size uint64) {
	s.hashes = append(s.hashes, murmur(name))
	if size > 0 {
		s.sums = hashCombine(s.sums, uint64(sum))
	}
}

func (s *serializationID) text() []byte {
	names := uint64(0)
	for _, h := range unorderedSet(s.hashes) {
		names = hashCombine(names, h)
	}
	return fmt.Appendf(nil, "%020d%020d", names, s.sums)
}

// hashCombine is c10::hash_combine.
func hashCombine(seed, value uint64) uint64 {
	return seed ^ (value + 0x9e3779b9 + seed<<6 + seed>>2)
}

// murmur is libstdc++'s std::hash of a string: MurmurHash64A with its seed.
func murmur(text string) uint64 {
	const mul, seed = 0xc6a4a7935bd1e995, 0xc70f6907
	mix := func(v uint64) uint64 { return v ^ v>>47 }
	b := []byte(text)
	h := uint64(seed) ^ uint64(len(b))*mul
	for ; len(b) >= 8; b = b[8:] {
		h = (h ^ mix(binary.LittleEndian.Uint64(b)*mul)*mul) * mul
	}
	if len(b) > 0 {
		var rest [8]byte
		copy(rest[:], b)
		h = (h ^ binary.LittleEndian.Uint64(rest[:])) * mul
	}
	return mix(mix(h) * mul)
}

// bucketCounts are the sizes that a growing std::unordered_set takes: each the
// next prime of libstdc++'s table after twice the one before.
var bucketCounts = []int{
	1, 13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933,
	351061, 712697, 1447153, 2938679, 5967347, 12117689, 24607243, 49969847,
}

// unorderedSet returns distinct hashes in the order in which libstdc++ iterates
// over a set after their insertion: one linked list, in which each bucket
// remembers the node before its first.
func unorderedSet(hashes []uint64) []uint64 {
	next := make([]int, len(hashes)+1) // node i+1 has hashes[i]; node 0 is before the first
	growth, buckets := 0, make([]int, 1)
	for i := range buckets {
		buckets[i] = -1
	}
	for i, h := range hashes {
		if i+1 > limit(growth) && growth+1 < len(bucketCounts) {
			growth++
			buckets = rehash(hashes, next, bucketCounts[growth])
		}
		insert(hashes, next, buckets, i+1, bucketOf(h, len(buckets)))
	}
	out := make([]uint64, 0, len(hashes))
	for n := next[0]; n != 0; n = next[n] {
		out = append(out, hashes[n-1])
	}
	return out
}

// limit is how many elements the set holds before it grows; the first growth is
// at the first element.
func limit(growth int) int {
	if growth == 0 {
		return 0
	}
	return bucketCounts[growth]
}

func bucketOf(h uint64, n int) int { return int(h % uint64(n)) }

// insert is _Hashtable::_M_insert_bucket_begin.
func insert(hashes []uint64, next, buckets []int, node, bucket int) {
	if before := buckets[bucket]; before >= 0 {
		next[node] = next[before]
		next[before] = node
		return
	}
	next[node] = next[0]
	next[0] = node
	if follower := next[node]; follower != 0 {
		buckets[bucketOf(hashes[follower-1], len(buckets))] = node
	}
	buckets[bucket] = 0
}

// rehash is _Hashtable::_M_rehash_aux for unique keys: it takes the nodes in
// their present order.
func rehash(hashes []uint64, next []int, n int) []int {
	buckets := make([]int, n)
	for i := range buckets {
		buckets[i] = -1
	}
	node := next[0]
	next[0] = 0
	for node != 0 {
		following := next[node]
		insert(hashes, next, buckets, node, bucketOf(hashes[node-1], n))
		node = following
	}
	return buckets
}
