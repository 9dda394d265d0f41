// Package data gives the rows to train on: tables read from JSON Lines files,
// and the samplers that say which rows each rank sees, in which order.
//
// It promises that a rank sees exactly the rows it would have seen under
// transformers' Trainer (accelerate's SeedableRandomSampler and BatchSamplerShard,
// [Sampler]) or in a torch script ([DistributedSampler]), and that a column reads
// as torch.tensor would make it from the same file.
//
// It does not tokenise, pad or shuffle by itself, keeps numbers only (text columns
// are passed over), and reads a table whole: it is for data that fit in memory.
package data
