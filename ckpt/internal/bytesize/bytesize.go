// Package bytesize writes and reads numbers of bytes as people do.
package bytesize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Format writes n with a decimal unit, as in "1.2 MB", and small numbers exactly.
func Format(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v, units := float64(n), []string{"kB", "MB", "GB", "TB", "PB", "EB"}
	i := -1
	for v >= 999.95 && i < len(units)-1 {
		v /= 1000
		i++
	}
	return fmt.Sprintf("%.1f %s", v, units[max(i, 0)])
}

var units = map[string]float64{
	"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
}

// Parse reads a size such as "5GB" (decimal, as huggingface_hub does), "512MiB"
// or "1000000".
func Parse(text string) (int64, error) {
	trimmed := strings.TrimSpace(text)
	digits := strings.TrimRight(trimmed, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	factor, known := units[strings.ToUpper(strings.TrimSpace(trimmed[len(digits):]))]
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || !known || !(v > 0) || v*factor > math.MaxInt64/2 || int64(v*factor) < 1 {
		return 0, fmt.Errorf("%q is no size; write one such as 5GB, 512MiB or a number of bytes", text)
	}
	return int64(v * factor), nil
}
