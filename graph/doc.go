// Package graph builds the expression of a training step on Gorgonia, has
// Gorgonia differentiate it, and executes it.
//
// The operations are its own, given to Gorgonia through its public Op and SDOp
// interfaces: each owns its output buffer, works on as many rows as the current
// batch has (the graph is built once, for the largest), and calls package
// kernel. The gradient of a parameter is added straight into the caller's
// buffer, so that micro-batches add up in order.
//
// A [Program] executes the nodes in the order in which they were made, which is
// a topological order that takes backward layer by layer and, in each, the
// parameters' gradients first: [Program.OnGradientReady] tells when one is
// complete, while backward goes on. Gorgonia's tape machine gives the same
// bits; it is the test's oracle and not used otherwise.
//
// It promises: no allocation in a step beyond what the BLAS call makes, no
// goroutine, the same bits for the same input. A Program is for one goroutine
// at a time. The package knows no model and no file.
package graph

// Gorgonia depends on a collector that does not move objects, and this module
// must know the Go version in use: importing it here keeps the version that
// go.mod requires.
import _ "go4.org/unsafe/assume-no-moving-gc"
