package bytesize

import "testing"

func TestFormat(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 1234567: "1.2 MB", 999_960: "1.0 MB", 5e9: "5.0 GB", 1 << 62: "4.6 EB"} {
		if got := Format(n); got != want {
			t.Errorf("Format(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{"5GB": 5e9, "0.5 kb": 500, "512MiB": 512 << 20, "1000": 1000, " 2 tb ": 2e12, "7B": 7} {
		if got, err := Parse(text); got != want || err != nil {
			t.Errorf("Parse(%q) = %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "GB", "5XB", "-1GB", "0", "NaN", "1e300TB", "0.1", "5 5GB"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %d", text, got)
		}
	}
}
