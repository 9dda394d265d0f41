// Package bench measures how long an allreduce of float32 takes between real
// processes, beside torch.distributed's over gloo.
//
// Both are called in the same way, size after size, one call after the other,
// and each call is timed on rank 0. The two take turns in several rounds of
// processes of their own; of all the rounds' calls the median and the mean are
// told: one call may find the other ranks' data waiting and so seem quick. Before
// it is timed, each size is checked for the right sum.
//
// It starts no process: the caller runs Rank, or the Python program Gloo, on
// every rank of a job, and hands what rank 0 printed to Result.Add. It judges
// nothing.
package bench
