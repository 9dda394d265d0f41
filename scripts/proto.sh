#!/bin/sh
# Regenerates proto/*pb from proto/*.proto. Needs protoc (Debian:
# protobuf-compiler); installs the Go plugins at the versions below into a
# temporary directory. With --check it changes nothing and fails if the
# committed code differs.
set -eu
cd "$(dirname "$0")/.."

PROTOC_GEN_GO=v1.36.12
PROTOC_GEN_GO_GRPC=v1.6.2

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
GOBIN="$tmp/bin" go install "google.golang.org/protobuf/cmd/protoc-gen-go@$PROTOC_GEN_GO"
GOBIN="$tmp/bin" go install "google.golang.org/grpc/cmd/protoc-gen-go-grpc@$PROTOC_GEN_GO_GRPC"

out=.
[ "${1:-}" = --check ] && out="$tmp/out" && mkdir -p "$out"
PATH="$tmp/bin:$PATH" protoc -I proto --go_out="$out" --go_opt=module=rejoin \
	--go-grpc_out="$out" --go-grpc_opt=module=rejoin proto/*.proto
# The version of protoc itself differs between machines and changes nothing.
find "$out/proto" -name '*.pb.go' -exec sed -i.bak -e '/^\/\/.*protoc  *v[0-9]/d' {} \;
find "$out/proto" -name '*.bak' -exec rm -f {} \;
if [ "$out" != . ]; then
	diff -r -x '*.proto' -x doc.go "$out/proto" proto
fi
