// Package data gives the rows to train on: tables read from JSON Lines, CSV,
// Parquet, Arrow, NPY, NPZ and safetensors files and from what datasets'
// save_to_disk writes ([Open]), and the samplers that say which rows each rank
// sees, in which order, also from any row of an epoch on.
//
// It promises that a rank sees exactly the rows it would have seen under
// transformers' Trainer (accelerate's SeedableRandomSampler with BatchSamplerShard
// or DataLoaderDispatcher, [Sampler]) or in a torch script ([DistributedSampler]),
// and that a column reads as torch.tensor would make it from the same file. A
// damaged file is an error: no panic, and no more memory than a multiple of its
// size.
//
// Rows of NPY, NPZ (not compressed) and safetensors files are read in their place
// in the file; columns of Parquet, Arrow and compressed NPZ files are loaded whole
// when they are first asked for; text files are loaded whole.
//
// It does not tokenise, pad or shuffle by itself, keeps numbers only (text columns
// are passed over), and knows no missing values.
package data
