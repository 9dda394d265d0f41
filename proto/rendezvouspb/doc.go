// Package rendezvouspb is generated from proto/rendezvous.proto by
// scripts/proto.sh; package rendezvous is its only user.
package rendezvouspb
