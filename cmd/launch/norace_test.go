//go:build !race

package main

const raceFlag = noRace
