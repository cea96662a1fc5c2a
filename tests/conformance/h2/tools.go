//go:build tools

// Package tools names the programs that this folder pins.
package tools

import _ "github.com/summerwind/h2spec/cmd/h2spec"
