//go:build tools

// Package grpc names the programs that the tests of gRPC run: the interoperability client and server of gRPC itself.
package grpc

import (
	_ "google.golang.org/grpc/interop/client"
	_ "google.golang.org/grpc/interop/server"
)
