//go:build deps

package deps

import (
	_ "github.com/ebitengine/purego"
	_ "github.com/edsrzf/mmap-go"
	_ "github.com/mmcloughlin/avo/build"
	_ "github.com/mmcloughlin/avo/operand"
	_ "github.com/mmcloughlin/avo/reg"
	_ "github.com/nlpodyssey/gopickle/pickle"
	_ "github.com/nlpodyssey/gopickle/types"
	_ "github.com/nlpodyssey/safetensors"
	_ "github.com/spf13/cobra"
	_ "github.com/vbauerster/mpb/v8"
	_ "github.com/vbauerster/mpb/v8/decor"
	_ "go.yaml.in/yaml/v3"
	_ "go4.org/unsafe/assume-no-moving-gc"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/cpu"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "golang.org/x/text/width"
	_ "gonum.org/v1/gonum/blas/gonum"
	_ "google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/keepalive"
	_ "google.golang.org/grpc/mem"
	_ "google.golang.org/grpc/test/bufconn"
	_ "google.golang.org/protobuf/proto"
	_ "gorgonia.org/gorgonia"
	_ "gorgonia.org/tensor"
)
