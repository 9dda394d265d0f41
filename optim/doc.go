// Package optim is torch's Adam and AdamW on float32 parameters, the learning
// rate schedules of Hugging Face's Trainer, gradient clipping, and both of
// torch's state dicts, optimizer.pt and scheduler.pt, read and written.
//
// It promises:
//
//   - [Adam.Step] follows torch 2.14's order of operations; where its results
//     can differ from torch's, it is by one unit in the last place, in the last
//     len mod 8 elements of a parameter or under a torch built with MKL (see
//     [Implementation]).
//   - A state dict is rebuilt by group, order and shape, entirely or not at
//     all: [Adam.LoadStateDict] changes nothing if it returns an error.
//   - What a state dict holds and this package does not know is written back.
//   - Learning rates are the float64 that Python computes with a correctly
//     rounded cosine (see [NewSchedule]).
//
// It reads and writes no file, averages no gradients over ranks and starts no
// goroutine. The model owns parameters and gradients; an [Adam] owns its
// moments. Nothing here is safe for concurrent use.
package optim
