//go:build !rejoin_fault

package hf

func systemDisk() disk { return osDisk{} }
