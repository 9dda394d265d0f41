//go:build race

package main

// raceFlag builds the programs under test as this test is built.
const raceFlag = "-race"
