// Package columnar reads columns of numbers from Parquet and Arrow files.
//
// It promises that a damaged file gives an error: no panic, and no more memory
// than a stated multiple of the file's size. It reads a column at a time and
// whole. It knows numbers and lists of equally many numbers; text, structures,
// dictionaries and missing values are errors when a column of them is read.
package columnar
